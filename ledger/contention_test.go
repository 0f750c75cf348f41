package ledger_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/ledger"
)

// slowAppends is a store whose appends take some time. If lost is set, another process
// is always first.
type slowAppends struct {
	*jetstream.Store
	takes time.Duration
	lost  bool
}

func (s slowAppends) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if s.lost {
		return 0, events.ErrConflict
	}
	return s.Store.Append(ctx, e, after)
}

// Many clients that change the same object at the same time wait in order. The others
// are refused with CodeExhausted, and not as if the server were unreachable.
func TestContentionIsNoOutage(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	logical, queued := b.open("contended"), b.open("queued")
	b.end(b.submit(ledger.Submission{Session: "contended"}), events.StatusCompleted, "")
	for name, change := range map[string]func(*ledger.Ledger) error{
		"reset": func(l *ledger.Ledger) error {
			_, err := l.ResetSession(t.Context(), ledger.Reset{Tenant: tenant, SessionID: logical, Actor: alice})
			return err
		},
		"reset of a named session": func(l *ledger.Ledger) error {
			_, err := l.ResetSession(t.Context(), ledger.Reset{Tenant: tenant, Name: "contended", Actor: alice})
			return err
		},
		"tags": func(l *ledger.Ledger) error {
			_, err := l.SetTags(t.Context(), tenant, heapA, map[string]string{"a": "b"}, alice)
			return err
		},
		"turn": func(l *ledger.Ledger) error {
			_, err := l.Submit(t.Context(), ledger.Submission{Tenant: tenant, LogicalSession: queued, Code: "1", Actor: alice})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, lost := range []bool{false, true} {
				// Together the appends take longer than the time limit of an answer. On a
				// slow machine a stall of half of that time would look like an outage.
				l := ledger.New(slowAppends{b.store, 125 * time.Millisecond, lost}, ledger.Options{AnswerTimeout: 5 * time.Second})
				errs := make([]error, 60)
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() { errs[i] = change(l) })
				}
				wg.Wait()
				done, refused := 0, 0
				for _, err := range errs {
					switch {
					case err == nil:
						done++
					case ledger.CodeOf(err) == ledger.CodeExhausted && strings.Contains(err.Error(), "at the same time"):
						refused++
					default:
						t.Errorf("another writer is always first: %v; the error is %s: %v", lost, ledger.CodeOf(err), err)
					}
				}
				if (done == 0) != lost {
					t.Errorf("another writer is always first: %v; %d changes were made, %d refused", lost, done, refused)
				}
			}
		})
	}
}

// A server that does not answer is not contention.
func TestOutageIsNoContention(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	session := b.open("an outage")
	l := ledger.New(slowAppends{b.store, time.Hour, false}, ledger.Options{AnswerTimeout: 50 * time.Millisecond})
	var wg sync.WaitGroup
	for range 3 { // one appends, the others wait for the lock
		wg.Go(func() {
			_, err := l.ResetSession(t.Context(), ledger.Reset{Tenant: tenant, SessionID: session, Actor: alice})
			if ledger.CodeOf(err) != ledger.CodeUnavailable {
				t.Errorf("the error is %s: %v", ledger.CodeOf(err), err)
			}
		})
	}
	wg.Wait()
}

// An edit of the tags of a heap costs the same after many edits as after few.
func TestTagEditsDoNotReadAllEarlierOnes(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	requests, read := 0, 0
	l := ledger.New(countedReads{b.store, &requests, &read}, ledger.Options{})
	const edits = 30
	for range edits / 2 {
		if _, err := l.SetTags(t.Context(), tenant, heapA, map[string]string{"a": "b", "c": "d"}, alice); err != nil {
			t.Fatal(err)
		}
		if _, err := l.DeleteTags(t.Context(), tenant, heapA, []string{"a"}, alice); err != nil {
			t.Fatal(err)
		}
	}
	if read > edits || requests > edits {
		t.Errorf("%d edits took %d requests and read %d events", edits, requests, read)
	}
	// Another process sets the tags that this one deleted.
	if _, err := b.SetTags(t.Context(), tenant, heapA, map[string]string{"a": "again", "e": "f"}, alice); err != nil {
		t.Fatal(err)
	}
	last, err := l.DeleteTags(t.Context(), tenant, heapA, []string{"a", "c"}, alice)
	if err != nil {
		t.Fatal(err)
	}
	list := b.edits(heapA)
	if len(list) != edits+2 {
		t.Fatalf("%d edits are recorded", len(list))
	}
	if got, want := list[edits+1].Content.Value().Tags, (map[string]string{"e": "f"}); !maps.Equal(got, want) {
		t.Errorf("the tags are %v, want %v", got, want)
	}
	if again, err := l.DeleteTags(t.Context(), tenant, heapA, []string{"a", "c"}, alice); err != nil || again != last {
		t.Errorf("a deletion of no tags returns %d, %v; the newest edit is at %d", again, err, last)
	}
}
