package ledger_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

func TestTenantsHaveSeparateSessions(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	mine := b.open("same words")
	o, err := b.OpenSession(t.Context(), ledger.Opening{Tenant: "other", Intent: "same words", Actor: alice})
	if err != nil || o.SessionID == mine || !o.New {
		t.Fatalf("another tenant's session is %+v, %v", o, err)
	}
	_, err = b.Submit(t.Context(), ledger.Submission{Tenant: "other", LogicalSession: mine, Actor: alice})
	wantCode(t, err, ledger.CodeNotFound, "open_session")
	_, err = b.ReadSession(t.Context(), "other", mine)
	wantCode(t, err, ledger.CodeNotFound)
	_, err = b.ExpandSession(t.Context(), ledger.Expansion{Tenant: "other", Session: mine, Entries: []events.TaughtEntry{{ID: "a"}}})
	wantCode(t, err, ledger.CodeNotFound)
	if events.IntentKey("other", "same words") == events.IntentKey(tenant, "same words") {
		t.Error("two tenants share the key of an intent")
	}
}

// Of 100 concurrent calls with one intent, in two processes, one opens the session.
func TestConcurrentOpens(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	ledgers := []*testLedger{openTestLedgerOn(t, store, ledger.Options{}), openTestLedgerOn(t, store, ledger.Options{})}
	var wg sync.WaitGroup
	ids := make([]ledger.OpenResult, 100)
	for i := range ids {
		wg.Go(func() {
			o, err := ledgers[i%2].OpenSession(t.Context(), ledger.Opening{Tenant: tenant, Intent: "at once", Actor: alice})
			if err != nil {
				t.Error(err)
			}
			ids[i] = o
		})
	}
	wg.Wait()
	made := 0
	for _, o := range ids {
		if o.New {
			made++
		}
		if o.SessionID != ids[0].SessionID {
			t.Errorf("two sessions: %s and %s", o.SessionID, ids[0].SessionID)
		}
	}
	opened := 0
	for _, e := range ledgers[0].all() {
		if e.Type == events.TypeSessionOpened {
			opened++
		}
	}
	if made != 1 || opened != 1 {
		t.Errorf("%d callers opened the session, and %d opened events are recorded", made, opened)
	}
}

func TestTraceOfASession(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	s, other := b.open("traced"), b.open("traced apart")
	one, two, apart := b.turn(s), b.turn(s), b.turn(other)
	id := func(r ledger.Request) string { return strings.Split(r.Traceparent, "-")[1] }
	if id(one) != id(two) || id(one) == id(apart) || one.Traceparent == two.Traceparent {
		t.Errorf("traces %s, %s and %s", one.Traceparent, two.Traceparent, apart.Traceparent)
	}
	const given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if got := b.submit(ledger.Submission{LogicalSession: s, Traceparent: given}).Traceparent; got != given {
		t.Errorf("the client's trace became %s", got)
	}
}

func teaching(session string, ids ...string) ledger.Expansion {
	t := ledger.Expansion{Tenant: tenant, Session: session, Primary: "p", Sources: map[string]string{"p": "1"}, Known: map[string]string{}, Actor: alice}
	for _, id := range ids {
		t.Entries = append(t.Entries, events.TaughtEntry{ID: id, SHA256: "h" + id})
		t.Known[id] = "h" + id
	}
	return t
}

