package projections_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

// TestLifeOfAnExecution checks all results about a run after each of its events.
func TestLifeOfAnExecution(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	operator := events.Actor{Principal: "ops", Transport: "mcp-http"}
	want := projections.ExecutionDetail{
		Execution: projections.Execution{ExecutionID: id(1), Status: events.StatusRunning, StartedAt: at(1)},
		Queued:    true, RequestedAt: at(1), RequestedHeap: ptr(heap(5)), Session: ptr("notes"), Code: "run(1)", FileName: "main.ts", Actor: client,
		HeapMemoryMaxMB: 64, ExecutionTimeoutSecs: 30, Warnings: []string{"raised"}, Seq: 1,
	}
	x := events.Extent{Line: 2, Byte: 2}
	steps := []struct {
		name string
		data events.Data
		then func()
	}{
		{"requested", requested(1, inSession("notes"), func(d *events.ExecutionRequested) { d.Heap, d.Warnings = heap(5), []string{"raised"} }), func() {}},
		{"started", func() events.Data {
			d := started(1, 1, fresh, heap(5))
			d.Warnings = []string{"raised", "fresh"}
			return d
		}(), func() {
			want.QueuedMillis = ptr[int64](1000)
			want.Queued, want.StartedAt, want.Attempt, want.InputHeap, want.EngineID, want.Seq = false, at(2), 1, ptr(heap(5)), ptr("engine"), 2
			want.Warnings = []string{"raised", "fresh"}
		}},
		{"output", output(1, 1, fresh, pieces("a\nb")...), func() { want.TotalLines, want.TotalBytes, want.Seq = 2, 3, 3 }},
		{"handed back", &events.ExecutionHandedBack{ExecutionID: id(1), Attempt: 1}, func() { want.Queued, want.Seq = true, 4 }},
		{"started again", started(1, 1, events.Extent{Line: 3, Byte: 4}, ""), func() {
			want.Queued, want.InputHeap, want.TotalBytes, want.Seq = false, nil, 4, 5
		}},
		{"next attempt, planned before the b", started(1, 2, x, heap(6)), func() {
			want.Attempt, want.InputHeap, want.TotalLines, want.TotalBytes, want.Seq = 2, ptr(heap(6)), 1, 2, 6
		}},
		{"cancel requested", &events.ExecutionCancelRequested{ExecutionID: id(1), Actor: operator}, func() { want.Seq = 7 }},
		{"cancelled", ended(1, events.StatusCancelled, func(e *events.Ending) {
			e.Actor, e.Reason, e.Usage = &operator, "cancelled", &events.Usage{CPUMillis: 1, WallMillis: 2, PeakHeapBytes: 3}
			e.Content = events.Plain(events.EndingContent{Error: &events.Body{Text: "Cancelled by user"}})
			e.Warnings = []string{"late"}
		}), func() {
			want.Status, want.CompletedAt, want.Error, want.Reason, want.CancelledBy = events.StatusCancelled, ptr(at(8)), ptr("Cancelled by user"), ptr("cancelled"), &operator
			want.Usage, want.Warnings, want.Seq = &events.Usage{CPUMillis: 1, WallMillis: 2, PeakHeapBytes: 3}, []string{"raised", "fresh", "late"}, 8
		}},
	}
	for _, step := range steps {
		b.add(step.data)
		apply(t, s, b)
		step.then()
		got, err := s.Execution(t.Context(), tenant, id(1))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: %s", step.name, diff)
		}
	}
	noAnomalies(t, s)
}

