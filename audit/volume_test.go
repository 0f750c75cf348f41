package audit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/stream"
	"daybook/internal/translog"
	"daybook/proof"
)

func sealVolume(t *testing.T, store *jetstream.Store, log *running) events.VolumeInfo {
	t.Helper()
	v, err := store.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Close: log.SignClosing})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A volume ends with a checkpoint of all its events. The next start and verification compare it
// with the events.
func TestSealedVolumesVerify(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 3)
	v := sealVolume(t, store, log)
	list, err := store.Read(t.Context(), v.Last-1, 2)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	d, ok := list[0].Data.(*events.LedgerVolumeSealed)
	if !ok || d.Closing == nil || d.Closing.Size != v.Last-1 {
		t.Fatalf("the last event of the volume is %+v", list[0].Data)
	}
	if _, err := proof.OpenCheckpoint([]byte(d.Closing.Note), log.VKey()); err != nil {
		t.Error(err)
	}
	// The log may sign its first checkpoint after the volume is sealed: the newest is the closing
	// checkpoint or a later one.
	if c, ok := log.Latest(); !ok || c.Size < d.Closing.Size {
		t.Errorf("the newest checkpoint covers %d events, fewer than the %d of the closing one", c.Size, d.Closing.Size)
	}
	fill(t, store, 3)
	sealVolume(t, store, log)
	fill(t, store, 3)
	finish(t, log, store)
	r, found := verdict(t, store, audit.VerifyOptions{Dir: translog.Dir(dir), Keys: []string{log.VKey()}})
	// The last checkpoint is not covered, nor one that was recorded after the last run and does
	// not cover it yet.
	if len(found) > 0 || r.Unsigned > 2 || r.Checkpoints < 3 {
		t.Errorf("%v\n%s", found, r)
	}

	// Exports of a range across volumes and of everything verify.
	again := start(t, store, translog.Options{Dir: dir})
	for name, s := range map[string]proof.ExportSelection{"all": {}, "across": {From: 2, To: v.Last + 2}, "the second": {From: v.Last + 1, To: v.Last + 5}} {
		out := t.TempDir() + "/export"
		if _, err := audit.Export(t.Context(), audit.Local{Log: again.Log, Stream: store, Blobs: store}, audit.ExportOptions{Dir: out, Selection: s}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, err := audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{log.VKey()}})
		if err != nil || !r.OK {
			t.Errorf("%s: %v\n%s", name, err, r)
		}
	}
}

// A closing checkpoint that differs from the events is reported.
func TestAFalseClosingIsFound(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 2)
	c, err := log.SignClosing(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	c.Note = strings.Replace(c.Note, "\n1\n", "\n2\n", 1)
	c.Size = 2
	if _, err := store.Rotate(t.Context(), stream.RotateOptions{
		Reason: events.VolumeAsked, Close: func(context.Context, uint64) (*events.ClosingCheckpoint, error) { return c, nil },
	}); err != nil {
		t.Fatal(err)
	}
	if err := log.AwaitEnd(t); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("the log continues: %v", err)
	}
	if _, found := verdict(t, store, audit.VerifyOptions{Keys: []string{log.VKey()}}); len(found) == 0 || !strings.Contains(found[0], "tree hash") {
		t.Errorf("found %q", found)
	}
}

// A volume whose loss a later volume records can be exported, verified and removed: its export ends with the
// event that records the loss. An export without this event is refused, and the error says which range to take.
func TestAVolumeWithALossIsExported(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	lost := events.Lost{{From: 4, To: 9, NamedAt: 10}}
	fill(t, store, 3)
	if _, err := store.OpenVolume(t.Context(), 10, "lost", events.Actor{Principal: "operator"}); err != nil {
		t.Fatal(err)
	}
	fill(t, store, 3)
	log := start(t, store, translog.Options{Dir: dir, Lost: func() events.Lost { return lost }})
	if err := log.FinalCheckpoint(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	local, out := audit.Local{Log: log.Log, Stream: store, Blobs: store}, t.TempDir()+"/export"
	opts := audit.ExportOptions{Dir: out, Selection: proof.ExportSelection{From: 1, To: 9}}
	if _, err := audit.Export(t.Context(), local, opts); err == nil || !strings.Contains(err.Error(), "--to 10") {
		t.Errorf("without the event that records the loss: %v", err)
	}
	opts.WithLosses = true
	if x, err := audit.Export(t.Context(), local, opts); err != nil || x.Selection.To != 10 {
		t.Fatalf("the export ends at %d, %v", x.Selection.To, err)
	}
	r, err := audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{log.VKey()}})
	if err != nil || !r.OK || len(r.Lost) != 1 {
		t.Errorf("the export: %v\n%s", err, r)
	}
	_, _, sha, err := audit.ExportedVolume(out)
	if err != nil {
		t.Fatal(err)
	}
	if x, err := local.VolumeExport(t.Context(), 1, 9); err != nil || x.SHA256 != sha {
		t.Errorf("the server computes the hash %s, not %s, %v", x.SHA256, sha, err)
	}
}

// Positions that the opening of a volume names as lost have leaves of their own. Any other gap is
// damage.
func TestARecordedGapVerifies(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 3)
	if _, err := store.OpenVolume(t.Context(), 10, "lost", events.Actor{Principal: "operator"}); err != nil {
		t.Fatal(err)
	}
	last := fill(t, store, 3)
	if err := log.FinalCheckpoint(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if c, ok := log.Latest(); !ok || c.Size < last {
		t.Errorf("the newest checkpoint covers %d of %d events", c.Size, last)
	}
	for name, s := range map[string]proof.ExportSelection{"all": {}, "across": {From: 2, To: last}} {
		out := t.TempDir() + "/export"
		if _, err := audit.Export(t.Context(), audit.Local{Log: log.Log, Stream: store, Blobs: store}, audit.ExportOptions{Dir: out, Selection: s}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, err := audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{log.VKey()}})
		if err != nil || !r.OK {
			t.Errorf("%s: %v\n%s", name, err, r)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if r, found := verdict(t, store, audit.VerifyOptions{Dir: translog.Dir(dir), Keys: []string{log.VKey()}}); len(found) > 0 {
		t.Errorf("%v\n%s", found, r)
	}
	if proof.HoleHash(4) == proof.HoleHash(5) {
		t.Error("two positions have one leaf")
	}
	for name, d := range map[string]*events.LedgerVolumeOpened{
		"another reason":  {First: 10, Reason: events.VolumeAged, Hole: &events.Hole{From: 4, To: 9}},
		"no gap":          {First: 10, Reason: events.VolumeDamaged},
		"a larger gap":    {First: 10, Reason: events.VolumeDamaged, Hole: &events.Hole{From: 3, To: 9}},
		"a smaller gap":   {First: 10, Reason: events.VolumeDamaged, Hole: &events.Hole{From: 4, To: 8}},
		"another's first": {First: 11, Reason: events.VolumeDamaged, Hole: &events.Hole{From: 4, To: 9}},
	} {
		if d.AccountsForGap(3, 10) {
			t.Errorf("%s fills the gap", name)
		}
	}
}
