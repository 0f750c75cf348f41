package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"daybook/events"
	"daybook/projections"
)

func (s *stack) detail(id, query string) projections.ExecutionDetail {
	s.t.Helper()
	var d projections.ExecutionDetail
	s.do(http.MethodGet, "/api/executions/"+id+query, "").into(s.t, http.StatusOK, &d)
	return d
}

// Both forms of a submission record the same request and the actor.
func TestSubmissionIsRecorded(t *testing.T) {
	t.Parallel()
	s := start(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	agent := "agent/1.0 " + strings.Repeat("x", 500)
	body := `{"code":"let a = 'é😀'","heap":"` + someHeap + `","session":"s/ 1","heap_memory_max_mb":32,"execution_timeout_secs":7,"tags":{"env":"a=b","empty":""},"file_name":"x.ts"}`
	query := "?heap=" + someHeap + "&session=s/+1&heap_memory_max_mb=32&execution_timeout_secs=7&tag=env=a%3Db&tag=empty=&file_name=x.ts"
	for name, send := range map[string]func() answer{
		"JSON": func() answer {
			return s.do("POST", "/api/exec", body, "Content-Type", "application/json", "User-Agent", agent, "Traceparent", trace)
		},
		"JSON without type": func() answer {
			return s.do("POST", "/api/exec", body, "User-Agent", agent, "Traceparent", trace)
		},
		"JSON by curl -d": func() answer {
			return s.do("POST", "/api/exec", body, "Content-Type", "application/x-www-form-urlencoded", "User-Agent", agent, "Traceparent", trace)
		},
		"raw": func() answer {
			return s.do("POST", "/api/exec"+query, "let a = 'é😀'", "Content-Type", "application/typescript", "User-Agent", agent, "Traceparent", trace)
		},
	} {
		a := send()
		var out struct {
			ExecutionID string `json:"execution_id"`
		}
		a.into(t, http.StatusAccepted, &out)
		list, err := s.store.Execution(t.Context(), events.DefaultTenant, out.ExecutionID)
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %d events, %v", name, len(list), err)
		}
		if seq := a.Header.Get("Daybook-Sequence"); seq != strconv.FormatUint(list[0].Seq, 10) {
			t.Errorf("%s: Daybook-Sequence is %q, the event is at %d", name, seq, list[0].Seq)
		}
		e, _ := list[0].Data.(*events.ExecutionRequested)
		content := e.Content.Value()
		if content.Source.Text != "let a = 'é😀'" || e.Heap != someHeap || e.Session != "s/ 1" || e.FileName != "x.ts" ||
			e.Limits.HeapMemoryMaxMB != 32 || e.Limits.ExecutionTimeoutSecs != 7 || len(content.Tags) != 2 || content.Tags["env"] != "a=b" {
			t.Errorf("%s: recorded %+v %+v", name, e, content)
		}
		if a := e.Actor; a.Principal != "anonymous" || a.Transport != "http" || a.Address != "127.0.0.1" || len(a.Client) != 256 || !strings.HasPrefix(a.Client, "agent/1.0 x") {
			t.Errorf("%s: actor %+v", name, a)
		}
		if list[0].Traceparent != trace {
			t.Errorf("%s: traceparent is %q", name, list[0].Traceparent)
		}
	}
}

// A null argument is an absent one; an empty map of tags is not.
func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.submit(`{"code":"1","heap":null,"session":null,"heap_memory_max_mb":null,"execution_timeout_secs":null,"tags":null,"file_name":null}`)
	cleared := s.submit(`{"code":"1","tags":{}}`)
	for id, wantNil := range map[string]bool{id: true, cleared: false} {
		list, err := s.store.Execution(t.Context(), events.DefaultTenant, id)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := list[0].Data.(*events.ExecutionRequested)
		if tags := e.Content.Value().Tags; (tags == nil) != wantNil {
			t.Errorf("tags are %#v, want nil: %v", tags, wantNil)
		}
		if e.Limits.ExecutionTimeoutSecs != 30 || e.Limits.HeapMemoryMaxMB != 64 {
			t.Errorf("limits %+v", e.Limits)
		}
	}
}