func TestEndings(t *testing.T) {
	t.Parallel()
	for _, status := range []events.Status{events.StatusCompleted, events.StatusFailed, events.StatusTimedOut, events.StatusCancelled} {
		b, s := newMemoryLedger(), open(t, projections.Options{})
		b.add(requested(1), started(1, 1, fresh, ""), ended(1, status, leaving(heap(1), ""), func(e *events.Ending) {
			e.Content = events.Plain(events.EndingContent{Result: &events.Body{Text: ""}, ResultTruncated: true, Error: &events.Body{Text: "boom"}})
		}))
		apply(t, s, b)
		d, err := s.Execution(t.Context(), tenant, id(1))
		want := projections.Execution{ExecutionID: id(1), Status: status, Result: ptr(""), Heap: ptr(heap(1)), Error: ptr("boom"), StartedAt: at(2), CompletedAt: ptr(at(3))}
		if diff := cmp.Diff(want, d.Execution); diff != "" || err != nil || !d.ResultTruncated || d.Queued {
			t.Errorf("%s: %s, error %v", status, diff, err)
		}
	}
}

// TestTimersCancelled checks that the count in the terminal event becomes a warning.
func TestTimersCancelled(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		1: "the run failed, so 1 timer that it or earlier runs had set was cancelled; a later run that needs them sets them again",
		3: "the run failed, so 3 timers that it or earlier runs had set were cancelled; a later run that needs them sets them again",
	} {
		b, s := newMemoryLedger(), open(t, projections.Options{})
		b.add(requested(1), started(1, 1, fresh, ""), ended(1, events.StatusFailed, func(e *events.Ending) {
			e.TimersCancelled, e.Warnings = n, []string{"late"}
		}))
		apply(t, s, b)
		d, err := s.Execution(t.Context(), tenant, id(1))
		if diff := cmp.Diff([]string{"late", want}, d.Warnings); diff != "" || err != nil {
			t.Errorf("%d timers: %s, error %v", n, diff, err)
		}
	}
}

// TestOutputBeyondTheLimit checks that output that was not stored causes a warning.
func TestOutputBeyondTheLimit(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1), started(1, 1, fresh, ""), ended(1, events.StatusCompleted, func(e *events.Ending) {
		e.Output = &events.OutputTotals{Lines: 2, Bytes: 75_000_002, SHA256: heap(1), Truncated: true}
	}))
	apply(t, s, b)
	d, err := s.Execution(t.Context(), tenant, id(1))
	want := []string{"the script wrote 75000002 bytes of output; what is beyond the limit is not stored"}
	if diff := cmp.Diff(want, d.Warnings); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
}

// TestNothingFollowsAnEnd checks that events after the terminal event change nothing
// and are recorded as anomalies.
func TestNothingFollowsAnEnd(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1), started(1, 1, fresh, ""), ended(1, events.StatusTimedOut))
	apply(t, s, b)
	before, err := s.Execution(t.Context(), tenant, id(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []events.Data{
		ended(1, events.StatusCompleted, leaving(heap(1), "")),
		started(1, 2, fresh, ""),
		&events.ExecutionHandedBack{ExecutionID: id(1), Attempt: 1},
		requested(1, inSession("other")),
	} {
		seq := b.add(d)
		apply(t, s, b)
		after, err := s.Execution(t.Context(), tenant, id(1))
		if diff := cmp.Diff(before, after); diff != "" || err != nil {
			t.Errorf("%s changed %s, error %v", events.TypeOf(d), diff, err)
		}
		if list := broken(t, s); len(list) == 0 || list[len(list)-1].Seq != seq {
			t.Errorf("%s is not noted at %d: %v", events.TypeOf(d), seq, list)
		}
	}
	if _, err := s.Heap(t.Context(), tenant, heap(1)); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("the heap of a second end is stored: %v", err)
	}
}

