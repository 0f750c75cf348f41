package httpapi_test

import (
	"strings"
	"testing"

	"daybook/httpapi"
	"daybook/projections"
)

// A unique prefix identifies an id, and @last the newest one.
func TestResolve(t *testing.T) {
	t.Parallel()
	s := start(t)
	for query, want := range map[string]string{
		"kind=execution&id=@last":             "there is no execution yet",
		"kind=heap&id=@last&session=a":        `there is no heap in session "a" yet`,
		"kind=execution&id=" + "0":            "Execution '0' not found",
		"kind=heap&id=" + heapNo("a") + "0":   "is neither @last nor the beginning of the id of a heap",
		"kind=session&id=a":                   "kind",
		"kind=execution":                      "id",
		"kind=execution&id=0&heap=" + "cafe1": "unknown query parameter",
	} {
		var p httpapi.Problem
		a := s.do("GET", "/api/resolve?"+query, "")
		if a.into(t, a.StatusCode, &p); a.StatusCode < 400 || !strings.Contains(p.Error, want) {
			t.Errorf("%s: %d %+v", query, a.StatusCode, p)
		}
	}
	first, second := s.submit(`{"code":"one()"}`), s.submit(`{"code":"two()","session":"b"}`)
	for query, want := range map[string]string{
		"kind=execution&id=" + first:                                 first,
		"kind=execution&id=" + strings.TrimSuffix(first, first[34:]): first,
		"kind=execution&id=%40last":                                  second,
		"kind=execution&id=@last&session=b":                          second,
	} {
		var out struct{ ID string }
		s.do("GET", "/api/resolve?"+query, "").into(t, 200, &out)
		if out.ID != want {
			t.Errorf("%s: %q, want %q", query, out.ID, want)
		}
	}
	var p httpapi.Problem
	s.do("GET", "/api/resolve?kind=execution&id="+first[:2], "").into(t, 409, &p)
	if p.Field != "id" || !strings.Contains(p.Error, first) || !strings.Contains(p.Error, second) {
		t.Errorf("%+v", p)
	}
	var page projections.ExecutionPage
	s.do("GET", "/api/executions?text=TWO&since=2020-01-01T00:00:00Z", "").into(t, 200, &page)
	if len(page.Executions) != 1 || page.Executions[0].ExecutionID != second || *page.Executions[0].Session != "b" || page.Executions[0].CodePreview != "two()" {
		t.Errorf("%+v", page)
	}
	s.do("GET", "/api/executions?since=yesterday", "").into(t, 400, &p)
	if p.Field != "since" {
		t.Errorf("%+v", p)
	}
}
