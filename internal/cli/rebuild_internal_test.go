package cli

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/internal/cli/terminal"
)

// The comparison names each file, and its first differences in a line each.
func TestPrintComparisons(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	err := printComparisons(terminal.New(&b), []embed.Comparison{
		{File: "projections.db", Skipped: "it has no checksum file"},
		{File: "a.zst", Position: 7, Rows: 1},
		{File: "b.zst", Position: 9, Rows: 5, Different: 3, First: []embed.Difference{
			{Table: "executions", Row: "4", Columns: []string{"status", "attempt"}},
			{Table: "heaps", Row: "default aa", OnlyRebuilt: true},
			{Table: "sessions", Row: "line\nend", OnlyCompared: true},
		}},
	})
	want := `projections.db was not compared: it has no checksum file.
a.zst as of 7 is equal: 1 row.
b.zst as of 9 differs in 3 of 5 rows:
  executions 4: another status, attempt
  heaps default aa: missing
  sessions line end: of no event
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	if err == nil || err.Error() != "b.zst differed from what the events give; the projections are replaced, and copies that differed are deleted" {
		t.Errorf("error %v", err)
	}
}
