package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/projections"
)

// whole is a response with an ended execution and its output.
type whole struct {
	projections.ExecutionDetail
	*projections.OutputHead
}

// nextRequest waits for the next submission and starts it as a runner does.
func (s *stack) nextRequest(known ...string) *attempt {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		page, err := s.q.Executions(s.t.Context(), events.DefaultTenant, projections.ExecutionFilter{})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range page.Executions {
			if !slices.Contains(known, e.ExecutionID) {
				return s.begin(e.ExecutionID)
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatal("nothing was submitted")
		}
		s.catchUp()
	}
}

// A submission that waits is answered with the ended execution, or with its id if the
// execution does not end in time. Both forms of a body can wait.
func TestSubmitAndWait(t *testing.T) {
	t.Parallel()
	s := start(t)
	var known []string
	for name, send := range map[string]func() answer{
		"JSON": func() answer {
			return s.do("POST", "/api/exec?wait=60", `{"code":"1","heap":"`+someHeap+`"}`, "Content-Type", "application/json")
		},
		"raw": func() answer {
			return s.do("POST", "/api/exec?wait=60&heap="+someHeap, `1`, "Content-Type", "text/plain")
		},
	} {
		got := make(chan answer, 1)
		go func() { got <- send() }()
		a := s.nextRequest(known...)
		known = append(known, a.request.ExecutionID)
		a.print("one", "two")
		a.finish(events.StatusCompleted, "2", someHeap)
		answered := <-got
		var d whole
		answered.into(t, http.StatusOK, &d)
		if d.ExecutionID != a.request.ExecutionID || d.Status != events.StatusCompleted || d.Result == nil || *d.Result != "2" || d.Heap == nil || *d.Heap != someHeap ||
			d.TotalLines != 2 || d.OutputHead == nil || d.Output != "one\ntwo\n" || d.NextLineOffset != 3 || d.NextByteOffset != 8 || d.HasMore || len(d.Warnings) != 1 {
			t.Errorf("%s: %s", name, answered.body)
		}
		if answered.Header.Get("Daybook-Sequence") == "" || answered.Header.Get("Location") != "" {
			t.Errorf("%s: headers %v", name, answered.Header)
		}
	}
	late := s.do("POST", "/api/exec?wait=0", `{"code":"1"}`)
	var out map[string]any
	late.into(t, http.StatusAccepted, &out)
	if len(out) != 1 || late.Header.Get("Location") != "/api/executions/"+out["execution_id"].(string) {
		t.Errorf("not ended in time: %s, Location %q", late.body, late.Header.Get("Location"))
	}
	for _, wait := range []string{"-1", "61", "x"} {
		if a := s.do("POST", "/api/exec?wait="+wait, `{"code":"1"}`); a.StatusCode/100 != 4 || !strings.Contains(string(a.body), "wait") {
			t.Errorf("wait=%s: %d %s", wait, a.StatusCode, a.body)
		}
	}
}

// A submission without wait is answered with the id, a Location and the warnings.
func TestAccepted(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.do("POST", "/api/exec", `{"code":"1","heap":"`+someHeap+`","heap_memory_max_mb":3}`)
	var out struct {
		ExecutionID string   `json:"execution_id"`
		Warnings    []string `json:"warnings"`
	}
	a.into(t, http.StatusAccepted, &out)
	if len(out.Warnings) != 2 {
		t.Errorf("warnings %q", out.Warnings)
	}
	location := a.Header.Get("Location")
	if d := s.do("GET", location, ""); d.StatusCode != http.StatusOK || !strings.Contains(string(d.body), out.ExecutionID) {
		t.Errorf("%s leads to %d %s", location, d.StatusCode, d.body)
	}
}

// With require_heap, the heap must be recorded.
func TestRequireHeap(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, send := range map[string]func() answer{
		"in the body": func() answer {
			return s.do("POST", "/api/exec", `{"code":"1","heap":"`+someHeap+`","require_heap":true}`)
		},
		"in the query": func() answer {
			return s.do("POST", "/api/exec?require_heap=true", `{"code":"1","heap":"`+someHeap+`"}`)
		},
		"in the query of a script": func() answer {
			return s.do("POST", "/api/exec?require_heap=true&heap="+someHeap, `1`, "Content-Type", "text/plain")
		},
	} {
		a := send()
		var p httpapi.Problem
		if err := json.Unmarshal(a.body, &p); err != nil || a.StatusCode != http.StatusNotFound || p.Field != "heap" || !strings.Contains(p.Error, someHeap) || !strings.Contains(p.Error, "require_heap") {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if page, err := s.q.Executions(t.Context(), events.DefaultTenant, projections.ExecutionFilter{}); err != nil || len(page.Executions) != 0 {
		t.Errorf("refused submissions were recorded: %v, %v", page.Executions, err)
	}
	s.submit(`{"code":"1","heap":"` + someHeap + `","require_heap":false}`)
	s.submit(`{"code":"1","require_heap":true}`)
	if a := s.do("POST", "/api/exec", `{"code":"1","require_heap":"yes"}`); a.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a text: %d %s", a.StatusCode, a.body)
	}
}

// 5.0 is 5, as in MCP; a fraction is refused.
func TestWholeNumbers(t *testing.T) {
	t.Parallel()
	s := start(t)
	for number, want := range map[string]int{"5.0": 5, "5e0": 5, "0.5e1": 5, "5": 5} {
		id := s.submit(`{"code":"1","execution_timeout_secs":` + number + `}`)
		s.catchUp()
		if d := s.detail(id, ""); d.ExecutionTimeoutSecs != want {
			t.Errorf("%s became %d", number, d.ExecutionTimeoutSecs)
		}
	}
	for _, number := range []string{"5.5", "1e-1", `"5"`, "99999999999999999999", "1e300"} {
		if a := s.do("POST", "/api/exec", `{"code":"1","execution_timeout_secs":`+number+`}`); a.StatusCode/100 != 4 {
			t.Errorf("%s: %d %s", number, a.StatusCode, a.body)
		}
	}
}

// countingQueries counts the reads of executions.
type countingQueries struct {
	httpapi.Queries
	reads *atomic.Int64
}

func (c countingQueries) Execution(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error) {
	c.reads.Add(1)
	return c.Queries.Execution(ctx, tenant, id)
}

// A client that waits for the end costs two reads, however much the run writes. The
// limits for followers do not delay it.
func TestWaitReadsTwice(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	s := start(t, func(o *httpapi.Options) { o.Queries = countingQueries{o.Queries, &reads} })
	id := s.submit(`{"code":"1"}`)
	a := s.begin(id)
	got := make(chan answer, 1)
	go func() { got <- s.do("GET", "/api/executions/"+id+"?wait=60", "") }()
	for deadline := time.Now().Add(patience); reads.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no request reads the execution")
		}
	}
	for range 30 {
		a.print("a line")
	}
	a.finish(events.StatusCompleted, "2", "")
	var d whole
	(<-got).into(t, http.StatusOK, &d)
	if d.Status != events.StatusCompleted || d.OutputHead == nil || d.TotalLines != 30 {
		t.Errorf("%+v", d)
	}
	if n := reads.Load(); n > 2 {
		t.Errorf("read %d times", n)
	}
}
