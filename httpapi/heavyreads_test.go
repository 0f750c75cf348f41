package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/resources/reads"
	"daybook/projections"
)

// slowLists returns a list when the test allows it.
type slowLists struct {
	*projections.Store
	started, answer chan struct{}
}

func (s slowLists) Executions(ctx context.Context, tenant string, f projections.ExecutionFilter) (projections.ExecutionPage, error) {
	s.started <- struct{}{}
	<-s.answer
	return s.Store.Executions(ctx, tenant, f)
}

// One heavy read of a tenant runs at a time. Others wait, and too many are refused with
// a Retry-After. Small reads and runs are not delayed.
func TestHeavyReadsQueue(t *testing.T) {
	t.Parallel()
	lists := slowLists{started: make(chan struct{}, 10), answer: make(chan struct{})}
	gate := reads.New(reads.Options{Running: 1, Waiting: 1})
	s := start(t, func(o *httpapi.Options) {
		lists.Store = o.Queries.(*projections.Store)
		o.Queries, o.Reads = lists, gate
	})
	submitted := s.do("POST", "/api/exec", "1", "Content-Type", "text/plain")
	id := strings.TrimPrefix(submitted.Header.Get("Location"), "/api/executions/")
	opened := s.do("POST", "/api/logical-sessions", `{"intent":"long","seeds":["builtin"]}`, "Content-Type", "application/json")
	var session struct {
		ID string `json:"session_id"`
	}
	if err := json.Unmarshal(opened.body, &session); err != nil {
		t.Fatalf("%v in %s", err, opened.body)
	}
	statuses := make(chan int, 2)
	list := func() { statuses <- s.do("GET", "/api/executions", "").StatusCode }
	go list()
	<-lists.started
	go list()
	for gate.Stats().Waiting == 0 {
		select {
		case <-lists.started:
			t.Fatal("two lists of a tenant are read at once")
		case <-t.Context().Done():
			t.Fatal("the second list does not wait")
		default:
		}
	}
	for _, path := range []string{"/api/executions", "/api/heaps", "/openapi.json", "/api/sessions/x/entries"} {
		a := s.do("GET", path, "")
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "2" || !strings.Contains(string(a.body), "heavy reads of this tenant wait") {
			t.Errorf("%s beside two lists: %s, %q: %s", path, a.Status, a.Header.Get("Retry-After"), a.body)
		}
	}
	reset := func(body string) answer {
		return s.do("POST", "/api/sessions/"+session.ID+"/reset", body, "Content-Type", "application/json")
	}
	if a := reset(`{"heap":"` + strings.Repeat("ab", 32) + `"}`); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "heavy reads of this tenant wait") {
		t.Errorf("a reset to a heap, which reads the whole session: %s %s", a.Status, a.body)
	}
	if a := reset(`{}`); a.StatusCode != http.StatusOK {
		t.Errorf("a reset to a fresh isolate: %s %s", a.Status, a.body)
	}
	for _, path := range []string{"/api/executions/" + id, "/api/executions/" + id + "/output", "/healthz"} {
		if a := s.do("GET", path, ""); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", path, a.Status, a.body)
		}
	}
	if a := s.do("POST", "/api/exec", `{"code":"1"}`, "Content-Type", "application/json"); a.StatusCode != http.StatusAccepted {
		t.Errorf("a run: %s %s", a.Status, a.body)
	}
	for range 2 {
		lists.answer <- struct{}{}
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("a list: %d", status)
		}
	}
	if a := s.do("GET", "/api/heaps", ""); a.StatusCode != http.StatusOK || gate.Stats().Running != 0 {
		t.Errorf("after the lists: %s, %+v", a.Status, gate.Stats())
	}
}

// hungLog is a ledger whose server does not answer until the test allows it.
type hungLog struct {
	httpapi.EventLog
	gate    *reads.Gate
	running chan int // permits held meanwhile
}

func (l hungLog) Read(ctx context.Context, after uint64, limit int) ([]events.Event, error) {
	err := reads.Wait(ctx, func() error {
		l.running <- l.gate.Stats().Running
		return nil
	})
	if err != nil || l.gate.Stats().Running != 1 {
		return nil, fmt.Errorf("read without a permit: %w", err)
	}
	return l.EventLog.Read(ctx, after, limit)
}

// A page of events that waits for the ledger holds no permit, so that it does not delay
// other reads of its tenant.
func TestEventsWaitWithoutPermit(t *testing.T) {
	t.Parallel()
	gate, running := reads.New(reads.Options{Running: 1}), make(chan int, 10)
	s := start(t, func(o *httpapi.Options) { o.Reads, o.Events = gate, hungLog{o.Events, gate, running} })
	s.submit(`{"code":"1"}`)
	if a := s.do("GET", "/api/events", ""); a.StatusCode != http.StatusOK || len(a.body) == 0 {
		t.Errorf("the events: %s %s", a.Status, a.body)
	}
	if n := <-running; n != 0 {
		t.Errorf("%d permits are held while the page waits", n)
	}
}
