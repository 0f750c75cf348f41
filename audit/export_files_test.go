package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/translog"
	"daybook/proof"
)

// files reads every file of a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		got[name] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// interrupted is a source that fails after some lines.
type interrupted struct {
	audit.Local
	left int
}

var errInterrupted = errors.New("interrupted")

func (s *interrupted) Lines(ctx context.Context, c proof.Checkpoint, sel proof.ExportSelection, after uint64, fn func(line, proof []byte) error) error {
	return s.Local.Lines(ctx, c, sel, after, func(line, proof []byte) error {
		if s.left--; s.left < 0 {
			return errInterrupted
		}
		return fn(line, proof)
	})
}

// withoutHeaps is a source whose heaps were deleted.
type withoutHeaps struct{ audit.Local }

func (s withoutHeaps) Blob(ctx context.Context, b audit.Blob) ([]byte, error) {
	if b.Heap {
		return nil, fmt.Errorf("heap %s was deleted by event 7: %w", b.SHA256, events.ErrRemoved)
	}
	return s.Local.Blob(ctx, b)
}

// An export of a session has no events about deleted heaps, so an export with its heaps is
// refused with the heap and the remedy.
func TestExportOfASessionWithACollectedHeap(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	record(t, store, requested(one))
	record(t, store, started(one, 1, 1, 0))
	record(t, store, leaving(one, "gone"))
	record(t, store, &events.HeapCollected{Heap: events.Hash([]byte("gone"))})
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	last, err := store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustCheckpoint(t, log, last)
	src := withoutHeaps{audit.Local{Log: log.Log, Stream: store, Blobs: store, SessionOf: func(context.Context, string, uint64, string) ([]string, error) { return []string{"s"}, nil }}}
	opts := audit.ExportOptions{Dir: filepath.Join(t.TempDir(), "part"), Selection: proof.ExportSelection{Execution: one}, Blobs: true}
	if _, err := audit.Export(t.Context(), src, opts); err == nil || !strings.Contains(err.Error(), "heap "+events.Hash([]byte("gone"))+" was deleted by event 7") || !strings.Contains(err.Error(), "export without --heaps, or export the whole ledger") {
		t.Errorf("%v", err)
	}
	for name, opts := range map[string]audit.ExportOptions{"without heaps": {Selection: proof.ExportSelection{Execution: one}}, "the whole ledger": {Blobs: true}} {
		opts.Dir = filepath.Join(t.TempDir(), "part")
		if got, err := audit.Export(t.Context(), src, opts); err != nil || got.Blobs != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// The same selection under the same checkpoint gives the same bytes, interrupted or not,
// regardless of newer events.
func TestExportIsDeterministic(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for i := range 16 {
		id := one[:35] + string("0123456789abcdef"[i])
		record(t, store, requested(id))
		record(t, store, started(id, 1, 1, 0))
		record(t, store, output(id, 1, 1, 0, "x"))
	}
	fill(t, store, 300)
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	last, err := store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := mustCheckpoint(t, log, last)
	src := audit.Local{Log: log.Log, Stream: store, Blobs: store, SessionOf: func(_ context.Context, _ string, _ uint64, execution string) ([]string, error) {
		if strings.HasPrefix(execution, one[:35]) {
			return []string{"s"}, nil
		}
		return nil, nil
	}}
	for name, sel := range map[string]proof.ExportSelection{
		"everything":   {},
		"a range":      {From: 20, To: 290},
		"an execution": {Execution: one[:35] + "2"},
		"a session":    {Session: "s"},
		"a time":       {Since: at, Until: at},
	} {
		t.Run(name, func(t *testing.T) {
			// Not the newest checkpoint: newer events are recorded and signed meanwhile.
			opts := audit.ExportOptions{Selection: sel, Checkpoint: c.Note}
			opts.Dir = filepath.Join(t.TempDir(), "whole")
			done, err := audit.Export(t.Context(), src, opts)
			if err != nil {
				t.Fatal(err)
			}
			if done.Complete != (name == "everything") || done.Size != c.Size || done.Events == 0 {
				t.Errorf("%+v", done)
			}
			want := files(t, opts.Dir)
			r, err := audit.VerifyExport(t.Context(), opts.Dir, audit.VerifyOptions{Keys: []string{log.VKey()}})
			if err != nil || !r.OK {
				t.Fatalf("%v\n%s", err, r)
			}
			mustCheckpoint(t, log, fill(t, store, 5))

			again := opts
			again.Dir = filepath.Join(t.TempDir(), "again")
			if _, err := audit.Export(t.Context(), &interrupted{src, int(done.Events) / 2}, again); !errors.Is(err, errInterrupted) {
				t.Fatalf("interrupted: %v", err)
			}
			if r, err := audit.VerifyExport(t.Context(), again.Dir, audit.VerifyOptions{}); err != nil || r.OK || !strings.Contains(r.String(), "unfinished") {
				t.Errorf("an unfinished export: %v\n%s", err, r)
			}
			if _, err := audit.Export(t.Context(), src, again); err == nil || !strings.Contains(err.Error(), "--resume") {
				t.Errorf("over an unfinished export: %v", err)
			}
			tear(t, filepath.Join(again.Dir, "events.ndjson"))
			again.Resume, again.Checkpoint = true, nil
			other := again
			other.Selection.From = 7
			if _, err := audit.Export(t.Context(), src, other); err == nil || !strings.Contains(err.Error(), "another selection") {
				t.Errorf("resumed with another selection: %v", err)
			}
			resumed, err := audit.Export(t.Context(), src, again)
			if err != nil || !resumed.Resumed {
				t.Fatalf("resumed: %+v, %v", resumed, err)
			}
			if diff := cmp.Diff(want, files(t, again.Dir)); diff != "" {
				t.Errorf("the resumed export differs:\n%s", diff)
			}
			if _, err := audit.Export(t.Context(), src, again); err == nil {
				t.Error("a finished export was resumed")
			}
		})
	}
}

// removing is the log of a ledger whose first volume was removed.
type removing struct {
	audit.Proofs
	last uint64
}

func (r removing) Removed() events.Removal {
	if r.last == 0 {
		return events.Removal{}
	}
	return events.Removal{LedgerVolumeRemoved: &events.LedgerVolumeRemoved{Volume: 1, First: 1, Last: r.last}}
}

// An export is resumed if a volume was removed before it was started, or during the interruption. If
// events that it lacks were removed, the error names them.
func TestAnExportIsResumedAfterARemoval(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 40)
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	c := mustCheckpoint(t, log, 40)
	src := func(removed uint64) audit.Local {
		return audit.Local{Log: removing{log.Log, removed}, Stream: store, Blobs: store}
	}
	for _, tt := range []struct {
		name            string
		before, written int
		after           uint64
		from            uint64 // of the selection; 0 for the first that exists
		want            string // part of the error
	}{
		{"no removal", 0, 10, 0, 0, ""},
		{"a removal before", 10, 10, 10, 0, ""},
		{"a removal before, and a range", 10, 10, 10, 15, ""},
		{"a removal of written events", 0, 20, 20, 0, ""},
		{"a removal of written events of a range", 0, 20, 20, 3, ""},
		{"a removal before, and one of written events", 5, 20, 20, 0, ""},
		{"a removal of events that are not written", 0, 10, 20, 0, "events 11 to 20 were removed with volume 1"},
		{"a removal of everything", 0, 0, 20, 0, "events 1 to 20 were removed with volume 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := audit.ExportOptions{Dir: filepath.Join(t.TempDir(), "whole"), Selection: proof.ExportSelection{From: tt.from}, Checkpoint: c.Note}
			if _, err := audit.Export(t.Context(), src(uint64(tt.before)), opts); err != nil {
				t.Fatal(err)
			}
			want := files(t, opts.Dir)
			opts.Dir = filepath.Join(t.TempDir(), "resumed")
			if _, err := audit.Export(t.Context(), &interrupted{src(uint64(tt.before)), tt.written}, opts); !errors.Is(err, errInterrupted) {
				t.Fatal(err)
			}
			opts.Resume = true
			_, err := audit.Export(t.Context(), src(tt.after), opts)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "export again") {
					t.Errorf("%v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, files(t, opts.Dir)); diff != "" {
				t.Errorf("the resumed export differs:\n%s", diff)
			}
		})
	}
}

