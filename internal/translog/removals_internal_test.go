package translog

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// An event that records a removal and is not signed is damage at a start, unless this server announced it
// beside its key, or the operator accepted damage. A removal that is announced once more, or another
// announcement after it, changes nothing.
func TestUnannouncedRemovalIsDamage(t *testing.T) {
	t.Parallel()
	removal := &events.LedgerVolumeRemoved{Volume: 1, First: 1, Last: 2, RootHash: "root", Actor: systemActor}
	other := &events.LedgerVolumeRemoved{Volume: 1, First: 1, Last: 3, RootHash: "root", Actor: systemActor}
	for _, tt := range []struct {
		name      string
		announced []*events.LedgerVolumeRemoved
		inTree    bool // the event is in the files of the tree
		accepted  bool
		damaged   bool
	}{
		{name: "no announcement", damaged: true},
		{name: "no announcement, and in the files of the tree", inTree: true, damaged: true},
		{name: "another announcement", announced: []*events.LedgerVolumeRemoved{other}, damaged: true},
		{name: "announced", announced: []*events.LedgerVolumeRemoved{removal}},
		{name: "announced, and in the files of the tree", inTree: true, announced: []*events.LedgerVolumeRemoved{removal}},
		{name: "announced before another one", announced: []*events.LedgerVolumeRemoved{other, removal, removal, other}},
		{name: "accepted", accepted: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ledger := newMemoryLedger()
			ledger.fill(t, 5)
			opts := Options{Dir: t.TempDir(), KeyFile: filepath.Join(t.TempDir(), "key"), NoSync: true, Every: time.Hour, Logger: slog.New(slog.DiscardHandler)}
			l, err := Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			running, end := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- l.Run(running, ledger, ledger) }()
			sign(t, l, ledger)
			end()
			<-ended
			for _, d := range tt.announced {
				if err := l.AnnounceRemoval(d); err != nil {
					t.Fatal(err)
				}
			}
			if err := ledger.add(events.New(events.LedgerTenant, time.Now(), removal)); err != nil {
				t.Fatal(err)
			}
			m := ledger.list[len(ledger.list)-1]
			if tt.inTree {
				forgeTail(t, opts.Dir, m)
			}
			if tt.accepted {
				if err := AcceptDamage(opts.Dir, opts.KeyFile, ""); err != nil {
					t.Fatal(err)
				}
			}
			recorded := events.Removal{LedgerVolumeRemoved: removal, Seq: m.Seq, At: time.Now()}
			if may := MayDeleteRemoved(opts.Dir, opts.KeyFile, "", recorded); may == tt.damaged {
				t.Errorf("the volume may be deleted: %t", may)
			}
			if !tt.damaged {
				follow(t, ledger, opts)
				return
			}
			again, err := Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Run(ctx, ledger, ledger); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "records that a volume was removed") {
				t.Errorf("Run: %v", err)
			}
			if again.signed.Size >= m.Seq {
				t.Error("the removal is signed")
			}
		})
	}
}

// The file of announced removals is bounded, and keeps the newest ones.
func TestAnnouncedRemovalsAreBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key.signed")
	for i := range maxAnnounced + 2 {
		if err := announceRemoval(path, []byte{byte(i), byte(i >> 8)}, false); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range map[int]bool{0: false, 1: false, 2: true, maxAnnounced + 1: true} {
		if got, err := isAnnounced(path, []byte{byte(i), byte(i >> 8)}); err != nil || got != want {
			t.Errorf("announcement %d: %t, %v", i, got, err)
		}
	}
}

// forgeTail adds an event to the files of a tree, as a person who can write the audit directory can.
func forgeTail(t *testing.T, dir string, m events.Stored) {
	t.Helper()
	d, err := readDurable(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := &tileFiles{dir: dir}
	tree, err := files.load(d.size)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := proof.LeafHash(eventproof.RecordOf(m))
	if err == nil {
		err = errors.Join(tree.Add(leaf), files.save(tree), writeDurable(dir, durableTree{tree.Size(), tree.Size(), tree.Root()}, false))
	}
	if err != nil || tree.Size() != m.Seq {
		t.Fatalf("event %d in a tree of %d: %v", m.Seq, tree.Size(), err)
	}
}
