package translog

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
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

// While it is not decided whether the ledger is damaged, its hashes are not made durable for a removal of events.
func TestPersistHashesWaitsForTheDecision(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 10)
	l := follow(t, ledger, Options{Dir: t.TempDir()})
	if _, err := l.PersistHashes(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.suspected = events.ErrDamaged
	l.mu.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if root, err := l.PersistHashes(ctx, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("%s, %v", root, err)
	}
}

// failingFeed fails at once.
type failingFeed struct{ *memoryLedger }

var errFeed = errors.New("the connection was lost")

func (failingFeed) FollowRaw(context.Context, uint64, func([]events.Stored, uint64) error) error {
	return errFeed
}

// A proven conflict ends the signing also if the feed fails at the same time. The witness shows a checkpoint of
// another server of a shared ledger, which the signed file does not keep.
func TestConflictWhenTheFeedFails(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 10)
	opts := Options{Dir: t.TempDir(), NoSync: true, Every: time.Hour, Logger: slog.New(slog.DiscardHandler), Shared: true}
	follow(t, ledger, opts)
	witness, err := proof.NewWitnessSigner("witness.example/w", make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	o := opts
	o.Dir, o.WitnessPolicy = copyOf(t, opts.Dir), filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(o.WitnessPolicy, []byte("witness w "+witness.Key().String()+" http://127.0.0.1:1\nquorum w\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := proof.NewKey(l.Origin())
	if err != nil {
		t.Fatal(err)
	}
	signer, _, err := proof.ParseKey(other)
	if err != nil {
		t.Fatal(err)
	}
	c, err := proof.Checkpoint{Origin: l.Origin(), Size: 5, Root: proof.Hash{1}}.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	l.unasked = false
	l.witnesses.conflict = &WitnessConflict{Witness: "w", Size: 5, Checkpoint: c}
	if err := l.run(t.Context(), failingFeed{ledger}, ledger); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("run: %v", err)
	}
	if l.mu.Lock(); l.suspected == nil {
		t.Error("signing continues")
	}
	l.mu.Unlock()
}
