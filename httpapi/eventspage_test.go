package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
)

// A browser gets a page of limited length with the newest events first. Programs get
// NDJSON.
func TestEventsInABrowser(t *testing.T) {
	t.Parallel()
	s := start(t)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	page := func(path string) string {
		t.Helper()
		a := s.do("GET", path, "", "Accept", browser)
		if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(a.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Fatalf("%s: %d %v %s", path, a.StatusCode, a.Header, a.body)
		}
		return string(a.body)
	}
	if empty := page("/api/events"); !strings.Contains(empty, "The ledger ends at 0.") {
		t.Errorf("an empty ledger: %s", empty)
	}
	for n := range 120 {
		s.submit(fmt.Sprintf(`{"code":"run(%d) // <script>alert(1)</script>"}`, n))
	}
	edge := s.lastSeq()
	newest := page("/api/events")
	if !strings.Contains(newest, fmt.Sprintf(`<tr id="%d">`, edge)) || strings.Contains(newest, `<tr id="1">`) || strings.Contains(newest, "<script>") ||
		!strings.Contains(newest, fmt.Sprintf(`href="?after=%d">Older`, max(edge, 200)-200)) || strings.Contains(newest, ">Newer<") {
		t.Errorf("the newest events: %s", newest)
	}
	if oldest := page("/api/events?after=0"); !strings.Contains(oldest, `<tr id="1">`) || !strings.Contains(oldest, `href="?after=100">Newer`) || strings.Contains(oldest, ">Older<") {
		t.Errorf("the oldest events: %s", oldest)
	}
	if none := page("/api/events?type=daybook.webhook.deleted.v1"); !strings.Contains(none, "There are no events that match") {
		t.Errorf("a filter that nothing meets: %s", none)
	}
	for _, accept := range []string{"", "*/*", "application/x-ndjson", "text/html, application/json"} {
		if a := s.do("GET", "/api/events?limit=1", "", "Accept", accept); a.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("Accept %q gets %s", accept, a.Header.Get("Content-Type"))
		}
	}
}
