package frozen_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
)

// TestOpenRuns starts a runner on the directory. The runs that a crash left open end with
// the expected outcome, and the events before are unchanged.
func TestOpenRuns(t *testing.T) {
	t.Parallel()
	dir := unpack(t)
	book := start(t, dir.quietOptions())
	before := ledgerOf(t, book)
	open := executionsOf(t, dir, book, "running")
	closeBook(t, book)
	if len(open) != 6 {
		t.Fatalf("%d runs are open: %+v", len(open), open)
	}

	// Cancel one of them before the runner starts.
	book = start(t, dir.quietOptions())
	dir.tokens.must(t, book, operator, http.MethodPost, "/api/executions/"+open[5]+"/cancel", "", nil)
	closeBook(t, book)

	opts := dir.quietOptions()
	opts.Runs.Elsewhere, opts.Slots.Total, opts.Slots.Extra, opts.Workers.Sandbox = false, 2, -1, "best-effort"
	book = start(t, opts)
	var b strings.Builder
	for _, id := range open {
		var detail struct {
			Status, Reason, Result, Error *string
			Attempt                       *int
		}
		for detail.Status == nil || *detail.Status == string(events.StatusRunning) {
			dir.tokens.must(t, book, operator, http.MethodGet, "/api/executions/"+id+"?wait=60", "", &detail)
		}
		raw, err := json.Marshal(detail)
		if err != nil {
			t.Fatal(err)
		}
		history, err := book.History(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n%s\n", id, raw)
		for _, h := range history {
			fmt.Fprintf(&b, "\t%s\n", h.Type)
		}
		output := dir.tokens.ask(t, book, operator, http.MethodGet, "/api/executions/"+id+"/output", "")
		var page struct{ Data string }
		if err := json.Unmarshal(output.body, &page); err != nil {
			t.Fatalf("%v in %s", err, output.body)
		}
		fmt.Fprintf(&b, "\t%q\n", page.Data)
	}
	golden(t, "open.txt", []byte(b.String()))
	if left := executionsOf(t, dir, book, "running"); len(left) > 0 {
		t.Errorf("still open: %+v", left)
	}

	after := ledgerOf(t, book)
	if len(after) <= len(before) {
		t.Fatalf("%d events, then %d", len(before), len(after))
	}
	for i, e := range before {
		if was, is := record(t, e), record(t, after[i]); !bytes.Equal(was, is) {
			t.Errorf("event %d was\n%s\nand is\n%s", e.Seq, was, is)
		}
	}
	closeBook(t, book)
	r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir.data})
	if err != nil || r.Verdict != embed.Unauthenticated {
		t.Errorf("verify: %v\n%s", err, r)
	}
}

func record(t *testing.T, e events.Event) []byte {
	t.Helper()
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// executionsOf lists executions of the operator, oldest first.
func executionsOf(t *testing.T, dir directory, book *embed.Daybook, status string) (ids []string) {
	t.Helper()
	var list struct {
		Executions []struct {
			ID string `json:"execution_id"`
		}
	}
	dir.tokens.must(t, book, operator, http.MethodGet, "/api/executions?status="+status, "", &list)
	for _, e := range slices.Backward(list.Executions) {
		ids = append(ids, e.ID)
	}
	return ids
}
