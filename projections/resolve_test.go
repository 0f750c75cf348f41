package projections_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/projections"
)

// A prefix resolves to the only id of the tenant that begins with it.
func TestResolve(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	at := func(n int, heap string) {
		b.add(requested(n, inSession("s"+heap[:1])), started(n, 1, fresh, ""), ended(n, events.StatusCompleted, leaving(heap, "")))
	}
	first, second := "ab"+strings.Repeat("1", 62), "ac"+strings.Repeat("2", 62)
	if _, err := s.ResolveExecution(t.Context(), tenant, projections.Newest, ""); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("the newest of none: %v", err)
	}
	at(11, first)
	at(12, second)
	for n := 30; n < 60; n++ {
		b.add(requested(n))
	}
	b.addFor("other", requested(70), ended(70, events.StatusCompleted, leaving("ad"+strings.Repeat("3", 62), "")))
	b.add(tagged("abc"+strings.Repeat("4", 61), map[string]string{"a": "b"}, events.EditSet, 0))
	apply(t, s, b)
	for _, tt := range []struct{ what, text, session, want string }{
		{"execution", id(11), "", id(11)},
		{"execution", strings.ToUpper(id(11)), "", id(11)},
		{"execution", id(11)[:36], "", id(11)},
		{"execution", projections.Newest, "", id(59)},
		{"execution", projections.Newest, "sa", id(12)},
		{"execution", id(70), "", "not found"},
		{"execution", "f", "", "not found"},
		{"execution", id(11)[:35], "", "is ambiguous: "},
		{"execution", "0", "", " and others; give more characters"},
		{"execution", "x", "", "is neither"},
		{"execution", "", "", "is neither"},
		{"heap", "ac", "", second},
		{"heap", "ab1", "", first},
		{"heap", "abc", "", "abc" + strings.Repeat("4", 61)},
		{"heap", "ab", "", "is ambiguous: abc4"},
		{"heap", "ad", "", "not found"},
		{"heap", projections.Newest, "", second},
		{"heap", projections.Newest, "nowhere", "not found"},
		{"heap", strings.Repeat("a", 65), "", "is neither"},
	} {
		find := s.ResolveExecution
		if tt.what == "heap" {
			find = s.ResolveHeap
		}
		got, err := find(t.Context(), tenant, tt.text, tt.session)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("%s %q: %q, want %q", tt.what, tt.text, got, tt.want)
		}
	}
}

// A list can hold details, omit older executions, and search the sources.
func TestListDetails(t *testing.T) {
	t.Parallel()
	const source = "say(\"50% of <b>\\n\")\n// ÉTÉ"
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1), requested(2, inSession("s"), func(d *events.ExecutionRequested) {
		d.Content = events.Plain(events.RequestedContent{Source: events.Body{Text: source}})
	}), requested(3, func(d *events.ExecutionRequested) {
		d.Content = events.Plain(events.RequestedContent{Source: events.Body{Blob: &events.BlobRef{SHA256: heap(9), Size: 1 << 20, Preview: strings.Repeat("x", 300)}}})
	}))
	b.add(started(2, 1, fresh, ""), ended(2, events.StatusCompleted, leaving(heap(2), "")))
	apply(t, s, b)
	for _, tt := range []struct {
		name   string
		filter projections.ExecutionFilter
		want   string
	}{
		{"a text", projections.ExecutionFilter{Text: "<B>\\n\")\n"}, "2"},
		{"no pattern", projections.ExecutionFilter{Text: "50_"}, ""},
		{"a percent sign", projections.ExecutionFilter{Text: "50%"}, "2"},
		{"other letters", projections.ExecutionFilter{Text: "été"}, "2"},
		{"a script's name", projections.ExecutionFilter{Text: "lib.ts#" + events.Hash([]byte(source))[:8]}, "2"},
		{"a position in a script", projections.ExecutionFilter{Text: "lib.ts#" + events.Hash([]byte(source))[:8] + ":3:7"}, "2"},
		{"a large script's name", projections.ExecutionFilter{Text: "#" + heap(9)[:8]}, "3"},
		{"no script's name", projections.ExecutionFilter{Text: "#" + heap(9)[:9]}, ""},
		{"a preview", projections.ExecutionFilter{Text: "xxx"}, "3"},
		{"since the second", projections.ExecutionFilter{Since: timeOf(2)}, "3 2"},
		{"since the second, one", projections.ExecutionFilter{Since: timeOf(2), Limit: 1}, "3"},
		{"since tomorrow", projections.ExecutionFilter{Since: timeOf(99)}, ""},
	} {
		p, err := s.Executions(t.Context(), tenant, tt.filter)
		if got := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(names(p))), " "), "[]"); err != nil || got != tt.want {
			t.Errorf("%s: %q, want %q, error %v", tt.name, got, tt.want, err)
		}
	}
	p, err := s.Executions(t.Context(), tenant, projections.ExecutionFilter{Details: true, Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	second := p.Executions[1]
	if *second.Session != "s" || *second.Heap != heap(2) || !strings.HasPrefix(second.CodePreview, "say(") || second.Queued || !p.Executions[0].Queued || len(p.Executions[0].CodePreview) != 200 {
		t.Errorf("%+v", p.Executions)
	}
	// A page of a search continues where the previous one ended.
	p, err = s.Executions(t.Context(), tenant, projections.ExecutionFilter{Text: "run(", Limit: 1})
	if err != nil || len(p.Executions) != 1 || p.NextCursor != "" {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = s.Executions(t.Context(), tenant, projections.ExecutionFilter{Text: "x", Limit: 1})
	if err != nil || len(p.Executions) != 1 || p.NextCursor == "" {
		t.Fatalf("%+v, %v", p, err)
	}
	p, err = s.Executions(t.Context(), tenant, projections.ExecutionFilter{Text: "x", Limit: 1, Cursor: p.NextCursor})
	if err != nil || len(p.Executions) != 0 || p.NextCursor != "" {
		t.Errorf("%+v, %v", p, err)
	}
}

func timeOf(n uint64) time.Time {
	t, err := time.Parse(time.RFC3339, at(n))
	if err != nil {
		panic(err)
	}
	return t
}
