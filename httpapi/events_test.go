package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"daybook/events"
	"daybook/httpapi"
)

// ledgerWith records a small history of two runs. The first one has a session and tags;
// the second one has neither and is still running.
func ledgerWith(t *testing.T, s *stack) (first, second string) {
	t.Helper()
	first = s.submit(`{"code":"1","session":"s1","tags":{"env":"x"}}`)
	run := s.begin(first)
	run.print("a", "b")
	run.finish(events.StatusCompleted, "1", someHeap)
	second = s.submit(`{"code":"2"}`)
	s.begin(second).print("c")
	return first, second
}

func (s *stack) ndjson(query string) ([]events.CloudEvent, answer) {
	s.t.Helper()
	a := s.do("GET", "/api/events"+query, "")
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "application/x-ndjson" {
		s.t.Fatalf("%s: %d %s", query, a.StatusCode, a.body)
	}
	var out []events.CloudEvent
	for raw := range bytes.Lines(a.body) {
		var e events.CloudEvent
		if err := json.Unmarshal(raw, &e); err != nil {
			s.t.Fatalf("%v in %s", err, raw)
		}
		out = append(out, e)
	}
	return out, a
}

func typesOf(list []events.CloudEvent) []string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = strings.TrimSuffix(strings.TrimPrefix(e.Type, "daybook."), ".v1")
	}
	return out
}

