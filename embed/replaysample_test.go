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
	book := start(t, embed.Options{DataDir: dir})
	same := run(t, book, embed.Script{Code: `console.log(Math.random()); 1`})
	other := run(t, book, embed.Script{Code: `throw new Error("no")`})
	closeBook(t, book)

	book = start(t, embed.Options{DataDir: dir, Proof: embed.ProofOptions{ReplaySample: 1}})
	await := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) { // a poll of the condition
			if time.Now().After(end) {
				t.Fatal("waited too long until " + what)
			}
		}
	}
	verdicts := func() (list string) {
		_, list = answerOf(t, book, http.MethodGet, "/api/events?type="+string(events.TypeExecutionReplayed))
		return list
	}
	await("both runs are replayed", func() bool { return strings.Count(verdicts(), `"verdict":`) == 2 })
	if list := verdicts(); !strings.Contains(list, `"transport":"scrub"`) || !strings.Contains(list, same.ExecutionID) || !strings.Contains(list, other.ExecutionID) {
		t.Errorf("the verdicts: %s", list)
	}
	closeBook(t, book)

	// Later servers find that the runs have a verdict of their engine. A pass covers the events
	// that are hashed when it starts, which can be without the newest.
	book = start(t, embed.Options{DataDir: dir})
	third := run(t, book, embed.Script{Code: `3`})
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(verdicts(), third.ExecutionID); {
		if time.Now().After(end) {
			t.Fatal("no pass of the scrub reaches the newest run")
		}
		closeBook(t, book)
		book = start(t, embed.Options{DataDir: dir, Proof: embed.ProofOptions{ReplaySample: 1}})
		await("the scrub has made a pass", func() bool {
			_, body := answerOf(t, book, http.MethodGet, "/api/ledger/scrub")
			return !strings.Contains(body, `"rounds":0`)
		})
		var progress httpapi.ScrubReport
		_, body := answerOf(t, book, http.MethodGet, "/api/ledger/scrub")
		if err := json.Unmarshal([]byte(body), &progress); err != nil {
			t.Fatal(err)
		}
		if e, err := book.History(within(t), third.ExecutionID); err != nil || progress.End < e[len(e)-1].Seq {
			continue // the pass did not reach it
		}
		await("the new run is replayed", func() bool { return strings.Contains(verdicts(), third.ExecutionID) })
	}
	if n := strings.Count(verdicts(), `"verdict":`); n != 3 {
		t.Errorf("%d verdicts, want 3", n)
	}
}
