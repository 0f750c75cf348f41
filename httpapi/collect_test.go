package httpapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// serveCollector adds the collection of heaps, with a clock that is ahead.
func (s *stack) serveCollector(ahead time.Duration) {
	s.t.Helper()
	service := retention.New(retention.Options{
		Feed: s.store, Recorder: s.ledger, Blobs: s.store, Now: func() time.Time { return time.Now().Add(ahead) }, Logger: storetest.Logger(s.t),
	})
	s.serve(func(o *httpapi.Options) { o.Collector = service })
}

// runWithHeap records a run with an output heap.
func (s *stack) runWithHeap(content string) string {
	s.t.Helper()
	heap, err := s.store.PutHeap(s.t.Context(), events.DefaultTenant, []byte(content), "e")
	if err != nil {
		s.t.Fatal(err)
	}
	id := s.submit(`{"code":"1"}`)
	if _, err := s.store.Append(s.t.Context(), events.New(events.DefaultTenant, time.Now(), events.NewEnding(events.StatusCompleted, events.Ending{
		ExecutionID: id, Heap: &events.HeapRecord{SHA256: heap, Size: int64(len(content)), EngineID: "e"},
	})), ledger.AnyPosition); err != nil {
		s.t.Fatal(err)
	}
	if err := s.q.Wait(s.t.Context(), s.lastSeq()); err != nil {
		s.t.Fatal(err)
	}
	return heap
}

func TestCollectHeaps(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.do("POST", "/api/heaps/collect", "{}").into(t, http.StatusServiceUnavailable, nil)
	s.serveCollector(31 * 24 * time.Hour)
	heap := s.runWithHeap("state")
	for body, want := range map[string]string{
		`{"older_than_secs":3599}`: "older_than_secs", `{"keep_entries":-1}`: "keep_entries", `{"dry_run":1}`: "dry_run must be true or false, not a number", `{"unknown":1}`: "unknown",
	} {
		a := s.do("POST", "/api/heaps/collect", body)
		if a.StatusCode/100 != 4 || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.body)
		}
	}
	var report retention.Report
	s.do("POST", "/api/heaps/collect", `{"dry_run":true}`).into(t, http.StatusOK, &report)
	if !report.DryRun || report.Collected != 1 || len(report.List) != 1 || report.List[0].Heap != heap || report.List[0].Seq != 0 {
		t.Errorf("dry: %+v", report)
	}
	s.do("GET", "/api/heaps/"+heap, "").into(t, http.StatusOK, nil)

	report = retention.Report{}
	a := s.do("POST", "/api/heaps/collect", "")
	a.into(t, http.StatusOK, &report)
	if report.Collected != 1 || report.List[0].Seq == 0 || a.Header.Get("Daybook-Sequence") != strconv.FormatUint(report.List[0].Seq, 10) {
		t.Fatalf("%+v, sequence %s", report, a.Header.Get("Daybook-Sequence"))
	}
	want := "by event " + strconv.FormatUint(report.List[0].Seq, 10)
	for _, a := range []answer{
		s.do("GET", "/api/heaps/"+heap, "", "Daybook-Min-Sequence", a.Header.Get("Daybook-Sequence")),
		s.do("POST", "/api/exec", `{"code":"1","heap":"`+heap+`"}`),
	} {
		if a.StatusCode != http.StatusGone || !strings.Contains(string(a.body), want) || !strings.Contains(string(a.body), `"code":"gone"`) {
			t.Errorf("%s: %d %s", a.Request.URL.Path, a.StatusCode, a.body)
		}
	}
	if got := s.foundHeaps(""); len(got) != 0 {
		t.Errorf("listed: %q", got)
	}
}