// A process dies after it recorded a break and before the declarations. The next expansion
// reports the break.
func TestInterruptedExpansion(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	b := openTestLedgerOn(t, store, ledger.Options{})
	s := b.open("cut short")
	run := b.turn(s)
	b.end(run, events.StatusCompleted, heapA) // whose blob is not stored
	if _, err := b.ExpandSession(t.Context(), teaching(s, "a")); err != nil {
		t.Fatal(err)
	}
	next := b.turn(s)
	b.end(next, events.StatusCompleted, heapB)
	dying := ledger.New(&interposed{store, func(_ context.Context, e events.Event) error {
		if e.Type == events.TypeSessionExpanded {
			return errDisk
		}
		return nil
	}}, ledger.Options{})
	if _, err := dying.ExpandSession(t.Context(), teaching(s, "a")); err == nil {
		t.Fatal("the declarations were recorded")
	}
	got, err := b.ExpandSession(t.Context(), teaching(s, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if !got.NewSymbolSpace || !got.StateLost || got.BreakReason != ledger.BreakHeapLost || got.PreviousHeap != heapB || got.PreviousExecution != next.ExecutionID {
		t.Errorf("expanded: %+v", got)
	}
	if got.Added[0].Symbol != "t2" {
		t.Errorf("the symbol is %s", got.Added[0].Symbol)
	}
	b.plan(b.turn(s), "", "")
}

// Concurrent expansions each get their own symbols and revision.
func TestConcurrentExpansions(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	ledgers := []*testLedger{openTestLedgerOn(t, store, ledger.Options{}), openTestLedgerOn(t, store, ledger.Options{})}
	s := ledgers[0].open("at once")
	var wg sync.WaitGroup
	all := strings.Split("abcdefghij", "")
	known := teaching(s, all...).Known
	for i, id := range all {
		wg.Go(func() {
			one := teaching(s, id)
			one.Known = known
			if _, err := ledgers[i%2].ExpandSession(t.Context(), one); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := ledgers[0].ReadSession(t.Context(), tenant, s)
	if err != nil || got.Revision != 10 || got.Symbols != 10 || len(got.Entries) != 10 {
		t.Errorf("recorded: %+v, %v", got, err)
	}
	seen := map[string]bool{}
	for _, e := range got.Entries {
		seen[e.Symbol] = true
	}
	if len(seen) != 10 {
		t.Errorf("symbols %v", seen)
	}
}

func TestExpandForAnotherPrincipal(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	s := b.open("principals")
	one := teaching(s, "a")
	one.Principal = "alice"
	if _, err := b.ExpandSession(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	one.Principal = "bob"
	got, err := b.ExpandSession(t.Context(), one)
	if err != nil || got.BreakReason != ledger.BreakPrincipalChanged || !got.NewSymbolSpace || got.StateLost {
		t.Errorf("for another principal %+v, %v", got, err)
	}
}

// The short names of a holder are read once, however many clients share the holder, and those
// that another process assigns are found.
func TestRefsAreReadOnce(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	requests, read := 0, 0
	l := ledger.New(countedReads{b.store, &requests, &read}, ledger.Options{})
	holder := events.Hash([]byte("anonymous"))
	const sessions = 40
	for i := range sessions {
		session, want := events.Hash([]byte(strconv.Itoa(i))), "s"+strconv.Itoa(i)
		assigning := []*ledger.Ledger{l, b.Ledger}[i%2]
		if ref, _, err := assigning.AssignRef(t.Context(), tenant, holder, session); err != nil || ref != want {
			t.Fatalf("%s, %v; want %s", ref, err, want)
		}
		if again, seq, err := l.AssignRef(t.Context(), tenant, holder, session); err != nil || again != want || seq != 0 {
			t.Fatalf("assigned again: %s at %d, %v; want %s", again, seq, err, want)
		}
		if got, err := l.ResolveRef(t.Context(), tenant, holder, want); err != nil || got != session {
			t.Fatalf("%s names session %s, %v", want, got, err)
		}
	}
	if read != sessions {
		t.Errorf("%d events were read for %d short names", read, sessions)
	}
}

// Concurrent calls assign each session one short name.
func TestConcurrentRefs(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	holder := events.Hash([]byte("anonymous"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	refs := map[string]map[string]bool{}
	for i := range 24 {
		wg.Go(func() {
			session := events.Hash([]byte(strconv.Itoa(i % 8)))
			ref, _, err := b.AssignRef(t.Context(), tenant, holder, session)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if refs[session] == nil {
				refs[session] = map[string]bool{}
			}
			refs[session][ref] = true
		})
	}
	wg.Wait()
	all := map[string]bool{}
	for session, of := range refs {
		for ref := range of {
			if len(of) != 1 || all[ref] {
				t.Errorf("session %s has the names %v", session, of)
			}
			all[ref] = true
		}
	}
}

func TestRefs(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	holder, other := events.Hash([]byte("1")), events.Hash([]byte("2"))
	one, two := b.open("one"), b.open("two")
	for i, c := range []struct{ holder, session, ref string }{{holder, one, "s0"}, {holder, two, "s1"}, {holder, one, "s0"}, {other, two, "s0"}} {
		if ref, _, err := b.AssignRef(t.Context(), tenant, c.holder, c.session); err != nil || ref != c.ref {
			t.Errorf("%d: %s, %v; want %s", i, ref, err, c.ref)
		}
		if got, err := b.ResolveRef(t.Context(), tenant, c.holder, c.ref); err != nil || got != c.session {
			t.Errorf("%d: %s names session %s, %v", i, c.ref, got, err)
		}
	}
	_, err := b.ResolveRef(t.Context(), tenant, holder, "s2")
	wantCode(t, err, ledger.CodeNotFound, "open_session")
	_, err = b.ResolveRef(t.Context(), "other", holder, "s0")
	wantCode(t, err, ledger.CodeNotFound)
}
