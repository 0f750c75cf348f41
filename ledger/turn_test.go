package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// open opens a session by intent.
func (b *testLedger) open(intent string) string {
	b.t.Helper()
	o, err := b.OpenSession(b.t.Context(), ledger.Opening{Tenant: tenant, Intent: intent, Actor: alice})
	if err != nil {
		b.t.Fatalf("open session: %v", err)
	}
	return o.SessionID
}

func (b *testLedger) turn(session string) ledger.Request {
	b.t.Helper()
	return b.submit(ledger.Submission{Code: "1", LogicalSession: session})
}

// plan plans a run. It requires that the run waits for after or, if after is empty, starts
// from heap.
func (b *testLedger) plan(req ledger.Request, after, heap string) ledger.Plan {
	b.t.Helper()
	p, err := b.Plan(b.t.Context(), req, false)
	if err != nil {
		b.t.Fatalf("plan: %v", err)
	}
	if p.WaitFor != after || p.Heap != heap || p.Ended != nil {
		b.t.Fatalf("turn %d waits for %q and starts from heap %q, ended %t; want %q and %q", req.Turn.Number, p.WaitFor, p.Heap, p.Ended != nil, after, heap)
	}
	return p
}

// end runs a request and completes it with a heap, or without one.
func (b *testLedger) end(req ledger.Request, status events.Status, heap string) {
	b.t.Helper()
	p, err := b.Plan(b.t.Context(), req, false)
	if err != nil || p.WaitFor != "" {
		b.t.Fatalf("plan: waits for %q, %v", p.WaitFor, err)
	}
	start := robot
	start.InputHeap = p.Heap
	run, err := b.Start(b.t.Context(), p, start)
	if err != nil {
		b.t.Fatalf("start: %v", err)
	}
	res := ledger.Result{}
	if heap != "" {
		res.Heap = &events.HeapRecord{SHA256: heap, Size: 1, EngineID: engine, Parent: p.Heap}
	}
	if _, err := b.Complete(b.t.Context(), run, status, res); err != nil {
		b.t.Fatalf("complete: %v", err)
	}
}

func (b *testLedger) cancel(req ledger.Request) {
	b.t.Helper()
	if _, err := b.Cancel(b.t.Context(), tenant, req.ExecutionID, alice); err != nil {
		b.t.Fatalf("cancel: %v", err)
	}
}

func TestTurnsFollowEachOther(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	s := b.open("trip")
	one, two, three := b.turn(s), b.turn(s), b.turn(s)
	for i, req := range []ledger.Request{one, two, three} {
		if req.Turn == nil || req.Turn.Number != int64(i+1) || req.Turn.SessionID != s {
			t.Fatalf("run %d has the turn %+v", i+1, req.Turn)
		}
	}
	b.plan(one, "", "")
	b.plan(two, one.ExecutionID, "")
	b.plan(three, two.ExecutionID, "")
	b.end(one, events.StatusCompleted, heapA)
	b.plan(two, "", heapA)
	b.plan(three, two.ExecutionID, "")
	b.end(two, events.StatusFailed, heapB)
	b.plan(three, "", heapB)
}

// After a run that leaves no heap, the next turn starts from the heap that the run started
// from.
func TestTurnsInherit(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	for name, end := range map[string]func(ledger.Request){
		"timed out":               func(r ledger.Request) { b.end(r, events.StatusTimedOut, "") },
		"failed without a heap":   func(r ledger.Request) { b.end(r, events.StatusFailed, "") },
		"cancelled before it ran": b.cancel,
	} {
		t.Run(name, func(t *testing.T) {
			s := b.open(name)
			first, second := b.turn(s), b.turn(s)
			end(first)
			b.plan(second, "", "") // no heap yet: a fresh isolate
			b.end(second, events.StatusCompleted, heapA)
			for range 3 {
				end(b.turn(s))
			}
			b.plan(b.turn(s), "", heapA)
		})
	}
}

// A queued run that is cancelled ends before earlier turns. Later turns still wait for the
// earlier turns.
func TestCancelledTurnKeepsTheOrder(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	s := b.open("order")
	one, two, three := b.turn(s), b.turn(s), b.turn(s)
	b.cancel(two)
	p, err := b.Plan(t.Context(), two, true)
	if err != nil || p.Ended == nil {
		t.Fatalf("the cancelled run has not ended: %+v, %v", p, err)
	}
	b.plan(three, one.ExecutionID, "")
	b.end(one, events.StatusCompleted, heapA)
	b.plan(three, "", heapA)
}

