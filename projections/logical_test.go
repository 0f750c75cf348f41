package projections_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

func sessionID(n int) string { return fmt.Sprintf("%064x", 0xabc000+n) }

func opened(n int, intent string) *events.SessionOpened {
	d := &events.SessionOpened{SessionID: sessionID(n), Kind: events.SessionLogical, Content: events.Plain(events.SessionContent{Intent: intent}), Actor: client}
	if intent != "" {
		d.IntentSHA256 = events.Hash([]byte(intent))
	}
	return d
}

func turnQueued(session, number, execution int) *events.SessionTurnQueued {
	return &events.SessionTurnQueued{SessionID: sessionID(session), Number: int64(number), ExecutionID: id(execution)}
}

func inTurn(session, number int) func(*events.ExecutionRequested) {
	return func(d *events.ExecutionRequested) {
		d.Turn = &events.Turn{SessionID: sessionID(session), Number: int64(number)}
	}
}

// logicalMove returns a random event of a logical session.
func logicalMove(r *rand.Rand) events.Data {
	n, turn, x := r.IntN(3), r.IntN(9), 1+r.IntN(12)
	next := events.SessionNext{Turn: int64(turn), Reset: r.IntN(2) == 0, Heap: heap(r.IntN(9))}
	switch r.IntN(7) {
	case 0:
		return opened(n, fmt.Sprint("intent ", n))
	case 1:
		return turnQueued(n, turn, x)
	case 2:
		return &events.SessionExpanded{
			SessionID: sessionID(n), DomainRevision: int64(turn), Binding: events.SessionBinding{Primary: "builtin", CatalogSHA256: heap(x)},
			Added: []events.TaughtEntry{{ID: "a", SHA256: heap(1), Symbol: fmt.Sprint("t", turn)}, {ID: "b", SHA256: heap(2), Symbol: "u"}}, Next: next,
		}
	case 5:
		return &events.SessionReset{SessionID: sessionID(n), Kind: events.SessionLogical, Heap: next.Heap, Next: &next, Actor: client}
	case 3:
		return &events.SessionRebound{SessionID: sessionID(n), Reason: "heap_lost", Next: next}
	case 4:
		return &events.SessionTurnSkipped{SessionID: sessionID(n), Number: int64(turn), ExecutionID: id(x), Next: next}
	default:
		return requested(x, inTurn(n, turn))
	}
}

