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

// Events that are not signed yet are compared with the files of the tree before they are signed: an
// event or a file that was changed while the server was stopped is damage.
func TestUnsignedEventsAreCompared(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 100)
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
	l, err := Open(Options{Dir: dir, KeyFile: key, NoSync: true, Every: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, ledger, ledger) }()
	sign(t, l, ledger)
	ledger.fill(t, 700)
	if !l.awaitHashed(t.Context(), ledger.last) {
		t.Fatal("the events are not hashed")
	}
	stop()
	<-ended
	if signed := l.signed.Size; signed > 256 || l.durable != ledger.last {
		t.Fatalf("%d events are signed, and the files cover %d", signed, l.durable)
	}
	// change changes one event.
	change := func(seq uint64) *memoryLedger {
		other := newMemoryLedger()
		other.list, other.last = append(other.list, ledger.list...), ledger.last
		other.list[seq-1] = edit(other.list[seq-1])
		return other
	}
	for _, tt := range []struct {
		name   string
		ledger *memoryLedger
		forge  func(t *testing.T, dir string)
		want   string // a part of the damage
	}{
		{"an event", change(300), nil, "event 300 does not match"},
		{"an event of the tile that the signed ones end in", change(200), nil, "event 200 does not match"},
		{"an event of the last tile", change(790), nil, "event 790 does not match"},
		{"a file", ledger, func(t *testing.T, dir string) {
			putHash(t, dir, proof.Tile{Index: 1, Width: proof.TileWidth}, 3, proof.Hash{1})
		}, "the files of the tree do not match its tree hash"},
		{"nothing", ledger, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := Options{Dir: filepath.Join(t.TempDir(), "audit"), KeyFile: filepath.Join(t.TempDir(), "key")}
			if err := os.CopyFS(opts.Dir, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			for _, suffix := range []string{"", signedSuffix} {
				raw, err := os.ReadFile(key + suffix)
				if err == nil {
					err = os.WriteFile(opts.KeyFile+suffix, raw, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if tt.want == "" {
				follow(t, tt.ledger, opts)
				return
			}
			if tt.forge != nil {
				tt.forge(t, opts.Dir)
			}
			opts.NoSync, opts.Logger = true, slog.New(slog.DiscardHandler)
			again, err := Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if err := again.Run(ctx, tt.ledger, tt.ledger); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run: %v, want %q", err, tt.want)
			}
		})
	}
}

// gatedLedger delivers no events until open is closed.
type gatedLedger struct {
	*memoryLedger
	open chan struct{}
}

func (g gatedLedger) FollowRaw(ctx context.Context, after uint64, fn func([]events.Stored, uint64) error) error {
	select {
	case <-g.open:
		return g.memoryLedger.FollowRaw(ctx, after, fn)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Nothing is signed before the events that are in the tree and not signed were read again, also if the tree has
// only full tiles of leaves.
func TestUnsignedEventsAreReadBeforeSigning(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 100)
	opts := Options{Dir: t.TempDir(), KeyFile: filepath.Join(t.TempDir(), "key"), NoSync: true, Every: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	run := func(l *Log, ledger interface {
		Feed
		Ledger
	}) (stop func(), ended chan error) {
		ctx, stop := context.WithCancel(t.Context())
		t.Cleanup(stop)
		ended = make(chan error, 1)
		go func() { ended <- l.Run(ctx, ledger, ledger) }()
		return stop, ended
	}
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	stop, ended := run(l, ledger)
	sign(t, l, ledger)
	ledger.fill(t, 2*proof.TileWidth-int(ledger.last))
	if !l.awaitHashed(t.Context(), ledger.last) {
		t.Fatal("the events are not hashed")
	}
	stop()
	<-ended
	signed := l.signed.Size
	if signed > 256 || l.durable != 2*proof.TileWidth {
		t.Fatalf("%d events are signed, and the files cover %d", signed, l.durable)
	}

	ledger.list[299] = edit(ledger.list[299])
	gated := gatedLedger{ledger, make(chan struct{})}
	again, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	_, ended = run(again, gated)
	awaitChange(t, again, "start", func() bool { return again.started })
	again.mu.Lock()
	due, _ := again.signDue()
	again.mu.Unlock()
	if due {
		t.Error("a checkpoint is due before the events were read again")
	}
	waiting, giveUp := context.WithCancel(t.Context())
	giveUp()
	if _, err := again.SignClosing(waiting, ledger.last); !errors.Is(err, context.Canceled) {
		t.Errorf("SignClosing before the events were read again: %v", err)
	}
	_, root, err := proof.NewKey(proof.RootKeyPrefix + "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.ChangeSigners(waiting, gated, proof.AddRoot, root, events.Actor{}); !errors.Is(err, context.Canceled) || ledger.last != 2*proof.TileWidth {
		t.Errorf("a statement before the events were read again: %v; the ledger ends at event %d", err, ledger.last)
	}
	close(gated.open)
	if err := <-ended; !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "event 300 does not match") {
		t.Errorf("Run: %v", err)
	}
	if again.signed.Size != signed {
		t.Errorf("%d events were signed", again.signed.Size)
	}
}

// A signed checkpoint that ends in lost events is compared with their hashes before anything is signed.
func TestSignedCheckpointInLostEvents(t *testing.T) {
	t.Parallel()
	for _, right := range []bool{true, false} {
		ledger := newMemoryLedger()
		ledger.fill(t, 10)
		opts := Options{Dir: t.TempDir(), KeyFile: filepath.Join(t.TempDir(), "key"), NoSync: true, Every: time.Hour, Logger: slog.New(slog.DiscardHandler)}
		l, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx, ledger, ledger) }()
		sign(t, l, ledger)
		ledger.fill(t, 3)
		sign(t, l, ledger)
		ledger.fill(t, 5)
		if !l.awaitHashed(t.Context(), ledger.last) {
			t.Fatal("the events are not hashed")
		}
		stop()
		<-ended

		size, leaves := l.signed.Size, l.tree.PartialLeaves()
		lost := events.LostRange{From: size - 1, To: size + 1, NamedAt: size + 2}
		for _, leaf := range leaves[lost.From-1 : lost.To] {
			lost.Hashes = append(lost.Hashes, proof.EncodeHash(leaf))
		}
		if !right {
			lost.Hashes[0] = proof.EncodeHash(proof.Hash{1})
		}
		rest := newMemoryLedger()
		rest.last = ledger.last
		for _, m := range ledger.list {
			if m.Seq < lost.From || m.Seq > lost.To {
				rest.list = append(rest.list, m)
			}
		}
		if err := ResetTree(opts.Dir, 0); err != nil {
			t.Fatal(err)
		}
		opts.Lost = func() events.Lost { return events.Lost{lost} }
		if right {
			follow(t, rest, opts)
			continue
		}
		again, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		within, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := again.Run(within, rest, rest); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "have the tree hash") {
			t.Errorf("Run: %v", err)
		}
		if again.signed.Size != size {
			t.Errorf("%d events were signed", again.signed.Size)
		}
	}
}
