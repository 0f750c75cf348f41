package embed_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/web/client"
)

// Output after the limit is counted and hashed, and followers receive the truncation.
func TestTruncatedOutputIsReported(t *testing.T) {
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
		var last client.Output
		for o, err := range client.New(book.URL(), client.Options{}).FollowOutput(within(t), e.ExecutionID) {
			if err != nil {
				t.Fatal(err)
			}
			if last.Truncated != nil {
				t.Errorf("after the truncation, %s follows", o.JSON)
			}
			last = o
		}
		if !test.told {
			if last.Truncated != nil || last.Line.Line != int64(test.lines) {
				t.Errorf("the last message is %s", last.JSON)
			}
			continue
		}
		want := &client.Truncated{
			ExecutionID: e.ExecutionID, TotalLines: 15, TotalBytes: 100,
			WrittenLines: new(int64(50)), WrittenBytes: new(int64(len(whole))), SHA256: new(events.Hash([]byte(whole))),
		}
		if diff := cmp.Diff(want, last.Truncated); diff != "" {
			t.Errorf("the reported truncation (-want +got):\n%s", diff)
		}
	}
}
