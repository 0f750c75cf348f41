package ledger_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// hanging is a store that stops answering. An append meanwhile may be stored without an
// answer.
type hanging struct {
	*jetstream.Store
	hangs, stores atomic.Bool
}

func (h *hanging) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	if !h.hangs.Load() {
		return h.Store.Append(ctx, e, after)
	}
	if h.stores.Load() {
		if _, err := h.Store.Append(context.WithoutCancel(ctx), e, after); err != nil {
			return 0, err
		}
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

// Clients of a ledger that does not answer receive an error in time, also from commands
// that continue without the client. To repeat a request is safe, whether it was recorded
// or not.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	store := &hanging{Store: storetest.Start(t)}
	l := ledger.New(store, ledger.Options{AnswerTimeout: 50 * time.Millisecond, CancelTimeout: 10 * time.Millisecond, Logger: storetest.Logger(t)})
	b := openTestLedgerOn(t, store.Store, ledger.Options{}) // a slow machine is not a NATS server that hangs
	s := b.open("no answer")
	run, turn := b.submit(ledger.Submission{Code: "1"}), b.turn(s)
	asked := func(key, session string) ledger.Submission {
		return ledger.Submission{Tenant: tenant, Code: "1", IdempotencyKey: key, LogicalSession: session, Actor: alice}
	}
	submit := func(key, session string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := l.Submit(ctx, asked(key, session))
			return err
		}
	}
	cancel := func(id string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := l.Cancel(ctx, tenant, id, alice)
			return err
		}
	}
	commands := map[string]func(context.Context) error{
		"submit":        submit("plain", ""),
		"submit a turn": submit("turn", s),
		"cancel":        cancel(run.ExecutionID),
		"cancel a turn": cancel(turn.ExecutionID),
		"open a session": func(ctx context.Context) error {
			_, err := l.OpenSession(ctx, ledger.Opening{Tenant: tenant, Intent: "another", Actor: alice})
			return err
		},
		"tag": func(ctx context.Context) error {
			_, err := l.SetTags(ctx, tenant, heapA, map[string]string{"a": "b"}, alice)
			return err
		},
	}
	for _, stores := range []bool{false, true} {
		store.hangs.Store(true)
		store.stores.Store(stores)
		for name, command := range commands {
			clientCtx, leave := context.WithCancel(t.Context())
			late := time.AfterFunc(10*time.Second, leave)
			began := time.Now()
			err := command(clientCtx)
			if !late.Stop() {
				t.Fatalf("%s was not answered", name)
			}
			leave()
			if stores && strings.HasPrefix(name, "cancel") && ledger.CodeOf(err) == ledger.CodeConflict {
				continue // an earlier call recorded it
			}
			if ledger.CodeOf(err) != ledger.CodeUnavailable || !strings.Contains(err.Error(), "NATS server") {
				t.Errorf("%s (stored: %t): %v after %v", name, stores, err, time.Since(began))
			}
		}
		store.hangs.Store(false)
	}
	// A client repeats its request until it receives an answer.
	repeat := func(s ledger.Submission) (r ledger.Receipt, err error) {
		for late := time.Now().Add(20 * time.Second); time.Now().Before(late); {
			if r, err = l.Submit(t.Context(), s); ledger.CodeOf(err) != ledger.CodeUnavailable {
				break
			}
		}
		return r, err
	}
	for _, again := range []ledger.Submission{asked("plain", ""), asked("turn", s)} {
		r, err := repeat(again)
		if err != nil || again.LogicalSession == "" && !r.Repeated {
			t.Errorf("the repetition of a request that was stored: %+v, %v", r, err)
		}
		if r, err = repeat(again); err != nil || !r.Repeated {
			t.Errorf("the second repetition: %+v, %v", r, err)
		}
	}
	if _, err := b.OpenSession(t.Context(), ledger.Opening{Tenant: tenant, Intent: "another", Actor: alice}); err != nil {
		t.Error(err)
	}
}
