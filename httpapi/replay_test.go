package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
)

// replayed reads a replay to its end.
func (s *stack) replayed(method, path string) []events.CloudEvent {
	s.t.Helper()
	a := s.do(method, path, "")
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "application/x-ndjson" {
		s.t.Fatalf("%s: %d %s", path, a.StatusCode, a.body)
	}
	var out []events.CloudEvent
	for raw := range bytes.Lines(a.body) {
		var e events.CloudEvent
		if err := json.Unmarshal(raw, &e); err != nil {
			s.t.Fatalf("%v in %s", err, raw)
		}
		out = append(out, e)
	}
	return out
}

// overlappingRuns records a session of two runs that overlap with each other and with
// another run.
func overlappingRuns(t *testing.T, s *stack) (first, second string) {
	t.Helper()
	first, other := s.submit(`{"code":"1","session":"s1","tags":{"env":"x"}}`), s.submit(`{"code":"3","session":"s2"}`)
	a, b := s.begin(first), s.begin(other)
	second = s.submit(`{"code":"2","session":"s1"}`)
	c := s.begin(second)
	a.print("a")
	c.print("c")
	b.finish(events.StatusCompleted, "3", "")
	c.finish(events.StatusFailed, "Error: no", "")
	a.finish(events.StatusCompleted, "1", someHeap)
	return first, second
}

// A replay has the recorded events of a session, all or some of them, marked and
// otherwise unchanged.
func TestReplay(t *testing.T) {
	t.Parallel()
	s := start(t)
	first, second := overlappingRuns(t, s)
	recorded, _ := s.ndjson("?session=s1")
	mid := recorded[len(recorded)/2].Sequence
	number := func(e events.CloudEvent) int { n, _ := strconv.Atoi(e.Sequence); return n }
	only := func(keep func(events.CloudEvent) bool) (list []events.CloudEvent) {
		for _, e := range recorded {
			if keep(e) {
				list = append(list, e)
			}
		}
		return list
	}
	of := func(id string) func(events.CloudEvent) bool {
		return func(e events.CloudEvent) bool { return strings.Contains(string(e.Data), id) }
	}
	at, _ := strconv.Atoi(mid)
	for _, tt := range []struct {
		query string
		want  []events.CloudEvent
	}{
		{"", recorded},
		{"&from=" + mid, only(func(e events.CloudEvent) bool { return number(e) >= at })},
		{"&to=" + mid, only(func(e events.CloudEvent) bool { return number(e) <= at })},
		{"&from=" + mid + "&to=" + mid, only(func(e events.CloudEvent) bool { return number(e) == at })},
		{"&from=99999", nil},
		{"&from_entry=0&to_entry=0", only(of(second))}, // it ended first
		{"&from_entry=1", only(of(first))},
		{"&to_entry=1", recorded},
		{"&from_entry=1&to=" + mid, only(func(e events.CloudEvent) bool { return of(first)(e) && number(e) <= at })},
	} {
		got := s.replayed("GET", "/api/sessions/s1/replay?speed=max"+tt.query)
		for i := range got {
			if !got[i].Replayed {
				t.Errorf("%s: event %s is not marked", tt.query, got[i].Sequence)
			}
			got[i].Replayed = false
		}
		if !slices.EqualFunc(got, tt.want, func(a, b events.CloudEvent) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Errorf("%s: %q, want %q", tt.query, typesOf(got), typesOf(tt.want))
		}
	}
}

// A replay as server-sent events has an end event and can be resumed.
func TestReplaySSE(t *testing.T) {
	t.Parallel()
	s := start(t)
	overlappingRuns(t, s)
	recorded, _ := s.ndjson("?session=s1")
	r := s.open("/api/sessions/s1/replay?speed=max")
	for range 3 {
		r.must()
	}
	r.resp.Body.Close()
	r = s.open("/api/sessions/s1/replay?speed=max", "Last-Event-ID", recorded[2].Sequence)
	for _, want := range recorded[3:] {
		if m := r.must(); m.id != want.Sequence || !strings.Contains(m.data, `"replayed":true`) {
			t.Errorf("%+v, want %s", m, want.Sequence)
		}
	}
	if m := r.must(); m.name != "end" || m.id != "" {
		t.Errorf("%+v, want the end", m)
	}
	if m, more := r.next(); more {
		t.Errorf("after the end: %+v", m)
	}
}