// A writer that dies between its two appends leaves a turn that never gets a request.
func TestTurnWithoutRequest(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	now := time.Now()
	b := openTestLedgerOn(t, store, ledger.Options{Now: func() time.Time { return now }, TurnGrace: time.Minute})
	s := b.open("crash")
	one := b.turn(s)
	dying := ledger.New(&interposed{store, func(_ context.Context, e events.Event) error {
		if e.Type == events.TypeExecutionRequested {
			return errDisk
		}
		return nil
	}}, ledger.Options{Now: func() time.Time { return now }})
	lost := ledger.Submission{Tenant: tenant, Code: "1", LogicalSession: s, IdempotencyKey: "k"}
	if _, err := dying.Submit(t.Context(), lost); err == nil {
		t.Fatal("the request was recorded")
	}
	three := b.turn(s)
	if three.Turn.Number != 3 {
		t.Fatalf("turn %d after a turn without a request", three.Turn.Number)
	}
	b.end(one, events.StatusCompleted, heapA)
	b.plan(three, events.DerivedID(tenant, "k"), "") // it may still be requested
	now = now.Add(time.Minute)
	b.plan(three, "", heapA)
	b.plan(three, "", heapA) // the skip is final

	// The same submission, repeated with its key, gets a new turn.
	b.end(three, events.StatusCompleted, heapB)
	again := b.submit(lost)
	if again.Turn.Number != 4 {
		t.Fatalf("turn %d on repetition", again.Turn.Number)
	}
	b.plan(again, "", heapB)
}

// A submission queued a turn, but its request was not recorded. If it is repeated with its
// key, it keeps the turn, unless half of the turn's time has passed or another run has the
// next turn.
func TestTurnOfRepeatedSubmission(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	for name, c := range map[string]struct {
		later  time.Duration
		others int
		turn   int64
	}{
		"at once":                {0, 0, 2},
		"late":                   {time.Minute, 0, 3},
		"after the next request": {0, 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			opts := ledger.Options{Now: func() time.Time { return now }, TurnGrace: time.Minute}
			b := openTestLedgerOn(t, store, opts)
			s := b.open(name)
			one := b.turn(s)
			refused := ledger.New(&interposed{store, func(_ context.Context, e events.Event) error {
				if e.Type == events.TypeExecutionRequested {
					return errDisk
				}
				return nil
			}}, opts)
			sub := ledger.Submission{Tenant: tenant, Code: "1", LogicalSession: s, IdempotencyKey: fmt.Sprint("turn-", c.turn)}
			if _, err := refused.Submit(t.Context(), sub); err == nil {
				t.Fatal("the request was recorded")
			}
			b.end(one, events.StatusCompleted, heapA)
			for range c.others {
				b.turn(s)
			}
			now = now.Add(c.later)
			again := b.submit(sub)
			if again.Turn.Number != c.turn {
				t.Errorf("turn %d, want %d", again.Turn.Number, c.turn)
			}
			if c.others == 0 {
				b.plan(again, "", heapA)
				b.plan(b.turn(s), again.ExecutionID, "")
			}
		})
	}
}

// The request for an earlier turn is recorded only while the session waits for it. It is
// refused once the turn can be skipped.
func TestTimeOfRepeatedTurn(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	s := b.open("time")
	sub := ledger.Submission{Tenant: tenant, Code: "1", LogicalSession: s, IdempotencyKey: "key"}
	var now, queued time.Time
	slow := ledger.New(&interposed{b.store, func(ctx context.Context, e events.Event) error {
		switch deadline, _ := ctx.Deadline(); {
		case e.Type == events.TypeSessionTurnQueued:
			queued = e.Time
		case e.Type == events.TypeExecutionRequested && now.IsZero():
			now = queued.Add(2 * time.Second)
			return errDisk
		case e.Type == events.TypeExecutionRequested && time.Until(deadline) > 3*time.Second:
			t.Errorf("the request may take %v, and its turn waits for 3 s", time.Until(deadline))
		}
		return nil
	}}, ledger.Options{AnswerTimeout: time.Hour, Now: func() time.Time {
		if now.IsZero() {
			return time.Now()
		}
		return now
	}})
	if _, err := slow.Submit(t.Context(), sub); err == nil {
		t.Fatal("the request was recorded")
	}
	r, err := slow.Submit(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	if req := b.request(r.ExecutionID); req.Turn.Number != 1 {
		t.Errorf("the run has turn %d", req.Turn.Number)
	}
}

// A request that is recorded after its turn was skipped never runs. A request that is
// recorded just before runs.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{TurnGrace: time.Nanosecond})
	late := func(t *testing.T, s string, before bool) (req, next ledger.Request) {
		slow := ledger.New(&interposed{b.store, func(_ context.Context, e events.Event) error {
			if e.Type != events.TypeExecutionRequested {
				return nil
			}
			next = b.turn(s)
			if !before {
				b.plan(next, "", "")
			}
			return nil
		}}, ledger.Options{})
		r, err := slow.Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: "1", LogicalSession: s})
		if err != nil {
			t.Fatal(err)
		}
		return b.request(r.ExecutionID), next
	}
	t.Run("after", func(t *testing.T) {
		req, next := late(t, b.open("late"), false)
		p, err := b.Plan(t.Context(), req, false)
		if err != nil || p.Ended == nil || events.EndingOf(p.Ended.Data).Reason != ledger.ReasonTurnSkipped {
			t.Fatalf("the late run has not ended: %+v, %v", p, err)
		}
		b.plan(next, "", "")
	})
	t.Run("before", func(t *testing.T) {
		req, next := late(t, b.open("in time"), true)
		b.plan(next, req.ExecutionID, "")
		b.end(req, events.StatusCompleted, heapA)
		b.plan(next, "", heapA)
	})
}