// TestEventsOfNoExecution checks that each kind of event has no effect without its
// request.
func TestEventsOfNoExecution(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(
		started(1, 1, fresh, ""), output(1, 1, fresh, pieces("x\n")...), &events.ExecutionOutputTruncated{ExecutionID: id(1)},
		&events.ExecutionCancelRequested{ExecutionID: id(1)}, &events.ExecutionHandedBack{ExecutionID: id(1)}, ended(1, events.StatusFailed, leaving(heap(1), "")),
		&events.SessionEntryRecorded{SessionID: events.SessionID(tenant, "s"), Session: "s", ExecutionID: id(1)},
	)
	b.addFor("another", requested(1))
	b.add(ended(1, events.StatusFailed))
	apply(t, s, b)
	list := broken(t, s)
	if len(list) != 8 {
		t.Errorf("%d anomalies, want 8", len(list))
	}
	for _, a := range list {
		if !strings.Contains(a.What, "never requested") || !strings.Contains(a.What, id(1)) {
			t.Errorf("anomaly %+v", a)
		}
	}
	if names, _, err := s.SessionNames(t.Context(), tenant, 0, ""); err != nil || len(names) != 0 {
		t.Errorf("sessions %v, error %v", names, err)
	}
	if _, err := s.Execution(t.Context(), tenant, id(1)); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	if d, err := s.Execution(t.Context(), "another", id(1)); err != nil || d.Status != events.StatusRunning {
		t.Errorf("another tenant's: %v, error %v", d.Status, err)
	}
}

func TestLargeText(t *testing.T) {
	t.Parallel()
	blob := func(n int) events.Body {
		return events.Body{Blob: &events.BlobRef{SHA256: heap(n), Size: 9, Preview: fmt.Sprintf("preview %d", n)}}
	}
	b := newMemoryLedger()
	b.add(
		requested(1, inSession("s"), func(d *events.ExecutionRequested) { d.Content.Plain.Source = blob(1) }), started(1, 1, fresh, ""),
		ended(1, events.StatusFailed, func(e *events.Ending) {
			e.Content = events.Plain(events.EndingContent{Result: ptr(blob(2)), Error: ptr(blob(3))})
		}),
		&events.SessionEntryRecorded{SessionID: events.SessionID(tenant, "s"), Session: "s", ExecutionID: id(1), Status: events.StatusFailed},
	)
	for name, tt := range map[string]struct {
		texts projections.Texts
		want  [3]string
	}{
		"resolved": {texts{tenant + "/" + heap(1): "source", tenant + "/" + heap(2): "result", tenant + "/" + heap(3): "error"}, [3]string{"source", "result", "error"}},
		"previews": {nil, [3]string{"preview 1", "preview 2", "preview 3"}},
	} {
		s := open(t, projections.Options{Texts: tt.texts})
		apply(t, s, b)
		d, err := s.Execution(t.Context(), tenant, id(1))
		if err != nil || d.Code != tt.want[0] || *d.Result != tt.want[1] || *d.Error != tt.want[2] {
			t.Errorf("%s: %q %q %q, error %v", name, d.Code, *d.Result, *d.Error, err)
		}
		list, err := s.Entries(t.Context(), tenant, "s")
		if err != nil || len(list) != 1 || list[0].Code != tt.want[0] {
			t.Errorf("%s: entries %v, error %v", name, list, err)
		}
	}
	s := open(t, projections.Options{Texts: texts{}})
	apply(t, s, b)
	if _, err := s.Execution(t.Context(), tenant, id(1)); err == nil || !strings.Contains(err.Error(), "source of execution "+id(1)) {
		t.Errorf("a missing text: %v", err)
	}
	if _, err := s.Entries(t.Context(), tenant, "s"); err == nil || !strings.Contains(err.Error(), `entry 0 of session "s"`) {
		t.Errorf("a missing text: %v", err)
	}
}

// names shortens the ids of a page to their numbers.
func names(p projections.ExecutionPage) (list []int) {
	for _, e := range p.Executions {
		var n int
		_, _ = fmt.Sscanf(e.ExecutionID, "00000000-0000-7000-8000-%d", &n)
		list = append(list, n)
	}
	return list
}

