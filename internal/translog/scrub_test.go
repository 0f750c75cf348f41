package translog_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
)

// tampered returns one event with another payload than the recorded one.
type tampered struct {
	*jetstream.Store
	seq uint64
}

func (s tampered) ReadRaw(ctx context.Context, after uint64, limit int) ([]events.Stored, error) {
	batch, err := s.Store.ReadRaw(ctx, after, limit)
	for i := range batch {
		if batch[i].Seq == s.seq {
			batch[i].Body = bytes.Replace(batch[i].Body, []byte("1 + 1"), []byte("1 + 2"), 1)
		}
	}
	return batch, err
}

// The scrub distinguishes a changed event from a changed hash, repairs the hash, and finds nothing
// in an intact ledger.
func TestScrub(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	// The start of the origin and the first checkpoint follow the first event whenever the log gets to
	// it. They are recorded before the other events, so that none of the positions below is theirs.
	mustCheckpoint(t, log, fill(t, store, 1))
	mustCheckpoint(t, log, fill(t, store, 600))
	round := func(stream translog.Reader) (found []uint64, p translog.ScrubProgress) {
		t.Helper()
		s := log.NewScrub(translog.ScrubOptions{
			Stream: stream, Blobs: store, EventsPerSecond: 1e6, BytesPerSecond: 1 << 30,
			Found: func(first, last uint64, what string) {
				if first != last || what == "" {
					t.Errorf("found %q at %d to %d", what, first, last)
				}
				found = append(found, first)
			},
		})
		if err := s.RunPass(t.Context()); err != nil {
			t.Fatal(err)
		}
		return found, s.Progress()
	}
	before := log.Size() // the event of a checkpoint may follow
	found, p := round(store)
	if len(found) != 0 || p.Events < before || p.Events > log.Size() || p.Position != p.Events || p.Rounds != 1 || p.RoundEnded.IsZero() {
		t.Errorf("an intact ledger: found %v, %+v", found, p)
	}
	for _, seq := range []uint64{1, 256, 257, 599} {
		found, p := round(tampered{store, seq})
		if diff := cmp.Diff([]uint64{seq}, found); diff != "" || p.Findings != 1 || p.TilesRepaired != 0 {
			t.Errorf("event %d changed (-want +got):\n%s%+v", seq, diff, p)
		}
	}
	tile := filepath.Join(dir, "tile", "0", "000")
	whole, err := os.ReadFile(tile)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"a bit": append([]byte{whole[0] ^ 1}, whole[1:]...), "cut": whole[:100]} {
		if err := os.WriteFile(tile, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if found, p := round(store); len(found) != 0 || p.TilesRepaired != 1 {
			t.Errorf("%s of a tile: found %v, %+v", name, found, p)
		}
		if now, err := os.ReadFile(tile); err != nil || !bytes.Equal(now, whole) {
			t.Errorf("%s of a tile: the repaired file differs, %v", name, err)
		}
	}
}

// HighestKnown reads the files of the audit directory and ignores damaged ones.
func TestHighestKnown(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	if n, err := translog.HighestKnown(dir, translog.SignedPath(dir, "", "")); n != 0 || err != nil {
		t.Errorf("an empty directory: %d, %v", n, err)
	}
	log := start(t, store, translog.Options{Dir: dir})
	last := fill(t, store, 20)
	mustCheckpoint(t, log, last)
	until(t, "the file, which is written after the event", func() bool {
		n, err := translog.HighestKnown(dir, translog.SignedPath(dir, "", ""))
		if err != nil {
			t.Fatalf("with a checkpoint: %v", err)
		}
		return n >= last
	})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "checkpoints")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	forged := regexp.MustCompile(`\n2([0-9])\n`).ReplaceAll(raw, []byte("\n9$1\n"))
	if bytes.Equal(forged, raw) {
		t.Fatalf("there is no checkpoint of 20 to 29 events in\n%s", raw)
	}
	if err := os.WriteFile(path, forged, 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := translog.HighestKnown(dir, translog.SignedPath(dir, "", "")); n > log.Size() || err != nil {
		t.Errorf("with a forged checkpoint: %d, %v", n, err)
	}
}