// Two concurrent submissions with one key give one run, which has one turn.
func TestSameKeyTwiceAtOnce(t *testing.T) {
	t.Parallel()
	opts := ledger.Options{TurnGrace: time.Minute} // also on a slow machine
	b := openTestLedger(t, opts)
	s := b.open("keys")
	sub := ledger.Submission{Tenant: tenant, Code: "1", LogicalSession: s, IdempotencyKey: "same"}
	var other ledger.Receipt
	first := ledger.New(&interposed{b.store, func(ctx context.Context, e events.Event) (err error) {
		if e.Type == events.TypeExecutionRequested {
			other, err = b.Submit(ctx, sub)
		}
		return err
	}}, opts)
	mine, err := first.Submit(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	if mine.ExecutionID != other.ExecutionID || !mine.Repeated || other.Repeated {
		t.Fatalf("the key gave %+v and %+v", mine, other)
	}
	req := b.request(mine.ExecutionID)
	if req.Turn.Number != 1 {
		t.Fatalf("the run has turn %d", req.Turn.Number)
	}
	b.plan(req, "", "")
	next := b.turn(s)
	b.plan(next, req.ExecutionID, "")
	b.end(req, events.StatusCompleted, heapA)
	b.plan(next, "", heapA)
	if again, err := b.Submit(t.Context(), sub); err != nil || again.ExecutionID != mine.ExecutionID || !again.Repeated {
		t.Fatalf("the key later gives %+v, %v", again, err)
	}
}

func TestTurnRules(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	s := b.open("rules")
	unknown := events.NewSessionID()
	for name, c := range map[string]struct {
		sub  ledger.Submission
		code ledger.Code
		says string
	}{
		"heap as well":    {ledger.Submission{LogicalSession: s, Heap: heapA}, ledger.CodeInvalid, "together with a logical session"},
		"malformed":       {ledger.Submission{LogicalSession: "s0"}, ledger.CodeInvalid, "64 lowercase hex"},
		"unknown":         {ledger.Submission{LogicalSession: unknown}, ledger.CodeNotFound, "open_session"},
		"another tenants": {ledger.Submission{LogicalSession: s, Tenant: "other"}, ledger.CodeNotFound, "open_session"},
	} {
		t.Run(name, func(t *testing.T) {
			before := b.lastSeq()
			if c.sub.Tenant == "" {
				c.sub.Tenant = tenant
			}
			_, err := b.Submit(t.Context(), c.sub)
			wantCode(t, err, c.code, c.says)
			if b.lastSeq() != before {
				t.Error("the refused submission left a trace")
			}
		})
	}
	stateless := openTestLedgerOn(t, b.store, ledger.Options{Stateless: true})
	_, err := stateless.Submit(t.Context(), ledger.Submission{Tenant: tenant, LogicalSession: s})
	wantCode(t, err, ledger.CodeInvalid, "stateless")
}

// The turns of several writers in several processes are numbered without a gap.
func TestManyWritersOfOneSession(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	b := openTestLedgerOn(t, store, ledger.Options{})
	s := b.open("crowd")
	ledgers := []*testLedger{b, openTestLedgerOn(t, store, ledger.Options{}), openTestLedgerOn(t, store, ledger.Options{})}
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]string{}
	for i := range 30 {
		wg.Go(func() {
			r, err := ledgers[i%3].Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: fmt.Sprint(i), LogicalSession: s})
			if err != nil {
				t.Error(err)
				return
			}
			req := ledgers[i%3].request(r.ExecutionID)
			mu.Lock()
			defer mu.Unlock()
			if other, taken := seen[req.Turn.Number]; taken {
				t.Errorf("turn %d went to %s and %s", req.Turn.Number, other, r.ExecutionID)
			}
			seen[req.Turn.Number] = r.ExecutionID
		})
	}
	wg.Wait()
	heap := ""
	for n := int64(1); n <= 30; n++ {
		req := b.request(seen[n])
		if n > 1 && req.Turn.After != seen[n-1] {
			t.Fatalf("turn %d comes after %s, not %s", n, req.Turn.After, seen[n-1])
		}
		b.plan(req, "", heap)
		heap = events.Hash([]byte{byte(n)})
		b.end(req, events.StatusCompleted, heap)
	}
}