func TestMalformedTraceparentIsIgnored(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, bad := range []string{
		"x", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		var out struct {
			ExecutionID string `json:"execution_id"`
		}
		s.do("POST", "/api/exec", `{"code":"1"}`, "Traceparent", bad).into(t, http.StatusAccepted, &out)
		list, err := s.store.Execution(t.Context(), events.DefaultTenant, out.ExecutionID)
		if err != nil || list[0].Traceparent != "" {
			t.Errorf("%q was recorded as %q (%v)", bad, list[0].Traceparent, err)
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	first := s.do("POST", "/api/exec", `{"code":"1"}`, "Idempotency-Key", "k1")
	again := s.do("POST", "/api/exec", `{ "code" : "1" }`, "Idempotency-Key", "k1")
	if first.StatusCode != 202 || again.StatusCode != 202 || string(first.body) != string(again.body) ||
		first.Header.Get("Daybook-Sequence") != again.Header.Get("Daybook-Sequence") {
		t.Errorf("the same key: %d %s at %s, then %d %s at %s", first.StatusCode, first.body, first.Header.Get("Daybook-Sequence"),
			again.StatusCode, again.body, again.Header.Get("Daybook-Sequence"))
	}
	other := s.do("POST", "/api/exec", `{"code":"2"}`, "Idempotency-Key", "k1")
	if other.StatusCode != http.StatusConflict || !strings.Contains(string(other.body), "idempotency_key") {
		t.Errorf("the same key for another body: %d %s", other.StatusCode, other.body)
	}
}

// Clients read their own writes without a header: an execution can be read as soon as
// its submission was answered.
func TestReadsFollowWrites(t *testing.T) {
	t.Parallel()
	s := start(t)
	for range 50 {
		id := s.submit(`{"code":"1"}`)
		if d := s.detail(id, ""); d.Status != events.StatusRunning || !d.Queued || d.Code != "1" {
			t.Fatalf("just submitted: %+v", d)
		}
	}
	a := s.do("PUT", "/api/heaps/"+someHeap+"/tags", `{"tags":{"a":"1"}}`)
	a.into(t, 200, nil)
	var got struct{ Tags map[string]string }
	s.do("GET", "/api/heaps/"+someHeap+"/tags", "").into(t, 200, &got)
	if got.Tags["a"] != "1" {
		t.Errorf("just tagged: %v", got.Tags)
	}
}

func TestMinSequence(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.do("POST", "/api/exec", `{"code":"1"}`)
	s.do("GET", "/api/executions", "", "Daybook-Min-Sequence", a.Header.Get("Daybook-Sequence")).into(t, 200, nil)
	// No write follows: the read fails after 5 s.
	late := s.do("GET", "/api/executions", "", "Daybook-Min-Sequence", "1000000")
	if late.StatusCode != http.StatusServiceUnavailable || late.Header.Get("Retry-After") == "" || !strings.Contains(string(late.body), "1000000") {
		t.Errorf("waiting for the future: %d %s", late.StatusCode, late.body)
	}
}

// A request that waits is answered as soon as the execution ends, before its time is up.
func TestWait(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.submit(`{"code":"1"}`)
	got := make(chan answer, 1)
	asked := make(chan struct{})
	go func() {
		close(asked)
		got <- s.do(http.MethodGet, "/api/executions/"+id+"?wait=60", "")
	}()
	<-asked
	s.begin(id).finish(events.StatusCompleted, "2", someHeap)
	var d projections.ExecutionDetail
	(<-got).into(t, 200, &d)
	if d.Status != events.StatusCompleted || d.Result == nil || *d.Result != "2" || d.Heap == nil || *d.Heap != someHeap {
		t.Errorf("waited for %+v", d)
	}
	running := s.submit(`{"code":"1"}`)
	if d := s.detail(running, "?wait=1"); d.Status != events.StatusRunning {
		t.Errorf("after the time was up: %s", d.Status)
	}
}

// The failure of a script is a result, not an error response.
func TestFailureIsAResult(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.submit(`{"code":"throw new Error('no')"}`)
	s.begin(id).finish(events.StatusFailed, "Error: no", "")
	d := s.detail(id, "")
	if d.Status != events.StatusFailed || d.Error == nil || *d.Error != "Error: no" || d.Result != nil || d.Warnings == nil {
		t.Errorf("%+v", d)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.submit(`{"code":"for(;;);"}`)
	a := s.do("POST", "/api/executions/"+id+"/cancel", "")
	if a.StatusCode != 200 || strings.TrimSpace(string(a.body)) != `{"ok":true}` || a.Header.Get("Daybook-Sequence") == "" {
		t.Errorf("cancel: %d %s", a.StatusCode, a.body)
	}
	if d := s.detail(id, ""); d.Status != events.StatusCancelled || d.CancelledBy == nil || d.CancelledBy.Transport != "http" {
		t.Errorf("after cancelling: %+v", d)
	}
	again := s.do("POST", "/api/executions/"+id+"/cancel", "")
	var p struct {
		OK    *bool
		Error string
	}
	if err := json.Unmarshal(again.body, &p); err != nil || again.StatusCode != http.StatusConflict || p.OK == nil || *p.OK || p.Error == "" {
		t.Errorf("cancel again: %d %s", again.StatusCode, again.body)
	}
}
