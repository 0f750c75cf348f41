package translog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/stream"
	"daybook/internal/translog"
	"daybook/proof"
)

// A checkpoint is recorded, signed with the ledger's key and covers the requested position. Proofs
// under it hold for the leaves of the stored events.
func TestCheckpointAndProofs(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 300)
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	first := mustCheckpoint(t, log, 300)
	if first.Size != 301 && first.Size != 302 { // the start of the origin follows, and a second one covers the event of the first one
		t.Fatalf("the checkpoint covers %d events, want 301 or 302", first.Size)
	}
	if c, err := proof.OpenCheckpoint(first.Note, log.VKey()); err != nil || c.Size != first.Size || c.Root != first.Root || c.Origin != log.Origin() {
		t.Fatalf("opened: %+v, %v", c, err)
	}
	last := fill(t, store, 500)
	second := mustCheckpoint(t, log, last)
	if second.Size != last && second.Size != last+1 {
		t.Fatalf("the checkpoint covers %d events, want %d", second.Size, last)
	}
	stored, err := store.ReadRaw(t.Context(), 0, int(last))
	if err != nil {
		t.Fatal(err)
	}
	prover := log.Prover(second)
	for _, seq := range []uint64{1, 2, 256, 257, 300, 301, 302, 512, last} {
		for _, size := range []uint64{first.Size, 513, last} {
			made, err := prover.Inclusion(seq, size)
			if seq > size {
				if !errors.Is(err, proof.ErrBeyond) {
					t.Errorf("event %d in %d: %v, want proof.ErrBeyond", seq, size, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("event %d in %d: %v", seq, size, err)
			}
			leaf, err := proof.LeafHash(eventproof.RecordOf(stored[seq-1]))
			if err != nil || leaf != made.Leaf {
				t.Errorf("event %d has another leaf, %v", seq, err)
			}
			if err := made.Check(); err != nil {
				t.Errorf("event %d in %d: %v", seq, size, err)
			}
			if size == first.Size && made.Root != first.Root {
				t.Errorf("the hash at %d is not that of its checkpoint", size)
			}
			made.Leaf[3] ^= 1
			if made.Check() == nil {
				t.Errorf("event %d in %d: another leaf passes", seq, size)
			}
		}
	}
	for _, sizes := range [][2]uint64{{1, 2}, {300, last}, {300, 300}, {256, 512}} {
		made, err := prover.Consistency(sizes[0], sizes[1])
		if err != nil || made.Check() != nil {
			t.Errorf("from %d to %d: %v, %v", sizes[0], sizes[1], err, made.Check())
		}
	}
	if _, err := prover.Consistency(1, second.Size+1); !errors.Is(err, proof.ErrBeyond) {
		t.Errorf("beyond the checkpoint: %v", err)
	}
}

// A reopened log continues with the stored tree. It computes missing or wrong files again, with
// the same hashes.
func TestReopenedLogContinues(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	dir := t.TempDir()
	last := fill(t, store, 600)
	log := start(t, store, translog.Options{Dir: dir})
	c := mustCheckpoint(t, log, last)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		harm func(t *testing.T)
	}{
		{"untouched", func(*testing.T) {}},
		{"no durable mark", func(t *testing.T) { remove(t, dir, "durable") }},
		{"no tiles", func(t *testing.T) { remove(t, dir, "tile") }},
		{"a changed partial tile", func(t *testing.T) {
			paths, err := filepath.Glob(filepath.Join(dir, "tile", "0", "002.p", "*"))
			if err != nil || len(paths) != 1 {
				t.Fatalf("partial tiles %v, %v", paths, err)
			}
			flip(t, paths[0], 5)
		}},
		{"a cut durable mark", func(t *testing.T) {
			if err := os.Truncate(filepath.Join(dir, "durable"), 20); err != nil {
				t.Fatal(err)
			}
		}},
		{"half a checkpoint at the end of the file", func(t *testing.T) {
			f, err := os.OpenFile(filepath.Join(dir, "checkpoints"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteString("daybook/half\n12"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.harm(t)
			again := start(t, store, translog.Options{Dir: dir})
			if again.Origin() != log.Origin() || again.VKey() != log.VKey() {
				t.Error("the reopened log has another name or key")
			}
			if latest, ok := again.Latest(); !ok || latest.Size < c.Size {
				t.Errorf("the newest checkpoint after reopening: %+v", latest)
			}
			last = fill(t, store, 3)
			newer := mustCheckpoint(t, again, last)
			proof, err := again.Prover(newer).Consistency(c.Size, newer.Size)
			if err != nil || proof.Check() != nil || proof.FromRoot != c.Root {
				t.Errorf("the tree after reopening differs: %v", err)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 0x10
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A log of a longer ledger, or of other events, reports damage and signs nothing.
func TestLogOfAnotherLedger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := newStore(t)
	log := start(t, store, translog.Options{Dir: dir})
	mustCheckpoint(t, log, fill(t, store, 40))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		n     int
		harm  func()
		wants string
	}{
		{"shorter", 10, func() {}, "ends at event 10"},
		{"other events", 50, func() {}, "does not match the hash"},
		{"shorter, without tiles", 12, func() { remove(t, dir, "durable") }, "events was signed"},
		{"other events, without tiles", 60, func() { remove(t, dir, "durable") }, "have the tree hash"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.harm()
			other := newStore(t)
			fill(t, other, tt.n)
			wrong := start(t, other, translog.Options{Dir: dir})
			err := wrong.AwaitEnd(t)
			if !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), tt.wants) {
				t.Fatalf("Run: %v; want damage, %q", err, tt.wants)
			}
			if _, err := wrong.Checkpoint(t.Context(), 60); !errors.Is(err, events.ErrDamaged) {
				t.Errorf("Checkpoint: %v, want the damage", err)
			}
			if wrong.Damage() == nil {
				t.Error("Damage returns nil")
			}
		})
	}
}

// A recorded checkpoint that does not have the tree hash of the events before it is damage, also if
// its origin is another one.
func TestLogFindsAForgedCheckpoint(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 5)
	forged := events.New(events.LedgerTenant, time.Now(), &events.LedgerCheckpointed{
		LedgerID: events.NewID(time.Now()), Origin: "daybook/other", Size: 4, RootHash: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
		Note: "daybook/other\n4\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u2014 daybook/other AAAAAAAA\n",
	})
	if _, err := store.Append(t.Context(), forged, -1); err != nil {
		t.Fatal(err)
	}
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	if err := log.AwaitEnd(t); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "first 4 events") {
		t.Errorf("Run: %v; want damage naming the checkpoint", err)
	}
}

// An idle ledger gets no checkpoints. After new events it gets one checkpoint, and one more when
// it is closed.
func TestIdleLedgerGetsNoCheckpoints(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	dir := t.TempDir()
	log := start(t, store, translog.Options{Dir: dir, Every: time.Millisecond})
	last := fill(t, store, 1)
	until(t, "an unrequested checkpoint", func() bool { c, ok := log.Latest(); return ok && c.Size >= last })
	wantOneCheckpoint(t, store)
	fill(t, store, 4)
	if err := log.FinalCheckpoint(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	end, err := store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Another start and close adds no checkpoint.
	for range 2 {
		again := start(t, store, translog.Options{Dir: dir, Every: time.Millisecond})
		if err := again.FinalCheckpoint(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := store.LastSeq(t.Context()); err != nil || now != end {
		t.Errorf("the idle ledger grew from %d to %d events, %v", end, now, err)
	}
}

// wantOneCheckpoint requires that the ledger has one checkpoint, at its end.
func wantOneCheckpoint(t *testing.T, store *jetstream.Store) {
	t.Helper()
	end, err := store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.Read(t.Context(), 0, int(end))
	if err != nil {
		t.Fatal(err)
	}
	checkpoints := 0
	for _, e := range list {
		if e.Type == events.TypeLedgerCheckpointed {
			checkpoints++
		}
	}
	if list[end-1].Type != events.TypeLedgerCheckpointed || checkpoints != 1 {
		t.Errorf("%d checkpoints in %d events, the last is %s; want one, at the end", checkpoints, end, list[end-1].Type)
	}
}

// A volume whose closing checkpoint cannot be signed is not sealed.
func TestSealingWaitsForTheSignature(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	last := fill(t, store, 2)
	log, err := translog.Open(translog.Options{Dir: t.TempDir(), NoSync: true}) // Run is not called
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Close: func(ctx context.Context, last uint64) (*events.ClosingCheckpoint, error) {
		ctx, stop := context.WithCancel(ctx)
		time.AfterFunc(time.Millisecond, stop) // it waits until it is stopped
		return log.SignClosing(ctx, last)
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("sealed without a signature: %v", err)
	}
	if next := fill(t, store, 1); next != last+1 {
		t.Errorf("the next event is at %d, want %d", next, last+1)
	}
}