func TestOpenSession(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	b, elsewhere := openTestLedgerOn(t, store, ledger.Options{}), openTestLedgerOn(t, store, ledger.Options{})
	acp := ledger.Opening{Tenant: tenant, Kind: events.SessionACP, Actor: alice, Head: heapA}
	one, err := b.OpenSession(t.Context(), acp)
	if err != nil || !one.New || !events.ValidHash(one.SessionID) {
		t.Fatalf("opened %+v, %v", one, err)
	}
	acp.Parent = one.SessionID
	two, err := b.OpenSession(t.Context(), acp)
	if err != nil || two.SessionID == one.SessionID {
		t.Fatalf("a session without an intent was opened as %+v, %v", two, err)
	}
	b.plan(b.turn(two.SessionID), "", heapA)
	got, err := elsewhere.ReadSession(t.Context(), tenant, two.SessionID)
	if err != nil || got.Kind != events.SessionACP || got.Parent != one.SessionID || got.Next.Turn != 1 {
		t.Errorf("recorded: %+v, %v", got, err)
	}
	_, err = b.ReadSession(t.Context(), "other", two.SessionID)
	wantCode(t, err, ledger.CodeNotFound, "open_session")

	for name, c := range map[string]struct {
		o    ledger.Opening
		says string
	}{
		"no intent":   {ledger.Opening{}, "intent must not be empty"},
		"long intent": {ledger.Opening{Intent: string(make([]byte, 513))}, "1 to 512 bytes"},
		"not UTF-8":   {ledger.Opening{Intent: "\xff"}, "UTF-8"},
		"kind":        {ledger.Opening{Intent: "x", Kind: "other"}, `"logical" or "acp"`},
		"head":        {ledger.Opening{Intent: "x", Head: "abc"}, "64 lowercase hex"},
		"parent":      {ledger.Opening{Intent: "x", Parent: "abc"}, "parent must be"},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Tenant = tenant
			_, err := b.OpenSession(t.Context(), c.o)
			wantCode(t, err, ledger.CodeInvalid, c.says)
		})
	}
}

// A process dies after it recorded the intent. The next call opens the session.
func TestInterruptedOpenSession(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	dying := openTestLedgerOn(t, store, ledger.Options{})
	dying.Ledger = ledger.New(&interposed{store, func(_ context.Context, e events.Event) error {
		if e.Type == events.TypeSessionOpened {
			return errDisk
		}
		return nil
	}}, ledger.Options{})
	o := ledger.Opening{Tenant: tenant, Intent: "cut short", Actor: alice}
	if _, err := dying.OpenSession(t.Context(), o); !errors.Is(err, errDisk) {
		t.Fatalf("opened: %v", err)
	}
	b := openTestLedgerOn(t, store, ledger.Options{})
	got, err := b.OpenSession(t.Context(), o)
	if err != nil || !got.New {
		t.Fatalf("opened as %+v, %v", got, err)
	}
	if b.turn(got.SessionID).Turn.Number != 1 {
		t.Error("the number of its first turn is not 1")
	}
}

// After its intent is recorded, a session is opened even if the client disconnects.
func TestOpenSessionWithoutItsClient(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	ctx, leave := context.WithCancel(t.Context())
	b.Ledger = ledger.New(&interposed{b.store, func(_ context.Context, e events.Event) error {
		if e.Type == events.TypeSessionOpened {
			leave()
		}
		return nil
	}}, ledger.Options{})
	if o, err := b.OpenSession(ctx, ledger.Opening{Tenant: tenant, Intent: "left", Actor: alice}); err != nil || !o.New || ctx.Err() == nil {
		t.Errorf("opened as %+v, %v", o, err)
	}
}