func TestFilters(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1, inSession("s")), requested(2), requested(3, inSession("s"), withTags(map[string]string{"a": "1", "b": "2"})), requested(4, inSession("other")))
	b.addFor("another", requested(5, inSession("s")))
	b.add(started(2, 1, fresh, ""), ended(2, events.StatusFailed, leaving(heap(2), "")), started(3, 1, fresh, ""), ended(3, events.StatusCompleted, leaving(heap(3), "")))
	b.add(tagged(heap(2), map[string]string{"a": "1"}, events.EditSet, 0))
	apply(t, s, b)
	tests := []struct {
		name   string
		filter projections.ExecutionFilter
		want   []int
	}{
		{"all, newest first", projections.ExecutionFilter{}, []int{4, 3, 2, 1}},
		{"all, limited", projections.ExecutionFilter{Limit: 1000}, []int{4, 3, 2, 1}},
		{"running", projections.ExecutionFilter{Status: events.StatusRunning}, []int{4, 1}},
		{"failed", projections.ExecutionFilter{Status: events.StatusFailed}, []int{2}},
		{"timed out", projections.ExecutionFilter{Status: events.StatusTimedOut}, nil},
		{"of a session", projections.ExecutionFilter{Session: "s"}, []int{3, 1}},
		{"of a session and completed", projections.ExecutionFilter{Session: "s", Status: events.StatusCompleted, Limit: 5}, []int{3}},
		{"of no session", projections.ExecutionFilter{Session: "nowhere"}, nil},
		{"by a tag", projections.ExecutionFilter{Tags: map[string]string{"a": "1"}}, []int{3, 2}},
		{"by two tags", projections.ExecutionFilter{Tags: map[string]string{"a": "1", "b": "2"}}, []int{3}},
		{"by a tag that no heap has", projections.ExecutionFilter{Tags: map[string]string{"a": "2"}}, nil},
	}
	for _, tt := range tests {
		p, err := s.Executions(t.Context(), tenant, tt.filter)
		if err != nil || !slices.Equal(names(p), tt.want) || p.NextCursor != "" || p.Executions == nil {
			t.Errorf("%s: %v, want %v, cursor %q, error %v", tt.name, names(p), tt.want, p.NextCursor, err)
		}
	}
	p, err := s.Executions(t.Context(), tenant, projections.ExecutionFilter{Status: events.StatusFailed})
	want := []projections.ExecutionSummary{{ExecutionID: id(2), Status: events.StatusFailed, StartedAt: at(6), CompletedAt: ptr(at(7))}}
	if diff := cmp.Diff(want, p.Executions); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
}