// tear truncates a file in the middle of a line, as a crash may.
func tear(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, max(0, info.Size()-10)); err != nil {
		t.Fatal(err)
	}
}

// An export that cannot be what was asked for is refused, and leaves no file.
func TestExportRefuses(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	last := fill(t, store, 5)
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	mustCheckpoint(t, log, last)
	src := audit.Local{Log: log.Log, Stream: store, Blobs: store, SessionOf: func(context.Context, string, uint64, string) ([]string, error) { return nil, nil }}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "something"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		opts audit.ExportOptions
		want string
	}{
		"a directory in use":    {audit.ExportOptions{Dir: full}, "not empty"},
		"nothing to resume":     {audit.ExportOptions{Resume: true}, "no unfinished export"},
		"bounds exchanged":      {audit.ExportOptions{Selection: proof.ExportSelection{From: 4, To: 2}}, "the range begins at 4 and ends before it, at 2; give the smaller"},
		"begins beyond the end": {audit.ExportOptions{Selection: proof.ExportSelection{From: 10_000}}, "position 10000, where the range begins, is beyond the checkpoint, which covers positions 1 to "},
		"nothing matches":       {audit.ExportOptions{Selection: proof.ExportSelection{Execution: one}}, "no recorded event matches, so nothing is exported"},
		"beyond the end":        {audit.ExportOptions{Selection: proof.ExportSelection{To: 10_000}}, "position 10000 is beyond the end of the ledger, which is "},
		"a foreign checkpoint":  {audit.ExportOptions{Checkpoint: []byte("x\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u2014 x AAAAAAAA\n")}, "none of the keys"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.opts.Dir == "" {
				tt.opts.Dir = filepath.Join(t.TempDir(), "x")
			}
			if _, err := audit.Export(t.Context(), src, tt.opts); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if list, err := os.ReadDir(tt.opts.Dir); len(list) > 0 && tt.opts.Dir != full {
				t.Errorf("the failed export left %v, %v", list, err)
			}
		})
	}
	if _, err := audit.VerifyExport(t.Context(), filepath.Join(full, "something"), audit.VerifyOptions{}); err == nil {
		t.Error("a file was verified as an export")
	}
}

// A manifest writes times in the format of events.
func TestBoundsAreTimesOfEvents(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{at, at.Add(1234567 * time.Nanosecond), at.In(time.FixedZone("", 3600)).Add(999 * time.Millisecond)} {
		if got, want := proof.FormatBound(at), events.FormatTime(at); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