func TestEventFilters(t *testing.T) {
	t.Parallel()
	s := start(t)
	first, second := ledgerWith(t, s)
	ofFirst := []string{"execution.requested", "execution.started", "execution.output", "execution.completed"}
	all, a := s.ndjson("")
	if got := a.Header.Get("Daybook-Last-Sequence"); got != strconv.FormatUint(s.lastSeq(), 10) {
		t.Errorf("Daybook-Last-Sequence is %q, the ledger ends at %d", got, s.lastSeq())
	}
	if uint64(len(all)) != s.lastSeq() {
		t.Errorf("%d events, the ledger has %d", len(all), s.lastSeq())
	}
	for i, e := range all {
		if e.Sequence != strconv.Itoa(i+1) || e.SpecVersion != "1.0" || e.Source != "daybook" || e.Tenant != "default" ||
			e.DataContentType != "application/json" || e.ID == "" || e.Subject == "" || e.Time == "" || len(e.Data) < 2 {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	for _, tc := range []struct {
		query string
		types []string // in any order after the first four, which are those of the run
	}{
		{"?execution=" + first, append(slices.Clone(ofFirst), "heap.tagged", "session.entry_recorded")},
		{"?session=s1", append(slices.Clone(ofFirst), "heap.tagged", "session.entry_recorded")},
		{"?execution=" + second, []string{"execution.requested", "execution.started", "execution.output"}},
		{"?session=nobody", nil},
		{"?type=daybook.execution.output.v1", []string{"execution.output", "execution.output"}},
		{"?type=daybook.execution.output.v1&type=daybook.execution.started.v1&execution=" + second, []string{"execution.started", "execution.output"}},
		{"?session=s1&type=daybook.execution.completed.v1", []string{"execution.completed"}},
		{"?session=s1&execution=" + first + "&type=daybook.heap.tagged.v1&type=daybook.execution.started.v1", []string{"execution.started", "heap.tagged"}},
		{"?session=s1&execution=" + second, nil},
		{"?session=s1&limit=1&type=daybook.session.entry_recorded.v1", []string{"session.entry_recorded"}},
		{"?session=s1&after=1&type=daybook.execution.completed.v1", []string{"execution.completed"}}, // the request was skipped
		{"?limit=2", []string{"execution.requested", "execution.started"}},
		{"?limit=1&after=1", []string{"execution.started"}},
		{fmt.Sprintf("?after=%d", len(all)), nil},
	} {
		list, _ := s.ndjson(tc.query)
		got, want := typesOf(list), slices.Clone(tc.types)
		if len(got) > 4 {
			slices.Sort(got[4:])
			slices.Sort(want[4:])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tc.query, got, want)
		}
	}
}

// Paging by limit and position returns every event once.
func TestEventPaging(t *testing.T) {
	t.Parallel()
	s := start(t)
	ledgerWith(t, s)
	after, seen := "0", 0
	for {
		page, _ := s.ndjson("?limit=3&after=" + after)
		if len(page) == 0 {
			break
		}
		seen += len(page)
		after = page[len(page)-1].Sequence
	}
	if uint64(seen) != s.lastSeq() {
		t.Errorf("paging saw %d events of %d", seen, s.lastSeq())
	}
}

// A stream has the stored events, a mark, and then new events. A client that reconnects
// with the last id gets each event exactly once.
func TestFollowEvents(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, second := ledgerWith(t, s)
	stored := s.lastSeq()
	r := s.open("/api/events")
	var ids []string
	for range stored {
		m := r.must()
		if m.name != "" {
			t.Fatalf("%+v before the newest event", m)
		}
		ids = append(ids, m.id)
	}
	edge := r.must()
	if want := strconv.FormatUint(stored, 10); edge.name != "caught-up" || edge.id != want || edge.data != `{"sequence":"`+want+`"}` {
		t.Errorf("at the newest event: %+v", edge)
	}
	third := s.submit(`{"code":"3"}`)
	live := r.must()
	if !strings.Contains(live.data, third) || live.id != strconv.FormatUint(stored+1, 10) {
		t.Errorf("the new event: %+v", live)
	}
	ids = append(ids, live.id)
	r.resp.Body.Close()

	s.do("POST", "/api/executions/"+second+"/cancel", "").into(t, 200, nil)
	r = s.open("/api/events?after=3", "Last-Event-ID", live.id) // the header wins
	for m := r.must(); m.name != "caught-up"; m = r.must() {
		ids = append(ids, m.id)
	}
	for i, id := range ids {
		if id != strconv.Itoa(i+1) {
			t.Fatalf("ids are %q", ids)
		}
	}
	if uint64(len(ids)) != s.lastSeq() {
		t.Errorf("%d events, the ledger has %d", len(ids), s.lastSeq())
	}
}

// Filters apply to new events too, and a limit ends the stream.
func TestFollowSession(t *testing.T) {
	t.Parallel()
	s := start(t)
	r := s.open("/api/events?session=s1&limit=6")
	if m := r.must(); m.name != "caught-up" || m.id != "0" {
		t.Fatalf("on an empty ledger: %+v", m)
	}
	first, _ := ledgerWith(t, s)
	for i := range 6 {
		if m := r.must(); !strings.Contains(m.data, first) {
			t.Errorf("event %d: %+v", i, m)
		}
	}
	if m, more := r.next(); more {
		t.Errorf("past the limit: %+v", m)
	}
}

// The history of an execution consists of exactly its events, in order.
func TestExecutionEvents(t *testing.T) {
	t.Parallel()
	s := start(t)
	first, _ := ledgerWith(t, s)
	var list []events.CloudEvent
	s.do("GET", "/api/executions/"+first+"/events", "").into(t, http.StatusOK, &list)
	want := []string{"execution.requested", "execution.started", "execution.output", "execution.completed"}
	if got := typesOf(list); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// Pages have each event once.
	var paged []events.CloudEvent
	for after := "0"; ; after = paged[len(paged)-1].Sequence {
		var page []events.CloudEvent
		s.do("GET", "/api/executions/"+first+"/events?limit=3&after="+after, "").into(t, http.StatusOK, &page)
		if len(page) == 0 {
			break
		}
		if paged = append(paged, page...); len(page) > 3 || len(paged) > len(list) {
			t.Fatalf("a page of %d events", len(page))
		}
	}
	if got := typesOf(paged); !slices.Equal(got, want) {
		t.Errorf("in pages %q, want %q", got, want)
	}
	for _, query := range []string{"?limit=0", "?limit=100001", "?after=-1", "?limit=x"} {
		if a := s.do("GET", "/api/executions/"+first+"/events"+query, ""); a.StatusCode != 400 && a.StatusCode != 422 {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
	var data struct {
		Content struct {
			Plain struct{ Lines []struct{ Text string } }
		}
	}
	if err := json.Unmarshal(list[2].Data, &data); err != nil || len(data.Content.Plain.Lines) != 2 || data.Content.Plain.Lines[1].Text != "b" {
		t.Errorf("output event: %s (%v)", list[2].Data, err)
	}
}

// followLines reads an NDJSON response with follow=true as it arrives.
func (s *stack) followLines(query string, header ...string) (next func() (events.CloudEvent, bool), hangUp func()) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), patience)
	s.t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/events?follow=true"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		s.t.Fatalf("%s: %s %s", query, resp.Status, resp.Header.Get("Content-Type"))
	}
	dec := json.NewDecoder(resp.Body)
	return func() (e events.CloudEvent, more bool) {
		s.t.Helper()
		err := dec.Decode(&e)
		if err != nil && !errors.Is(err, io.EOF) {
			s.t.Fatal(err)
		}
		return e, err == nil
	}, func() { resp.Body.Close() }
}