// TestDocumentedList checks that the default list holds all running executions and the
// newest 1,000 ended ones, and that its further pages hold every older one once.
func TestDocumentedList(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	const total = 2300
	running := map[int]bool{1: true, 700: true, 1100: true, 2000: true, total: true}
	for n := 1; n <= total; n++ {
		b.add(requested(n))
		if !running[n] {
			b.add(ended(n, events.StatusCompleted))
		}
	}
	apply(t, s, b)
	p, err := s.Executions(t.Context(), tenant, projections.ExecutionFilter{})
	if err != nil {
		t.Fatal(err)
	}
	list := names(p)
	if len(list) != 1005 || !slices.IsSortedFunc(list, func(a, b int) int { return b - a }) {
		t.Fatalf("%d executions on the first page", len(list))
	}
	for _, limit := range []int{0, 7, 400} {
		seen := slices.Clone(list)
		for cursor := p.NextCursor; cursor != ""; {
			next, err := s.Executions(t.Context(), tenant, projections.ExecutionFilter{Limit: limit, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			if len(next.Executions) == 0 || limit > 0 && len(next.Executions) > limit {
				t.Fatalf("%d executions on a page of %d", len(next.Executions), limit)
			}
			seen, cursor = append(seen, names(next)...), next.NextCursor
		}
		slices.Sort(seen)
		if len(seen) != total || len(slices.Compact(seen)) != total {
			t.Errorf("pages of %d hold %d executions", limit, len(seen))
		}
	}
}

func TestPagesOfExecutions(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	for n := 1; n <= 10; n++ {
		b.add(requested(n))
	}
	apply(t, s, b)
	var seen []int
	filter := projections.ExecutionFilter{Limit: 3}
	for pages := 1; ; pages++ {
		p, err := s.Executions(t.Context(), tenant, filter)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, names(p)...)
		if filter.Cursor = p.NextCursor; p.NextCursor == "" {
			if pages != 4 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		b.add(requested(100 + pages)) // newer executions do not move the page
		apply(t, s, b)
	}
	if !slices.Equal(seen, []int{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}) {
		t.Errorf("walked %v", seen)
	}
	exact, err := s.Executions(t.Context(), tenant, projections.ExecutionFilter{Limit: 13})
	if err != nil || len(exact.Executions) != 13 || exact.NextCursor != "" {
		t.Errorf("a page that fits: %d, cursor %q, error %v", len(exact.Executions), exact.NextCursor, err)
	}
}

func TestBadFilters(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	for n := range 5 {
		b.add(requested(n), started(n, 1, fresh, ""), ended(n, events.StatusCompleted, leaving(heap(n), "")))
	}
	apply(t, s, b)
	p, err := s.Executions(t.Context(), tenant, projections.ExecutionFilter{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	heaps, err := s.Heaps(t.Context(), tenant, 2, "")
	if err != nil {
		t.Fatal(err)
	}
	good := p.NextCursor
	for name, tt := range map[string]struct {
		filter projections.ExecutionFilter
		want   string
	}{
		"status":          {projections.ExecutionFilter{Status: "done"}, `status "done"`},
		"negative limit":  {projections.ExecutionFilter{Limit: -1}, "limit -1"},
		"large limit":     {projections.ExecutionFilter{Limit: 1001}, "1 to 1000"},
		"cursor":          {projections.ExecutionFilter{Cursor: "zzz"}, `cursor "zzz"`},
		"cut cursor":      {projections.ExecutionFilter{Cursor: good[:len(good)-1]}, "cursor"},
		"longer cursor":   {projections.ExecutionFilter{Cursor: good + "A"}, "cursor"},
		"changed cursor":  {projections.ExecutionFilter{Cursor: string(good[0]+1) + good[1:]}, "cursor"},
		"padded cursor":   {projections.ExecutionFilter{Cursor: good + "\n"}, "cursor"},
		"another list's":  {projections.ExecutionFilter{Cursor: heaps.NextCursor}, "another list"},
		"endless cursor":  {projections.ExecutionFilter{Cursor: strings.Repeat("A", 1<<20)}, "cursor"},
		"unprintable one": {projections.ExecutionFilter{Cursor: "\x00\xff"}, "cursor"},
	} {
		_, err := s.Executions(t.Context(), tenant, tt.filter)
		if !errors.Is(err, projections.ErrBadQuery) || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, limit := range []int{0, -1, 1001} {
		if _, err := s.Heaps(t.Context(), tenant, limit, ""); !errors.Is(err, projections.ErrBadQuery) || !strings.Contains(err.Error(), "limit") {
			t.Errorf("heaps, limit %d: %v", limit, err)
		}
	}
	if _, err := s.Heaps(t.Context(), tenant, 1, good); !errors.Is(err, projections.ErrBadQuery) || !strings.Contains(err.Error(), "another list") {
		t.Errorf("heaps, cursor of executions: %v", err)
	}
}

// A list shows which runs were started more than once.
func TestListShowsAttempts(t *testing.T) {
	t.Parallel()
	s, b := open(t, projections.Options{}), newMemoryLedger()
	b.add(requested(1), started(1, 1, fresh, ""), requested(2), started(2, 1, fresh, ""), started(2, 2, fresh, ""), requested(3))
	if err := s.Apply(t.Context(), b.all()); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{0, 10} {
		page, err := s.Executions(t.Context(), tenant, projections.ExecutionFilter{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, e := range page.Executions {
			got[e.ExecutionID] = e.Attempt
		}
		if diff := cmp.Diff(map[string]int{id(1): 0, id(2): 2, id(3): 0}, got); diff != "" {
			t.Errorf("limit %d: attempts (-want +got):\n%s", limit, diff)
		}
	}
}
