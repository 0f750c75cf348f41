package projections_test

import (
	"errors"
	"testing"

	"daybook/events"
	"daybook/projections"
)

func artifact(n, attempt, number int, name string, content string) *events.ExecutionArtifactCreated {
	return &events.ExecutionArtifactCreated{
		ExecutionID: id(n), Attempt: attempt, Number: number, SHA256: events.Hash([]byte(content)), Size: int64(len(content)), Line: 1,
		Content: events.Plain(events.ArtifactContent{Name: name, MIME: "text/plain", Blob: events.Hash([]byte(content))}),
	}
}

// The artifacts of the newest attempt count, and of several with a name the last one is
// selected. They count as stored output of the tenant.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	s, b := open(t, projections.Options{}), newMemoryLedger()
	list := func(n int) []projections.Artifact {
		t.Helper()
		apply(t, s, b)
		found, err := s.Artifacts(t.Context(), tenant, id(n))
		if err != nil || found == nil {
			t.Fatalf("%v, %v", found, err)
		}
		return found
	}
	b.add(requested(1), requested(2), started(1, 1, fresh, ""), artifact(1, 1, 1, "a", "12345"), artifact(1, 1, 2, "b", "123"))
	if got := list(1); len(got) != 2 || got[0].Name != "a" || got[0].Size != 5 || got[0].IsReplaced {
		t.Errorf("%+v", got)
	}
	if u := usage(t, s, tenant); u.OutputBytes != 8 {
		t.Errorf("the tenant uses %+v", u)
	}
	b.add(started(1, 2, fresh, ""), artifact(1, 2, 1, "a", "1234"), artifact(1, 2, 2, "a", "12"), artifact(1, 2, 3, "c", ""))
	if got := list(1); len(got) != 3 || !got[0].IsReplaced || got[1].IsReplaced {
		t.Errorf("%+v", got)
	}
	if u := usage(t, s, tenant); u.OutputBytes != 6 {
		t.Errorf("after the second attempt started the tenant uses %+v", u)
	}
	for _, tt := range []struct {
		name         string
		number, want int
	}{{"a", 0, 2}, {"a", 1, 1}, {"", 3, 3}, {"c", 0, 3}, {"b", 0, 0}, {"c", 1, 0}, {"", 4, 0}, {"", 0, 0}} {
		got, err := s.Artifact(t.Context(), tenant, id(1), tt.name, tt.number)
		if got.Number != tt.want || errors.Is(err, events.ErrNotFound) != (tt.want == 0) {
			t.Errorf("%q, %d: %+v, %v", tt.name, tt.number, got, err)
		}
	}
	for limit, want := range []string{"", "a", "ac", "ac"} {
		found, err := s.CurrentArtifacts(t.Context(), tenant, id(1), limit)
		names := ""
		for _, f := range found {
			names += f.Name
		}
		if err != nil || names != want {
			t.Errorf("the first %d: %q, %v", limit, names, err)
		}
	}
	page, err := s.Executions(t.Context(), tenant, projections.ExecutionFilter{Details: true})
	if err != nil || len(page.Executions) != 2 || page.Executions[0].Artifacts != 0 || page.Executions[1].Artifacts != 3 {
		t.Errorf("%+v, %v", page, err)
	}
	if e, err := s.Execution(t.Context(), tenant, id(1)); err != nil || e.Artifacts != 3 {
		t.Errorf("%d artifacts, %v", e.Artifacts, err)
	}
	if got := list(2); len(got) != 0 {
		t.Errorf("a run without artifacts: %+v", got)
	}
	for who, want := range map[string]string{"other": id(1), tenant: id(9)} {
		if _, err := s.Artifacts(t.Context(), who, want); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("tenant %s: %v", who, err)
		}
	}
	b.add(artifact(1, 2, 5, "x", ""), artifact(1, 1, 4, "x", ""), ended(1, events.StatusCompleted), artifact(1, 2, 4, "x", ""))
	if got := list(1); len(got) != 3 {
		t.Errorf("%+v", got)
	}
	if found := broken(t, s); len(found) != 3 {
		t.Errorf("%d anomalies, want 3: %v", len(found), found)
	}
}
