package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"daybook/events"
	"daybook/projections"
)

func heapNo(c string) string { return strings.Repeat(c, 64) }

func (s *stack) foundHeaps(query string) []string {
	s.t.Helper()
	var out struct{ Results []projections.Heap }
	s.do("GET", "/api/heaps"+query, "").into(s.t, http.StatusOK, &out)
	keys := make([]string, len(out.Results))
	for i, h := range out.Results {
		keys[i] = h.Heap[:1]
	}
	return keys
}

func TestTags(t *testing.T) {
	t.Parallel()
	s := start(t)
	tags := func(heap string) map[string]string {
		var out struct{ Tags map[string]string }
		s.do("GET", "/api/heaps/"+heap+"/tags", "").into(t, 200, &out)
		return out.Tags
	}
	if got := tags(heapNo("a")); got == nil || len(got) != 0 {
		t.Errorf("untagged: %#v", got)
	}
	for heap, body := range map[string]string{"a": `{"tags":{"env":"prod","n":"1"}}`, "b": `{"tags":{"env":"prod","x":""}}`, "c": `{"tags":{"env":"test"}}`} {
		a := s.do("PUT", "/api/heaps/"+heapNo(heap)+"/tags", body)
		if a.StatusCode != 200 || strings.TrimSpace(string(a.body)) != `{"ok":true}` || a.Header.Get("Daybook-Sequence") == "" {
			t.Errorf("tag %s: %d %s", heap, a.StatusCode, a.body)
		}
	}
	for query, want := range map[string][]string{
		"?tag=env=prod": {"a", "b"}, "?tag=env=prod&tag=n=1": {"a"}, "?tag=x=": {"b"}, "?tag=env=none": {}, "?tag=env=prod&tag=n=2": {},
	} {
		if got := s.foundHeaps(query); !slices.Equal(got, want) {
			t.Errorf("%s finds %q, want %q", query, got, want)
		}
	}
	before := s.lastSeq()
	s.do("DELETE", "/api/heaps/"+heapNo("a")+"/tags?keys=", "").into(t, 200, nil)
	if got := tags(heapNo("a")); len(got) != 2 || s.lastSeq() != before {
		t.Errorf("after deleting nothing: %v, ledger from %d to %d", got, before, s.lastSeq())
	}
	s.do("DELETE", "/api/heaps/"+heapNo("a")+"/tags?keys=+n+,unknown", "").into(t, 200, nil)
	if got := tags(heapNo("a")); len(got) != 1 || got["env"] != "prod" {
		t.Errorf("after deleting n: %v", got)
	}
	s.do("DELETE", "/api/heaps/"+heapNo("a")+"/tags", "").into(t, 200, nil)
	if got := tags(heapNo("a")); len(got) != 0 {
		t.Errorf("after deleting all: %v", got)
	}
}

func TestTagHistory(t *testing.T) {
	t.Parallel()
	s := start(t)
	path := "/api/heaps/" + heapNo("a") + "/tags"
	type answer struct {
		Tags    map[string]string
		History []projections.TagEdit
	}
	history := func() (a answer) {
		t.Helper()
		s.do("GET", path+"?history=1", "").into(t, http.StatusOK, &a)
		return a
	}
	if got := history(); got.History == nil || len(got.History) != 0 {
		t.Errorf("of an untagged heap: %#v", got)
	}
	s.do("PUT", path, `{"tags":{"env":"prod","n":"1"}}`).into(t, http.StatusOK, nil)
	s.do("DELETE", path+"?keys=n", "").into(t, http.StatusOK, nil)
	got := history()
	if len(got.History) != 2 || got.History[0].Tags["n"] != "1" || got.History[0].Edit != events.EditSet ||
		len(got.History[1].Tags) != 1 || got.History[1].Edit != events.EditDelete || got.History[0].Actor.Transport != "http" ||
		got.History[0].Seq >= got.History[1].Seq || len(got.Tags) != 1 {
		t.Errorf("history: %+v", got)
	}
	var plain map[string]any
	s.do("GET", path, "").into(t, http.StatusOK, &plain)
	if _, there := plain["history"]; there || len(plain) != 1 {
		t.Errorf("a history without history=1: %v", plain)
	}
	var page struct {
		History    []projections.TagEdit
		NextCursor string `json:"next_cursor"`
	}
	s.do("GET", path+"?history=1&limit=1", "").into(t, http.StatusOK, &page)
	if len(page.History) != 1 || page.History[0].Seq != got.History[0].Seq || page.NextCursor == "" {
		t.Errorf("the first page: %+v", page)
	}
	next := page.NextCursor
	page.NextCursor = ""
	s.do("GET", path+"?history=1&limit=1&cursor="+next, "").into(t, http.StatusOK, &page)
	if len(page.History) != 1 || page.History[0].Seq != got.History[1].Seq || page.NextCursor != "" {
		t.Errorf("the second page: %+v", page)
	}
	for query, want := range map[string]string{
		"?limit=1": "limit and cursor need history=1", "?cursor=" + next: "limit and cursor need history=1",
		"?history=1&limit=0": "1 to 1000", "?history=1&limit=1001": "1 to 1000", "?history=1&cursor=x": "begin at the oldest edit",
	} {
		if a := s.do("GET", path+query, ""); a.StatusCode != http.StatusBadRequest || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
	if a := s.do("GET", path+"?history=perhaps", ""); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "history must be true or false") {
		t.Errorf("history=perhaps: %d %s", a.StatusCode, a.body)
	}
}