// A session whose runs have not ended can be replayed, an unknown session cannot.
func TestReplayOfSessionsWithoutEntries(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *httpapi.Options) { o.Replay = &published{} })
	s.begin(s.submit(`{"code":"1","session":"going"}`)).print("a")
	s.catchUp()
	if got := typesOf(s.replayed("GET", "/api/sessions/going/replay?speed=max")); !slices.Equal(got, []string{"execution.requested", "execution.started", "execution.output"}) {
		t.Errorf("%q", got)
	}
	for query, want := range map[string]int{
		"/api/sessions/nobody/replay":                                      404,
		"/api/sessions/going/replay?from_entry=0":                          400, // no run of it has ended
		"/api/sessions/going/replay?speed=fast":                            400,
		"/api/sessions/going/replay?speed=0":                               400,
		"/api/sessions/going/replay?speed=-1":                              400,
		"/api/sessions/going/replay?speed=NaN":                             400,
		"/api/sessions/going/replay?speed=1e99":                            400,
		"/api/sessions/going/replay?max_pause=long":                        400,
		"/api/sessions/going/replay?max_pause=-1s":                         400,
		"/api/sessions/going/replay?from=x":                                422,
		"/api/sessions/going/replay?colour=red":                            422,
		"POST /api/sessions/going/replay?speed=max":                        422,
		"POST /api/sessions/going/replay?speed=max&subject=replay.other.x": 400,
	} {
		method, path, ok := strings.Cut(query, " ")
		if !ok {
			method, path = "GET", query
		}
		if a := s.do(method, path, ""); a.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", query, a.StatusCode, a.body, want)
		}
	}
}

// At the original speed a replay takes as long as the recorded history. At a higher
// speed it takes the corresponding part of that time.
func TestReplaySpeed(t *testing.T) {
	t.Parallel()
	s := start(t)
	id, at := events.NewID(time.Now()), time.Now()
	for i, d := range []events.Data{
		&events.ExecutionRequested{ExecutionID: id, Pool: events.DefaultPool, Session: "slow", SessionID: events.SessionID(events.DefaultTenant, "slow")},
		&events.ExecutionCancelRequested{ExecutionID: id},
		&events.ExecutionCancelRequested{ExecutionID: id},
	} {
		if _, err := s.store.Append(t.Context(), events.New(events.DefaultTenant, at.Add(time.Duration(i)*150*time.Millisecond), d), -1); err != nil {
			t.Fatal(err)
		}
	}
	s.catchUp()
	took := func(query string) time.Duration {
		t.Helper()
		began := time.Now()
		if n := len(s.replayed("GET", "/api/sessions/slow/replay"+query)); n != 3 {
			t.Fatalf("%d events", n)
		}
		return time.Since(began)
	}
	if d := took(""); d < 290*time.Millisecond {
		t.Errorf("at the original speed %s", d)
	}
	if d := took("?speed=2"); d < 145*time.Millisecond {
		t.Errorf("at twice the speed %s", d)
	}
	if d := took("?speed=0.001&max_pause=100ms"); d < 190*time.Millisecond {
		t.Errorf("with pauses cut to 100 ms, %s", d)
	}
	// The client receives an event when it is due, not with the next one.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/api/sessions/slow/replay?speed=0.001", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithTimeout(t.Context(), patience)
	defer hangUp()
	resp, err := s.client.Do(req.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(resp.Body)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "execution.requested") {
		t.Errorf("%q, %v", line, err)
	}
	hangUp()
	if _, err := io.ReadAll(in); err == nil {
		t.Error("an interrupted replay ended like a complete one")
	}
}

// published collects republished events.
type published struct {
	mu   sync.Mutex
	list []string
}

func (p *published) Republish(_ context.Context, subject string, e events.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, subject+" "+e.ID)
	return nil
}

func TestRepublish(t *testing.T) {
	t.Parallel()
	var p published
	s := start(t, func(o *httpapi.Options) { o.Replay = &p })
	overlappingRuns(t, s)
	recorded, _ := s.ndjson("?session=s1")
	if got := s.replayed("POST", "/api/sessions/s1/replay?speed=max&subject=replay.default.review.1"); len(got) != len(recorded) {
		t.Errorf("%d events sent, %d recorded", len(got), len(recorded))
	}
	var want []string
	for _, e := range recorded {
		want = append(want, "replay.default.review.1 "+e.ID)
	}
	if !slices.Equal(p.list, want) {
		t.Errorf("published %q, want %q", p.list, want)
	}
	for _, bad := range []string{"", "x", "replay", "replay.default", "replay.default.", "replay.other.x", "replay.default.*", "replay.default.>", "replay.default.a..b", "replay.default.a%20b", "events.default.x", "ledger.0001.default.exec.x", "replay.default.x%00"} {
		if a := s.do("POST", "/api/sessions/s1/replay?speed=max&subject="+bad, ""); a.StatusCode != 400 && a.StatusCode != 422 {
			t.Errorf("subject %q: %d %s", bad, a.StatusCode, a.body)
		}
	}
	if len(p.list) != len(want) {
		t.Errorf("a refused replay published %q", p.list[len(want):])
	}
}
