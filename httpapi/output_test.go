package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/projections"
)

// line decodes the data of an output event and checks that its id is its number.
func line(t *testing.T, m message) projections.OutputLine {
	t.Helper()
	var l projections.OutputLine
	if err := json.Unmarshal([]byte(m.data), &l); err != nil {
		t.Fatalf("%v in %+v", err, m)
	}
	if m.name != "" || m.id != fmt.Sprint(l.Line) {
		t.Errorf("line %d has id %q and name %q", l.Line, m.id, m.name)
	}
	return l
}

// A follower gets all lines in order, as they are written, and then the end.
func TestFollowOutputLive(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.submit(`{"code":"1"}`)
	r := s.open("/api/executions/" + id + "/output")
	run := s.begin(id)
	var took []time.Duration
	for i := range 40 {
		want := fmt.Sprintf("line <%d> & é", i)
		began := time.Now()
		run.print(want)
		recorded := time.Now()
		got := line(t, r.must())
		took = append(took, time.Since(recorded))
		if got.Text != want || got.Line != int64(i+1) || got.Level != events.LevelLog || got.Time == "" {
			t.Fatalf("got %+v, want %q", got, want)
		}
		if total := time.Since(began); total > patience {
			t.Fatalf("line %d took %v", i, total)
		}
	}
	slices.Sort(took)
	t.Logf("from recorded to received: median %v, worst %v", took[len(took)/2], took[len(took)-1])
	// A line must appear within 50 ms. On a busy machine, half of them appear within 500 ms.
	if median := took[len(took)/2]; median > 10*50*time.Millisecond {
		t.Errorf("lines take %v to appear", median)
	}
	run.finish(events.StatusFailed, "Error: no", "")
	m := r.must()
	if m.name != "end" || m.id != "end" || !strings.Contains(m.data, `"status":"failed"`) || !strings.Contains(m.data, id) {
		t.Errorf("at the end: %+v", m)
	}
	if m, more := r.next(); more {
		t.Errorf("after the end: %+v", m)
	}
}