func TestLogicalSessions(t *testing.T) {
	t.Parallel()
	s, b := open(t, projections.Options{}), newMemoryLedger()
	b.add(
		&events.SessionNamed{IntentKey: heap(77), SessionID: sessionID(1)},
		opened(1, "plan a trip"),
		&events.SessionExpanded{
			SessionID: sessionID(1), DomainRevision: 1, Binding: events.SessionBinding{Primary: "builtin", CatalogSHA256: heap(50)},
			Added: []events.TaughtEntry{{ID: "builtin.console", SHA256: heap(51), Symbol: "t1"}, {ID: "builtin.timers", SHA256: heap(52), Symbol: "t2"}},
		},
		turnQueued(1, 1, 1), requested(1, inTurn(1, 1)),
		turnQueued(1, 2, 2), requested(2, inTurn(1, 2)),
		started(1, 1, fresh, ""), ended(1, events.StatusCompleted, leaving(heap(1), "")),
		started(2, 1, fresh, heap(1)), ended(2, events.StatusTimedOut),
	)
	b.addFor("another", opened(1, "plan a trip"))
	b.add(opened(2, ""))
	apply(t, s, b)
	noAnomalies(t, s)
	got, err := s.LogicalSession(t.Context(), tenant, sessionID(1))
	if err != nil {
		t.Fatal(err)
	}
	want := projections.LogicalSessionDetail{
		LogicalSession: projections.LogicalSession{
			SessionID: sessionID(1), Kind: events.SessionLogical, Intent: ptr("plan a trip"), IntentSHA256: ptr(events.Hash([]byte("plan a trip"))),
			OpenedAt: at(2), LastUsedAt: at(9), Actor: client, Head: ptr(heap(1)), Turns: 2, LastExecution: ptr(id(2)),
			DomainRevision: 1, Primary: ptr("builtin"), CatalogSHA256: ptr(heap(50)),
		},
		Entries: []projections.SessionCatalogEntry{{Symbol: "t1", ID: "builtin.console", SHA256: heap(51)}, {Symbol: "t2", ID: "builtin.timers", SHA256: heap(52)}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	if run, err := s.Execution(t.Context(), tenant, id(2)); err != nil || run.LogicalSession == nil || *run.LogicalSession != sessionID(1) || *run.Turn != 2 {
		t.Errorf("the run's place is %v, %v, %v", run.LogicalSession, run.Turn, err)
	}
	first, err := s.LogicalSessions(t.Context(), tenant, 1, "")
	if err != nil || len(first.Sessions) != 1 || first.Sessions[0].SessionID != sessionID(2) || first.Sessions[0].Intent != nil || first.NextCursor == "" {
		t.Fatalf("first page %+v, %v", first, err)
	}
	second, err := s.LogicalSessions(t.Context(), tenant, 1, first.NextCursor)
	if err != nil || len(second.Sessions) != 1 || second.Sessions[0].SessionID != sessionID(1) || second.NextCursor != "" {
		t.Errorf("second page %+v, %v", second, err)
	}
	if _, err := s.LogicalSession(t.Context(), "nobody", sessionID(1)); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("for another tenant: %v", err)
	}
	for _, bad := range []struct {
		limit  int
		cursor string
	}{{-1, ""}, {projections.MaxListLimit + 1, ""}, {1, "nonsense"}} {
		if _, err := s.LogicalSessions(t.Context(), tenant, bad.limit, bad.cursor); !errors.Is(err, projections.ErrBadQuery) {
			t.Errorf("limit %d, cursor %q: %v", bad.limit, bad.cursor, err)
		}
	}
}

// A run in a named session can have a turn in a logical one. Then both were last used at the same
// position, and pages of any length have each of them once.
func TestSessionsOfOneRunAreListedOnce(t *testing.T) {
	t.Parallel()
	s, b := open(t, projections.Options{}), newMemoryLedger()
	var want []string
	for n := range 3 {
		name := fmt.Sprint("session ", n)
		b.add(opened(n, ""), turnQueued(n, 1, 10+n), requested(10+n, inSession(name), inTurn(n, 1)), requested(20+n, inSession(name+" alone")))
		want = append(want, sessionID(n), events.SessionID(tenant, name), events.SessionID(tenant, name+" alone"))
	}
	slices.Reverse(want)
	apply(t, s, b)
	noAnomalies(t, s)
	for _, kind := range []events.SessionKind{"", events.SessionLog, events.SessionLogical} {
		want := slices.Clone(want)
		if kind != "" {
			want = slices.DeleteFunc(want, func(id string) bool { return strings.HasPrefix(id, "000") != (kind == events.SessionLogical) })
		}
		for limit := 1; limit <= len(want)+1; limit++ {
			var got []string
			for page := (projections.SessionPage{}); ; {
				var err error
				page, err = s.SessionList(t.Context(), tenant, projections.SessionFilter{Kind: kind, Limit: limit, Cursor: page.NextCursor})
				if err != nil || len(page.Items) > limit || len(got) > len(want) {
					t.Fatalf("kind %q, limit %d: a page of %d, %v", kind, limit, len(page.Items), err)
				}
				for _, one := range page.Items {
					got = append(got, one.SessionID)
				}
				if page.NextCursor == "" {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("kind %q in pages of %d (-want +got):\n%s", kind, limit, diff)
			}
		}
	}
}

// TestHeadAfterABreak checks that a turn that was queued before a break of continuity
// no longer moves the head, and that earlier symbols are removed.
func TestHeadAfterABreak(t *testing.T) {
	t.Parallel()
	s, b := open(t, projections.Options{}), newMemoryLedger()
	b.add(opened(1, "x"), &events.SessionExpanded{SessionID: sessionID(1), DomainRevision: 1, Added: []events.TaughtEntry{{ID: "a", Symbol: "t1"}}},
		turnQueued(1, 1, 1), requested(1, inTurn(1, 1)),
		&events.SessionRebound{SessionID: sessionID(1), Reason: "heap_lost", Next: events.SessionNext{Turn: 1, ExecutionID: id(1), Reset: true}},
		started(1, 1, fresh, ""), ended(1, events.StatusCompleted, leaving(heap(1), "")))
	apply(t, s, b)
	got, err := s.LogicalSession(t.Context(), tenant, sessionID(1))
	if err != nil || got.Head != nil || len(got.Entries) != 0 || got.Broken == nil || *got.Broken != "heap_lost" {
		t.Fatalf("after the break %+v, %v", got, err)
	}
	b.add(turnQueued(1, 2, 2), requested(2, inTurn(1, 2)), started(2, 1, fresh, ""), ended(2, events.StatusCompleted, leaving(heap(2), "")))
	apply(t, s, b)
	if got, err = s.LogicalSession(t.Context(), tenant, sessionID(1)); err != nil || got.Head == nil || *got.Head != heap(2) {
		t.Errorf("the head is %v, %v", got.Head, err)
	}
	noAnomalies(t, s)
	b.add(turnQueued(5, 1, 3), opened(1, "x"))
	apply(t, s, b)
	if list := broken(t, s); len(list) != 2 {
		t.Errorf("anomalies %v", list)
	}
}
