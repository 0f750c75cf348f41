package projections_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/projections"
)

func entry(n int, session string, index int64, status events.Status, from, to string) *events.SessionEntryRecorded {
	return &events.SessionEntryRecorded{
		SessionID: events.SessionID(tenant, session), Session: session, Index: index, ExecutionID: id(n), Status: status,
		InputHeap: from, OutputHeap: to, CompletedAt: events.Instant{Time: began}, TerminalSeq: 1,
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
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
	list, _, err := s.SessionNames(t.Context(), tenant, 0, "")
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
	if list, _, err := s.SessionNames(t.Context(), "another", 0, ""); err != nil || list == nil || len(list) != 0 {
		t.Errorf("another tenant's sessions: %v, error %v", list, err)
	}
}

// TestEntriesInDisorder checks that an entry with a used index changes nothing, and
// that an entry that skips an index counts. Both are recorded as anomalies.
func TestEntriesInDisorder(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1), requested(2), requested(3))
	for n, index := range []int64{0, 0, 3, 2, -1} { // positions 4 to 8
		b.add(entry(n%3+1, "s", index, events.StatusCompleted, "", ""))
	}
	apply(t, s, b)
	got, err := s.Entries(t.Context(), tenant, "s")
	if err != nil || len(got) != 2 || got[0].ExecutionID != id(1) || got[1].Index != 3 || got[1].ExecutionID != id(3) {
		t.Errorf("entries %v, error %v", got, err)
	}
	for session, want := range map[string]int64{"s": 4, "unknown": 0} {
		if next, err := s.NextEntry(t.Context(), tenant, session); next != want || err != nil {
			t.Errorf("the next entry of %q is %d, %v, want %d", session, next, err, want)
		}
	}
	want := []note{
		{Seq: 5, What: `entry 0 of session "s" comes after entry 0`},
		{Seq: 6, What: `entries 1 to 2 of session "s" are missing`},
		{Seq: 7, What: `entry 2 of session "s" comes after entry 3`},
		{Seq: 8, What: `entry -1 of session "s" comes after entry 3`},
	}
	if diff := cmp.Diff(want, broken(t, s)); diff != "" {
		t.Error(diff)
	}
}

// A client that saw the end of a session's run finds the entry, although the entry is
// recorded after the end. A run whose entry never comes blocks readers for a limited
// time only.
func TestPendingEntriesAreWaitedFor(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	follow(t, s, b)
	end := func(n int) {
		t.Helper()
		b.add(requested(n, inSession("s")))
		b.add(started(n, 1, fresh, ""))
		if err := s.Wait(t.Context(), b.add(ended(n, events.StatusCompleted))); err != nil {
			t.Fatal(err)
		}
	}
	end(1)
	got := make(chan []projections.Entry, 1)
	go func() {
		list, err := s.Entries(t.Context(), tenant, "s")
		if err != nil {
			t.Error(err)
		}
		got <- list
	}()
	b.add(entry(1, "s", 0, events.StatusCompleted, "", ""))
	if list := <-got; len(list) != 1 || list[0].ExecutionID != id(1) {
		t.Errorf("entries %+v, want the one that was on its way", list)
	}

	end(2)
	for range 2 {
		if list, err := s.Entries(t.Context(), tenant, "s"); err != nil || len(list) != 1 {
			t.Errorf("without the entry of a second run: %+v, %v", list, err)
		}
	}
	end(3)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Entries(ctx, tenant, "s"); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader who left: %v", err)
	}
}

// The head of a named session is that of the run that has just ended, although its
// entry is recorded after the end.
func TestPendingHeadIsWaitedFor(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	follow(t, s, b)
	b.add(requested(9, inSession("s")), started(9, 1, fresh, ""), ended(9, events.StatusCompleted), entry(9, "s", 0, events.StatusCompleted, "", ""))
	for n := range 2 {
		b.add(requested(n, inSession("s")), started(n, 1, fresh, ""))
		if err := s.Wait(t.Context(), b.add(ended(n, events.StatusCompleted, leaving(heap(n), "")))); err != nil {
			t.Fatal(err)
		}
		got := make(chan projections.Session, 1)
		go func() {
			found, err := s.ResolveSession(t.Context(), tenant, "s")
			if err != nil {
				t.Error(err)
			}
			got <- found
		}()
		select { // a result without waiting would be available by then
		case found := <-got:
			t.Fatalf("before the entry of run %d the session is %+v", n, found)
		case <-time.After(20 * time.Millisecond):
		}
		b.add(entry(n, "s", int64(n)+1, events.StatusCompleted, "", heap(n)))
		if found := <-got; found.Head == nil || *found.Head != heap(n) {
			t.Errorf("after run %d the session is %+v", n, found)
		}
	}
}

// Reading a log in pages returns the complete log, with gaps in its indices, and takes
// the memory of one page at a time.
func TestEntriesInPages(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	const n = 100
	for i := range n {
		b.add(requested(i + 1))
	}
	for i := range n {
		b.add(entry(i+1, "s", int64(i+i/40), events.StatusCompleted, "", ""))
	}
	apply(t, s, b)
	want, err := s.Entries(t.Context(), tenant, "s")
	if err != nil || len(want) != n {
		t.Fatalf("%d entries, error %v", len(want), err)
	}
	name := "s"
	of := projections.Session{Kind: events.SessionLog, SessionID: events.SessionID(tenant, "s"), Name: &name}
	account := budget.New(budget.Options{Answers: 1 << 20, Runs: 1, Cache: 1}).Answer(tenant, 1)
	ctx := budget.With(t.Context(), account)
	var got []projections.Entry
	err = s.ForEachEntry(ctx, tenant, of, 0, func(e projections.Entry) error {
		if held := account.Held(); held == 0 || held > 32<<10 {
			t.Errorf("at entry %d the account holds %d bytes", e.Index, held)
		}
		got = append(got, e)
		return nil
	})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
	if account.Held() != 0 {
		t.Errorf("%d bytes are held at the end", account.Held())
	}
	stop := errors.New("stop")
	if err := s.ForEachEntry(ctx, tenant, of, 0, func(projections.Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the caller: %v", err)
	}
}