// A client that lost its connection continues where it was, during and after the run.
// No line is lost or repeated.
func TestResumeOutput(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.submit(`{"code":"1"}`)
	run := s.begin(id)
	var want []string
	for i := range 1200 { // more than one batch
		want = append(want, fmt.Sprintf("line %d", i+1))
	}
	for chunk := range slices.Chunk(want[:600], 200) {
		run.print(chunk...)
	}
	var got []string
	last := ""
	read := func(r *streamReader, n int) {
		for range n {
			l := line(t, r.must())
			got = append(got, l.Text)
			last = fmt.Sprint(l.Line)
		}
		r.resp.Body.Close()
	}
	path := "/api/executions/" + id + "/output"
	read(s.open(path), 250)
	read(s.open(path, "Last-Event-ID", last), 300)
	for chunk := range slices.Chunk(want[600:], 200) {
		run.print(chunk...)
	}
	run.finish(events.StatusCompleted, "", "")
	r := s.open(path, "Last-Event-ID", last)
	for {
		m := r.must()
		if m.name == "end" {
			break
		}
		got = append(got, line(t, m).Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d lines, want %d", len(got), len(want))
	}
	if m := s.open(path, "Last-Event-ID", "1200").must(); m.name != "end" {
		t.Errorf("after the last line: %+v", m)
	}
	if l := line(t, s.open(path+"?line_offset=1000").must()); l.Text != "line 1000" {
		t.Errorf("from line 1000: %+v", l)
	}
	// A browser reconnects whenever a stream ends; 204 makes it stop.
	if a := s.do("GET", path, "", "Accept", "text/event-stream", "Last-Event-ID", "end"); a.StatusCode != http.StatusNoContent {
		t.Errorf("reconnecting after the end: %d %s", a.StatusCode, a.body)
	}
}

// Clients that follow one run from different lines get each line once, in whatever
// order they connect, even if they are far behind or ahead of the written lines.
func TestFollowersOfOneRun(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.submit(`{"code":"1"}`)
	run := s.begin(id)
	const lines, long = 40, 30_000 // more than is kept for all
	text := func(i int) string { return fmt.Sprint(i, strings.Repeat("x", long)) }
	path := "/api/executions/" + id + "/output"
	ahead := s.open(path, "Last-Event-ID", "30")
	first := s.open(path)
	for i := range lines / 2 {
		run.print(text(i + 1))
	}
	expect := func(name string, r *streamReader, from, to int) {
		t.Helper()
		for i := from; i <= to; i++ {
			if l := line(t, r.must()); l.Line != int64(i) || l.Text != text(i) {
				t.Fatalf("%s: line %d is line %d, %.10s", name, i, l.Line, l.Text)
			}
		}
	}
	expect("the first", first, 1, lines/2)
	behind, middle := s.open(path), s.open(path, "Last-Event-ID", "10")
	for i := range lines / 2 {
		run.print(text(lines/2 + i + 1))
	}
	run.finish(events.StatusCompleted, "", "")
	expect("ahead", ahead, 31, lines)
	expect("middle", middle, 11, lines)
	expect("behind", behind, 1, lines)
	expect("the first", first, lines/2+1, lines)
	for _, r := range []*streamReader{ahead, middle, behind, first} {
		if m := r.must(); m.name != "end" {
			t.Errorf("at the end: %s %.60s", m.name, m.data)
		}
	}
}

// No line is missing before the end, however the lines are divided into reads.
func TestFollowLongLines(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.submit(`{"code":"1"}`)
	run := s.begin(id)
	const lines = 90
	for i := range lines { // more than 5 MB
		run.print(strings.Repeat(string(rune('a'+i%26)), 60_000))
	}
	run.finish(events.StatusCompleted, "", "")
	r := s.open("/api/executions/" + id + "/output")
	for i := range lines {
		if l := line(t, r.must()); l.Line != int64(i+1) || len(l.Text) != 60_000 || l.Text[0] != byte('a'+i%26) {
			t.Fatalf("line %d is line %d with %d bytes", i+1, l.Line, len(l.Text))
		}
	}
	if m := r.must(); m.name != "end" {
		t.Errorf("at the end: %+v", m)
	}
}

func TestOutputPages(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.submit(`{"code":"1"}`)
	run := s.begin(id)
	run.print("one", "zwö", "three")
	run.finish(events.StatusCompleted, "", "")
	for _, tc := range []struct {
		query, data          string
		startLine, startByte int64
		more                 bool
	}{
		{"", "one\nzwö\nthree\n", 1, 0, false},
		{"?line_offset=2&line_limit=1", "zwö\n", 2, 4, true},
		{"?line_offset=4", "", 4, 15, false},
		{"?byte_offset=0&byte_limit=4", "one\n", 1, 0, true},
		{"?byte_offset=4&byte_limit=3", "zw", 2, 4, true},         // does not split the ö
		{"?byte_offset=7&byte_limit=1", "ö", 2, 6, true},          // starts with the complete ö
		{"?byte_offset=9&line_offset=-1", "three\n", 3, 9, false}, // line_offset is ignored
	} {
		var p projections.OutputPage
		s.do("GET", "/api/executions/"+id+"/output"+tc.query, "").into(t, 200, &p)
		if p.Data != tc.data || p.StartLine != tc.startLine || p.StartByte != tc.startByte || p.HasMore != tc.more ||
			p.TotalLines != 3 || p.TotalBytes != 15 || p.ExecutionID != id || p.Status != events.StatusCompleted {
			t.Errorf("%q: %+v", tc.query, p)
		}
	}
}

// A server that shuts down ends its streams and does not wait for them.
func TestShutdownEndsStreams(t *testing.T) {
	t.Parallel()
	reading := make(chan struct{}, 10)
	s := start(t, func(o *httpapi.Options) { o.Queries = watched{o.Queries, reading} })
	id := s.submit(`{"code":"1"}`)
	output := s.open("/api/executions/" + id + "/output")
	s.begin(id).print("x")
	output.must()
	log := s.open("/api/events")
	for log.must().name != "caught-up" {
	}
	waiting := make(chan answer, 1)
	go func() { waiting <- s.do("GET", "/api/executions/"+id+"?wait=60", "") }()
	<-reading
	began := time.Now()
	if err := s.server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("shutting down took %v", took)
	}
	for name, r := range map[string]*streamReader{"output": output, "events": log} {
		if m, more := r.next(); more {
			t.Errorf("%s: %+v after the shutdown", name, m)
		}
	}
	// The response has the current state.
	if a := <-waiting; a.StatusCode != 200 || !strings.Contains(string(a.body), `"running"`) {
		t.Errorf("the waiting read: %d %s", a.StatusCode, a.body)
	}
}

// watched reports when an execution is read.
type watched struct {
	httpapi.Queries
	reading chan<- struct{}
}

func (w watched) Execution(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error) {
	defer func() {
		select {
		case w.reading <- struct{}{}:
		default: // the test counts no more reads
		}
	}()
	return w.Queries.Execution(ctx, tenant, id)
}
