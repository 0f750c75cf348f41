package verdicts

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Table is the place of a table in docs/reliability.md: between two comments.
type Table struct {
	// Test is the name of the test that writes the table, and Command the command that runs it.
	Test, Command string
}

func (p Table) begin() string {
	return "<!-- The table of " + p.Test + " begins: " + p.Command + " writes it -->\n"
}
func (p Table) end() string { return "<!-- The table of " + p.Test + " ends -->\n" }

func (p Table) parts(t testing.TB) (path, before, table, after string) {
	t.Helper()
	path = filepath.Join(moduleRoot, "docs", "reliability.md")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), p.begin())
	table, after, end := strings.Cut(rest, p.end())
	if !ok || !end {
		t.Fatalf("%s has no table of %s", path, p.Test)
	}
	return path, before, table, after
}

// Read returns the table without empty lines around it.
func (p Table) Read(t testing.TB) string {
	t.Helper()
	_, _, table, _ := p.parts(t)
	return strings.Trim(table, "\n")
}

// Write replaces the table.
func (p Table) Write(t testing.TB, table string) {
	t.Helper()
	path, before, _, after := p.parts(t)
	if err := os.WriteFile(path, []byte(before+p.begin()+"\n"+strings.Trim(table, "\n")+"\n\n"+p.end()+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Tried returns the column "tried" of a table by the name in its first column, and the sum.
func (p Table) Tried(t testing.TB) (rows map[string]int, all int) {
	t.Helper()
	rows = map[string]int{}
	for line := range strings.Lines(p.Read(t)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue // below the table
		}
		if n, err := strconv.Atoi(strings.TrimSpace(cells[2])); err == nil {
			rows[strings.TrimSpace(cells[1])] = n
			all += n
		}
	}
	return rows, all
}
