package contextstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/ledger"
	"daybook/projections"
)

// Clearing a context records an event only if there is something to clear, also for
// concurrent calls. All calls return the same context.
func TestClearAppendsOnce(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store()
	clear := func(k contextstore.Key) (id string) {
		t.Helper()
		c, _, err := s.Clear(t.Context(), k, client)
		if err != nil {
			t.Error(err)
		}
		return c.SessionID
	}
	count := func(when string, want int) {
		t.Helper()
		b.settle()
		if n := b.count(events.TypeContextCleared); n != want {
			t.Errorf("%s: the ledger has %d events about a cleared context, want %d", when, n, want)
		}
	}
	id := clear(named(1))
	if again := clear(named(1)); again != id || !events.ValidHash(id) {
		t.Errorf("an absent context has the ids %q and %q", id, again)
	}
	count("an absent context", 0)
	if n := b.count(events.TypeContextNoted); n != 0 {
		t.Errorf("the ledger has %d events about the use of an absent context", n)
	}
	if got := set(t, s, named(1), "word", `"x"`).SessionID; got != id {
		t.Errorf("the context has the id %s, and had %s before", got, id)
	}
	var clearing sync.WaitGroup
	for range 8 {
		clearing.Go(func() {
			if got := clear(named(1)); got != id {
				t.Errorf("a cleared context has the id %s, not %s", got, id)
			}
		})
	}
	clearing.Wait()
	count("eight concurrent calls", 1)
	// Clear also drops unrecorded notes and recent requests.
	note(t, s, named(1), b.clock.Now(), 1)
	clear(named(1))
	count("a note", 2)
	if _, err := s.Ref(t.Context(), named(2)); err != nil {
		t.Fatal(err)
	}
	clear(named(2))
	count("a run that is about to be requested", 3)
}

// behind is a read side that has no context until a caller waits for a position.
type behind struct {
	contextstore.Views
	waited *atomic.Bool
}

func (v behind) Context(ctx context.Context, tenant, key string) (projections.ContextState, error) {
	if !v.waited.Load() {
		return projections.ContextState{}, events.ErrNotFound
	}
	return v.Views.Context(ctx, tenant, key)
}

func (v behind) Wait(ctx context.Context, seq uint64) error {
	v.waited.Store(true)
	return v.Views.Wait(ctx, seq)
}

// Clear also clears edits of another process that cannot be read yet.
func TestClearSeesOtherProcesses(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	other := b.store()
	note(t, other, named(1), b.clock.Now(), 1)
	other.Flush(t.Context())
	late := b.store(func(o *contextstore.Options) { o.Views = behind{b.views, new(atomic.Bool)} })
	if _, _, err := late.Clear(t.Context(), named(1), client); err != nil {
		t.Fatal(err)
	}
	if n := b.count(events.TypeContextCleared); n != 1 {
		t.Errorf("the ledger has %d events about a cleared context, want 1", n)
	}
	if c := get(t, late, named(1)); len(c.RecentToolCalls) != 0 {
		t.Errorf("%+v", c)
	}
}

// An edit that waits for other changes of its tenant does not lock its context.
func TestEditsWaitWithoutTheirContext(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	waits, pass := make(chan string), make(chan struct{})
	s := b.store(func(o *contextstore.Options) {
		o.Enter = func(ctx context.Context, tenant string) error {
			waits <- tenant
			<-pass
			return nil
		}
	})
	note(t, s, named(1), b.clock.Now(), 1)
	edited := make(chan error, 1)
	go func() {
		_, _, err := s.Set(t.Context(), named(1), custom("word", `"x"`), client)
		edited <- err
	}()
	if tenant := <-waits; tenant != events.DefaultTenant {
		t.Errorf("tenant %s waits", tenant)
	}
	get(t, s, named(1))
	s.Flush(t.Context())
	if n := b.count(events.TypeContextNoted); n != 1 {
		t.Errorf("%d events about the notes that were made while an edit waits", n)
	}
	close(pass)
	if err := <-edited; err != nil {
		t.Error(err)
	}
	// A refused edit changes nothing.
	refusal := &ledger.Error{Code: ledger.CodeExhausted, Message: "later"}
	refused := b.store(func(o *contextstore.Options) {
		o.Enter = func(context.Context, string) error { return refusal }
	})
	if _, _, err := refused.Clear(t.Context(), named(1), client); ledger.CodeOf(err) != ledger.CodeExhausted {
		t.Errorf("a refused edit: %v", err)
	}
	if n := b.count(events.TypeContextCleared); n != 0 {
		t.Errorf("%d events about a cleared context", n)
	}
}
