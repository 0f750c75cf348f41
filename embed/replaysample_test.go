package embed_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"daybook/embed"
	"daybook/events"
	"daybook/httpapi"
)

// The scrub replays a sample of the runs that it reads, each once for each engine.
func TestReplaySample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	content := embed.ContentOptions{Erasable: true}
	book := start(t, embed.Options{DataDir: dir, Content: content})
	plain := run(t, book, embed.Script{Code: `4`, Heap: "none"})
	shredded := run(t, book, embed.Script{Code: `5`, Session: "private"})
	if status, body := answerOf(t, book, http.MethodDelete, "/api/sessions/private/content"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	same := run(t, book, embed.Script{Code: `console.log(Math.random()); 1`})
	other := run(t, book, embed.Script{Code: `throw new Error("no")`})
	verdicts := func() (list string) {
		_, list = answerOf(t, book, http.MethodGet, "/api/events?type="+string(events.TypeExecutionReplayed))
		return list
	}
	await := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) { // a poll of the condition
			if time.Now().After(end) {
				t.Fatal("waited too long until " + what)
			}
		}
	}
	// sample starts servers that replay all runs, until one has replayed an execution. A pass
	// covers the events that are hashed when it starts, which can be without the newest.
	sample := func(execution string) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !strings.Contains(verdicts(), execution); {
			if time.Now().After(end) {
				t.Fatal("no pass of the scrub reaches the newest run")
			}
			closeBook(t, book)
			book = start(t, embed.Options{DataDir: dir, Content: content, Proof: embed.ProofOptions{ReplaySample: 1}})
			var progress httpapi.ScrubReport
			await("the scrub has made a pass", func() bool {
				_, body := answerOf(t, book, http.MethodGet, "/api/ledger/scrub")
				if err := json.Unmarshal([]byte(body), &progress); err != nil {
					t.Fatal(err)
				}
				return progress.Rounds > 0
			})
			if e, err := book.History(within(t), execution); err != nil || progress.End < e[len(e)-1].Seq {
				continue
			}
			await("the newest run is replayed", func() bool { return strings.Contains(verdicts(), execution) })
		}
	}
	sample(other.ExecutionID)
	list := verdicts()
	for _, id := range []string{plain.ExecutionID, shredded.ExecutionID, same.ExecutionID} {
		if !strings.Contains(list, id) {
			t.Errorf("%s is not replayed", id)
		}
	}
	if !strings.Contains(list, `"transport":"scrub"`) || strings.Count(list, `"verdict":`) != 4 {
		t.Errorf("the verdicts: %s", list)
	}
	third := run(t, book, embed.Script{Code: `3`})
	sample(third.ExecutionID)
	if n := strings.Count(verdicts(), `"verdict":`); n != 5 {
		t.Errorf("%d verdicts, want 5", n)
	}
}
