package ledger_test

import (
	"context"
	"sync"
	"testing"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// stored stores a heap and returns its key.
func (b *testLedger) stored(text string) string {
	b.t.Helper()
	hash, err := b.store.PutHeap(b.t.Context(), tenant, []byte(text), engine)
	if err != nil {
		b.t.Fatal(err)
	}
	return hash
}

func (b *testLedger) reset(r ledger.Reset) ledger.ResetResult {
	b.t.Helper()
	r.Tenant, r.Actor = tenant, alice
	done, err := b.ResetSession(b.t.Context(), r)
	if err != nil {
		b.t.Fatalf("reset: %v", err)
	}
	return done
}

// A reset is ordered among the turns. Earlier turns keep their state; later turns start
// from the reset head once the earlier ones have ended.
func TestResetIsOrderedAmongTheTurns(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	first, second := b.stored("first"), b.stored("second")
	s := b.open("reset")
	one := b.turn(s)
	b.end(one, events.StatusCompleted, first)
	two := b.turn(s)
	b.end(two, events.StatusCompleted, second)

	before := b.turn(s)
	done := b.reset(ledger.Reset{SessionID: s, Heap: first})
	if done.Kind != events.SessionLogical || done.SessionID != s || done.Seq == 0 {
		t.Errorf("the reset is %+v", done)
	}
	after := b.turn(s)
	b.plan(before, "", second)
	b.plan(after, before.ExecutionID, "")
	b.end(before, events.StatusCompleted, b.stored("third"))
	b.plan(after, "", first)
	b.end(after, events.StatusTimedOut, "") // leaves the session head as it was
	next := b.turn(s)
	b.plan(next, "", first)
	b.end(next, events.StatusCompleted, second)

	b.reset(ledger.Reset{SessionID: s})
	b.plan(b.turn(s), "", "")
}

func TestResetRefusals(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	mine, other := b.stored("mine"), b.stored("other")
	s, o := b.open("mine"), b.open("other")
	b.end(b.turn(s), events.StatusCompleted, mine)
	b.end(b.turn(o), events.StatusCompleted, other)
	b.end(b.turn(s), events.StatusCompleted, heapA) // whose blob is not stored
	for name, c := range map[string]struct {
		r    ledger.Reset
		code ledger.Code
		says string
	}{
		"another lineage": {ledger.Reset{SessionID: s, Heap: other}, ledger.CodeInvalid, "not of this session"},
		"a missing blob":  {ledger.Reset{SessionID: s, Heap: heapA}, ledger.CodeNotFound, heapA},
		"no heap":         {ledger.Reset{SessionID: s, Heap: "abc"}, ledger.CodeInvalid, "heap"},
		"no session":      {ledger.Reset{SessionID: heapB}, ledger.CodeNotFound, "no session"},
		"no log":          {ledger.Reset{Name: "nothing here"}, ledger.CodeNotFound, "nothing to reset"},
		"a bad id":        {ledger.Reset{SessionID: "x"}, ledger.CodeInvalid, "session"},
	} {
		c.r.Tenant, c.r.Actor = tenant, alice
		_, err := b.ResetSession(t.Context(), c.r)
		t.Log(name)
		wantCode(t, err, c.code, c.says)
	}
	_, err := b.ResetSession(t.Context(), ledger.Reset{Tenant: "other", SessionID: s})
	wantCode(t, err, ledger.CodeNotFound)
}

func TestResetIsIdempotentByKey(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	heap := b.stored("heap")
	s := b.open("keys")
	b.end(b.turn(s), events.StatusCompleted, heap)
	first := b.reset(ledger.Reset{SessionID: s, Heap: heap, IdempotencyKey: "k"})
	b.end(b.turn(s), events.StatusCompleted, b.stored("later"))
	again := b.reset(ledger.Reset{SessionID: s, Heap: heap, IdempotencyKey: "k"})
	if again.Seq != first.Seq || !again.Repeated || first.Repeated {
		t.Errorf("first %+v, again %+v", first, again)
	}
	_, err := b.ResetSession(t.Context(), ledger.Reset{Tenant: tenant, SessionID: s, IdempotencyKey: "k", Actor: alice})
	wantCode(t, err, ledger.CodeConflict, "idempotency_key")
}

// The log of a named session continues after a reset.
func TestResetOfANamedSession(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	heap := b.stored("heap")
	for range 2 {
		b.end(b.submit(ledger.Submission{Code: "1", Session: "log"}), events.StatusCompleted, heap)
	}
	b.reset(ledger.Reset{Name: "log", Heap: heap})
	if done := b.reset(ledger.Reset{Name: "log"}); done.Kind != events.SessionLog || done.SessionID != events.SessionID(tenant, "log") {
		t.Errorf("the reset is %+v", done)
	}
	b.end(b.submit(ledger.Submission{Code: "1", Session: "log"}), events.StatusCompleted, heap)
	list := b.entries("log")
	if len(list) != 3 || list[2].Index != 2 {
		t.Errorf("the log has %d entries, the last is %+v", len(list), list[len(list)-1])
	}
	_, err := b.ResetSession(t.Context(), ledger.Reset{Tenant: tenant, Name: "log", Heap: b.stored("foreign"), Actor: alice})
	wantCode(t, err, ledger.CodeInvalid, "not of this session")
}

// A reset finds that another process has recorded one with the same key just before.
func TestResetBesideAnotherProcess(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	other := openTestLedgerOn(t, store, ledger.Options{})
	session := other.open("two processes")
	r := ledger.Reset{Tenant: tenant, SessionID: session, IdempotencyKey: "once", Actor: alice}
	var first ledger.ResetResult
	var once sync.Once
	l := ledger.New(&interposed{Store: store, before: func(ctx context.Context, _ events.Event) (err error) {
		once.Do(func() { first, err = other.ResetSession(ctx, r) })
		return err
	}}, ledger.Options{})
	got, err := l.ResetSession(t.Context(), r)
	if err != nil || !got.Repeated || got.Seq != first.Seq {
		t.Errorf("got %+v, %v; the other process has reset the session at %d", got, err, first.Seq)
	}
	r.IdempotencyKey = "twice"
	if got, err = l.ResetSession(t.Context(), r); err != nil || got.Repeated {
		t.Errorf("with another key: %+v, %v", got, err)
	}
}