func TestHeapsAndLineage(t *testing.T) {
	t.Parallel()
	s := start(t)
	first := s.submit(`{"code":"1"}`)
	s.begin(first).finish(events.StatusCompleted, "1", heapNo("a"))
	second := s.submit(`{"code":"1","heap":"` + heapNo("a") + `"}`)
	s.begin(second).finish(events.StatusCompleted, "1", heapNo("b"))

	var h projections.Heap
	s.do("GET", "/api/heaps/"+heapNo("b"), "").into(t, 200, &h)
	if h.Heap != heapNo("b") || h.Parent == nil || *h.Parent != heapNo("a") || h.ExecutionID == nil || *h.ExecutionID != second || h.Tags == nil {
		t.Errorf("heap: %+v", h)
	}
	var l struct{ Lineage []projections.HeapOrigin }
	s.do("GET", "/api/heaps/"+heapNo("b")+"/lineage", "").into(t, 200, &l)
	if len(l.Lineage) != 2 || l.Lineage[0].ExecutionID != second || l.Lineage[1].ExecutionID != first || l.Lineage[1].Parent != nil {
		t.Errorf("lineage: %+v", l.Lineage)
	}
	if got := s.foundHeaps(""); !slices.Equal(got, []string{"b", "a"}) && !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("all heaps: %q", got)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	s := start(t)
	var names struct{ Sessions []string }
	s.do("GET", "/api/sessions", "").into(t, 200, &names)
	if names.Sessions == nil || len(names.Sessions) != 0 {
		t.Errorf("no sessions: %#v", names.Sessions)
	}
	for _, name := range []string{"zeta", "a/b c?"} {
		id := s.submit(`{"code":"1+1","session":"` + name + `"}`)
		s.begin(id).finish(events.StatusCompleted, "2", heapNo("a"))
	}
	s.do("GET", "/api/sessions", "").into(t, 200, &names)
	if !slices.Equal(names.Sessions, []string{"a/b c?", "zeta"}) {
		t.Errorf("sessions: %q", names.Sessions)
	}
	// In pages.
	var page struct {
		Sessions   []string
		Items      []struct{ Name string }
		NextCursor string `json:"next_cursor"`
	}
	s.do("GET", "/api/sessions?limit=1", "").into(t, 200, &page)
	if !slices.Equal(page.Sessions, names.Sessions[:1]) || page.NextCursor == "" {
		t.Errorf("the first page: %+v", page)
	}
	last, query := page.NextCursor, "/api/sessions?limit=1&cursor="+page.NextCursor
	page.NextCursor = ""
	s.do("GET", query, "").into(t, 200, &page)
	if !slices.Equal(page.Sessions, names.Sessions[1:]) || page.NextCursor != "" || page.Items != nil {
		t.Errorf("the last page: %+v", page)
	}
	s.do("GET", "/api/sessions?kind=named&names=false&limit=1", "").into(t, 200, &page)
	if page.Sessions == nil || len(page.Sessions) != 0 || len(page.Items) != 1 || page.Items[0].Name != "a/b c?" {
		t.Errorf("without names: %+v", page)
	}
	for _, query := range []string{"names=false", "limit=0", "limit=1001", "cursor=x", "cursor=" + page.NextCursor, "kind=all&cursor=" + last} {
		if a := s.do("GET", "/api/sessions?"+query, ""); a.StatusCode != http.StatusBadRequest && a.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
	var log struct{ Entries []map[string]any }
	s.do("GET", "/api/sessions/a%2Fb%20c%3F/entries", "").into(t, 200, &log)
	if len(log.Entries) != 1 || len(log.Entries[0]) != 7 || log.Entries[0]["code"] != "1+1" || log.Entries[0]["index"] != 0.0 || log.Entries[0]["input_heap"] != nil {
		t.Errorf("entries: %v", log.Entries)
	}
	log.Entries = nil
	s.do("GET", "/api/sessions/zeta/entries?fields=index,+input_heap,output_heap", "").into(t, 200, &log)
	e := log.Entries[0]
	if _, ok := e["input_heap"]; len(e) != 3 || !ok || e["output_heap"] != heapNo("a") {
		t.Errorf("some fields: %v", log.Entries)
	}
}

// Pages of a session log have each entry once, and only the last page has no cursor.
func TestPagesOfEntries(t *testing.T) {
	t.Parallel()
	s := start(t)
	const entries = 7
	for range entries {
		s.begin(s.submit(`{"code":"1","session":"s"}`)).finish(events.StatusCompleted, "1", heapNo("a"))
	}
	for limit, pages := range map[int]int{1: 7, 3: 3, 7: 1, 1000: 1} {
		seen, cursor := 0, ""
		for page := 1; ; page++ {
			var log struct {
				Entries    []struct{ Index int }
				Session    struct{ Name string }
				NextCursor string `json:"next_cursor"`
			}
			s.do("GET", fmt.Sprintf("/api/sessions/s/entries?limit=%d&cursor=%s", limit, cursor), "").into(t, 200, &log)
			for _, e := range log.Entries {
				if e.Index != seen {
					t.Errorf("limit %d: entry %d, want %d", limit, e.Index, seen)
				}
				seen++
			}
			if len(log.Entries) > limit || log.Session.Name != "s" || page > pages {
				t.Fatalf("limit %d: page %d is %+v", limit, page, log)
			}
			if cursor = log.NextCursor; cursor == "" {
				break
			}
		}
		if seen != entries {
			t.Errorf("limit %d: %d entries, want %d", limit, seen, entries)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?cursor=x", "?cursor=-1"} {
		if a := s.do("GET", "/api/sessions/s/entries"+query, ""); a.StatusCode != 400 {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
}