// An NDJSON response with follow=true has the stored events, a mark, and then new
// events. A client that reconnects with the last position gets each event exactly once,
// with any filter.
func TestFollowLines(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{
		"", "&session=s1", "&type=daybook.execution.requested.v1&type=daybook.session.entry_recorded.v1",
		"&session=s1&type=daybook.execution.output.v1&type=daybook.heap.tagged.v1",
	} {
		t.Run(filter, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			ledgerWith(t, s)
			stored := s.lastSeq()
			next, hangUp := s.followLines(filter)
			var got []string
			after, edge := "0", false
			for !edge {
				e, more := next()
				if !more {
					t.Fatal("the stream ended")
				}
				after = e.Sequence
				if edge = e.Type == httpapi.TypeCaughtUp; edge {
					if e.Sequence != strconv.FormatUint(stored, 10) || e.SpecVersion != "1.0" || len(e.Data) != 0 {
						t.Errorf("at the newest event: %+v", e)
					}
					break
				}
				got = append(got, e.Sequence)
			}
			ledgerWith(t, s)
			wanted, _ := s.ndjson("?after=" + after + filter)
			if len(wanted) == 0 {
				t.Fatal("nothing to follow")
			}
			e, _ := next()
			got, after = append(got, e.Sequence), e.Sequence
			hangUp()
			next, _ = s.followLines(filter, "Last-Event-ID", after)
			for {
				e, _ := next()
				if e.Type == httpapi.TypeCaughtUp {
					break
				}
				got = append(got, e.Sequence)
			}
			all, _ := s.ndjson("?after=0" + filter)
			want := make([]string, len(all))
			for i, e := range all {
				want[i] = e.Sequence
			}
			if !slices.Equal(got, want) {
				t.Errorf("followed %q, the ledger has %q", got, want)
			}
		})
	}
}

// A limit ends an NDJSON stream, and a position beyond the end of the ledger is refused.
func TestFollowLinesEnds(t *testing.T) {
	t.Parallel()
	s := start(t)
	ledgerWith(t, s)
	next, _ := s.followLines("&limit=2&after=1")
	for _, want := range []string{"2", "3"} {
		if e, more := next(); !more || e.Sequence != want {
			t.Errorf("%+v, want position %s", e, want)
		}
	}
	if e, more := next(); more {
		t.Errorf("past the limit: %+v", e)
	}
	for _, query := range []string{"?follow=true&after=99999", "?follow=maybe", "?follow=true&type=nonsense", "?follow=true&limit=0"} {
		if a := s.do("GET", "/api/events"+query, ""); a.StatusCode != 400 && a.StatusCode != 422 {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
}
