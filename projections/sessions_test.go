package projections_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

func entry(n int, session string, index int64, status events.Status, from, to string) *events.SessionEntryRecorded {
	return &events.SessionEntryRecorded{
		SessionID: events.SessionID(tenant, session), Session: session, Index: index, ExecutionID: id(n), Status: status,
		InputHeap: from, OutputHeap: to, CompletedAt: began, TerminalSeq: 1,
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	b, s := newBook(), open(t, projections.Options{})
	for n := 1; n <= 4; n++ {
		b.add(requested(n))
	}
	b.add(
		entry(2, "zebra", 0, events.StatusCompleted, "", heap(1)),
		entry(1, "zebra", 1, events.StatusCancelled, heap(1), ""),
		entry(3, "ähre", 0, events.StatusFailed, heap(1), heap(2)),
		entry(4, "Apple", 0, events.StatusTimedOut, "", ""),
	)
	apply(t, s, b)
	noAnomalies(t, s)
	list, err := s.Sessions(t.Context(), tenant)
	if diff := cmp.Diff([]string{"Apple", "zebra", "ähre"}, list); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
	stamp := events.FormatTime(began)
	got, err := s.Entries(t.Context(), tenant, "zebra")
	want := []projections.Entry{
		{Index: 0, ExecutionID: id(2), Status: events.StatusCompleted, OutputHeap: ptr(heap(1)), Code: "run(2)", Timestamp: stamp},
		{Index: 1, ExecutionID: id(1), Status: events.StatusCancelled, InputHeap: ptr(heap(1)), Code: "run(1)", Timestamp: stamp},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
	for _, who := range []struct{ tenant, session string }{{tenant, "nobody"}, {"another", "zebra"}, {tenant, ""}} {
		if got, err := s.Entries(t.Context(), who.tenant, who.session); err != nil || got == nil || len(got) != 0 {
			t.Errorf("entries of %+v: %v, error %v", who, got, err)
		}
	}
	if list, err := s.Sessions(t.Context(), "another"); err != nil || list == nil || len(list) != 0 {
		t.Errorf("another tenant's sessions: %v, error %v", list, err)
	}
}

// TestEntriesAreOnce: a second entry with an index changes nothing and is noted.
func TestEntriesAreOnce(t *testing.T) {
	t.Parallel()
	b, s := newBook(), open(t, projections.Options{})
	b.add(requested(1), requested(2), entry(1, "s", 0, events.StatusCompleted, "", ""), entry(2, "s", 0, events.StatusFailed, "", ""))
	apply(t, s, b)
	got, err := s.Entries(t.Context(), tenant, "s")
	if err != nil || len(got) != 1 || got[0].ExecutionID != id(1) {
		t.Errorf("entries %v, error %v", got, err)
	}
	anomalies, err := s.Anomalies(t.Context())
	if err != nil || len(anomalies) != 1 || anomalies[0].Seq != 4 || !strings.Contains(anomalies[0].What, `second entry 0 of session "s"`) {
		t.Errorf("anomalies %v, error %v", anomalies, err)
	}
}
