package translog

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/proof"
)

// watchedLedger calls ended when FollowRaw returns.
type watchedLedger struct {
	*memoryLedger
	ended func(error)
}

func (w watchedLedger) FollowRaw(ctx context.Context, after uint64, fn func([]events.Stored, uint64) error) error {
	err := w.memoryLedger.FollowRaw(ctx, after, fn)
	w.ended(err)
	return err
}

func copyOfLedger(m *memoryLedger) *memoryLedger {
	other := newMemoryLedger()
	other.list, other.last = append(other.list, m.list...), m.last
	return other
}

// Damage that ends the origin with the permission of the operator, or that a new computation of the tree
// removes, is not reported, and nothing is signed meanwhile.
func TestDamageIsReportedWhenItIsDecided(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 100)
	opts := Options{Dir: t.TempDir(), NoSync: true, Every: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	signed := follow(t, ledger, opts)
	for name, prepare := range map[string]func(t *testing.T, o Options) *memoryLedger{
		"an accepted change": func(t *testing.T, o Options) *memoryLedger {
			if err := AcceptDamage(o.Dir, "", ""); err != nil {
				t.Fatal(err)
			}
			other := copyOfLedger(ledger)
			other.list[49] = edit(other.list[49])
			return other
		},
		"files of fewer other events": func(t *testing.T, o Options) *memoryLedger {
			tree := proof.NewTree(&tileFiles{dir: o.Dir})
			for range 2 { // no checkpoint is that small
				if err := tree.Add(proof.Hash{1}); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join((&tileFiles{dir: o.Dir}).save(tree), writeDurable(o.Dir, durableTree{2, 2, tree.Root()}, false)); err != nil {
				t.Fatal(err)
			}
			return copyOfLedger(ledger)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := opts
			o.Dir = copyOf(t, opts.Dir)
			stored := prepare(t, o)
			l, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			watched := watchedLedger{stored, func(err error) {
				if !errors.Is(err, events.ErrDamaged) {
					return
				}
				l.mu.Lock()
				seen++
				due, _ := l.signDue()
				l.mu.Unlock()
				if l.Damage() != nil || due {
					t.Errorf("damage %v, a checkpoint is due: %t", l.Damage(), due)
				}
			}}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx, watched, watched) }()
			awaitChange(t, l, "signature of all events", func() bool { return seen > 0 && l.signed.Size >= ledger.last })
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) || seen == 0 {
				t.Errorf("%d times damage, Run: %v", seen, err)
			}
			if changed := strings.HasSuffix(l.Origin(), "/2"); changed != (name == "an accepted change") || !changed && l.Origin() != signed.Origin() {
				t.Errorf("the origin is %s", l.Origin())
			}
		})
	}
}
