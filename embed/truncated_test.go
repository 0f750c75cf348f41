package embed_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/events"
)

// Output past the limit is counted and hashed, and whoever follows is told.
func TestTruncatedOutputIsTold(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Runs: embed.RunOptions{OutputMaxBytes: 100}})
	whole := strings.Repeat("a line\n", 50)
	for _, test := range []struct {
		lines int
		told  bool
	}{{50, true}, {14, false}} {
		e := run(t, book, embed.Script{Code: fmt.Sprintf("for (let i = 0; i < %d; i++) console.log('a line')", test.lines)})
		if e.OutputTruncated != test.told || (e.WrittenLines != nil) != test.told {
			t.Errorf("%d lines: truncated is %t, lines written %v", test.lines, e.OutputTruncated, e.WrittenLines)
		}
		req, err := http.NewRequestWithContext(within(t), http.MethodGet, book.URL()+"/api/executions/"+e.ExecutionID+"/output", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		var data string
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if name, ok := strings.CutPrefix(in.Text(), "event: "); ok {
				names = append(names, name)
			}
			if d, ok := strings.CutPrefix(in.Text(), "data: "); ok && len(names) == 1 && names[0] == "truncated" {
				data = d
			}
		}
		resp.Body.Close()
		if !test.told {
			if diff := cmp.Diff([]string{"end"}, names); diff != "" {
				t.Errorf("named events (-want +got):\n%s", diff)
			}
			continue
		}
		if diff := cmp.Diff([]string{"truncated", "end"}, names); diff != "" {
			t.Fatalf("named events (-want +got):\n%s", diff)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(data), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"execution_id": e.ExecutionID, "total_lines": 15.0, "total_bytes": 100.0,
			"written_lines": 50.0, "written_bytes": float64(len(whole)), "sha256": events.Hash([]byte(whole)),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what is told of the cut (-want +got):\n%s", diff)
		}
	}
}
