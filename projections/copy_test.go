package projections_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/projections"
)

// copies records projection copies, as the ledger does.
type copies struct {
	mu   sync.Mutex
	list []projections.Copy
}

func (c *copies) record(_ context.Context, p projections.Copy) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, p)
	return nil
}

func (c *copies) recorded(context.Context) ([]projections.Copy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list), nil
}

// copyOptions returns the options of a Store with copies in a directory of the test.
func copyOptions(t *testing.T) (projections.Options, *copies) {
	t.Helper()
	dir, c := t.TempDir(), new(copies)
	return projections.Options{Path: filepath.Join(dir, "projections.db"), CopyDir: filepath.Join(dir, "copies"), RecordedCopies: c.recorded}, c
}

func writeCopy(t *testing.T, s *projections.Store, c *copies) projections.Copy {
	t.Helper()
	p, err := s.WriteCopy(t.Context(), 2, c.record)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// copyNames returns the names of the files in a directory of copies.
func copyNames(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func copyName(position uint64) string { return fmt.Sprintf("%020d.zst", position) }

// rebuildLost removes the file of the projections and prepares it again. It returns the position of
// the copy with which the rebuild began.
func rebuildLost(t *testing.T, opts projections.Options, feed projections.Feed, last uint64) uint64 {
	t.Helper()
	if err := projections.Remove(opts.Path); err != nil {
		t.Fatal(err)
	}
	from, err := projections.Rebuild(t.Context(), opts, feed, last)
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// Copies are written while events are applied. A rebuild that begins with one gives the rows of a
// rebuild from the first event, and the comparison of both finds no difference.
func TestRebuiltFromACopyIsTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			opts, c := copyOptions(t)
			h, b := newHistorian(seed), newMemoryLedger()
			for range tier.Choose(3000, 10000) {
				who, d := h.move()
				b.addFor(who, d)
			}
			last := uint64(len(b.all()))
			s := open(t, opts)
			written := make(chan projections.Copy, 4)
			copied := make(chan error, 1)
			go func() {
				defer close(copied)
				for at := uint64(1); len(written) < cap(written) && s.Applied() < last; at += last / 6 {
					if err := s.Wait(t.Context(), at); err != nil {
						copied <- err
						return
					}
					p, err := s.WriteCopy(t.Context(), 2, c.record)
					if err != nil {
						copied <- err
						return
					}
					written <- p
				}
			}()
			for s.Applied() < last {
				rest := b.all()[s.Applied():]
				if err := s.Apply(t.Context(), rest[:min(len(rest), 1+h.IntN(30))]); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-copied; err != nil {
				t.Fatal(err)
			}
			if len(written) == 0 || len(copyNames(t, opts.CopyDir)) > 2 {
				t.Fatalf("%d copies were written, the directory has %v", len(written), copyNames(t, opts.CopyDir))
			}
			want := dump(t, rebuildFrom(t, b))
			for list, _ := c.recorded(t.Context()); len(copyNames(t, opts.CopyDir)) > 0; list = list[:len(list)-1] {
				rebuilt := projections.Options{Path: filepath.Join(t.TempDir(), "p.db"), CopyDir: opts.CopyDir, RecordedCopies: opts.RecordedCopies}
				newest := list[len(list)-1]
				if from := rebuildLost(t, rebuilt, b, last); from != newest.Position {
					t.Errorf("the rebuild began at %d, want %d", from, newest.Position)
				}
				if diff := cmp.Diff(want, dump(t, rebuilt.Path)); diff != "" {
					t.Errorf("from the copy at %d (-first event +copy): %s", newest.Position, diff)
				}
				if diff := cmp.Diff(layout(t, opts.Path), layout(t, rebuilt.Path)); diff != "" {
					t.Error(diff)
				}
				compared, err := projections.RebuildFromStart(t.Context(), rebuilt, b, last)
				if err != nil || len(compared) != 1+len(copyNames(t, opts.CopyDir)) {
					t.Fatalf("compared %+v, error %v", compared, err)
				}
				for _, d := range compared {
					if d.Different > 0 || d.Skipped != "" || d.Position > 100 && d.Rows == 0 {
						t.Errorf("compared %+v", d)
					}
				}
				if err := os.Remove(filepath.Join(opts.CopyDir, copyName(newest.Position))); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A copy that is damaged, incomplete or not recorded is not used: the rebuild begins with an older
// one, or with the first event. Each case is also what a crash leaves after a step of writing a copy,
// of recording it or of a rebuild.
func TestUnusableCopies(t *testing.T) {
	t.Parallel()
	b := newMemoryLedger()
	for n := 1; n <= 40; n++ {
		b.add(requested(n), started(n, 1, fresh, ""), ended(n, events.StatusCompleted))
	}
	last := uint64(len(b.all()))
	want := dump(t, rebuildFrom(t, b))
	for name, tt := range map[string]struct {
		damage func(t *testing.T, newest string, opts *projections.Options, c *copies)
		from   uint64
	}{
		"intact":         {func(*testing.T, string, *projections.Options, *copies) {}, 90},
		"a changed byte": {func(t *testing.T, newest string, _ *projections.Options, _ *copies) { flip(t, newest) }, 60},
		"a cut file":     {func(t *testing.T, newest string, _ *projections.Options, _ *copies) { cut(t, newest) }, 60},
		"a directory": {func(t *testing.T, newest string, _ *projections.Options, _ *copies) {
			remove(t, newest)
			makeDir(t, newest)
		}, 60},
		"only its record": {func(t *testing.T, newest string, _ *projections.Options, _ *copies) { remove(t, newest) }, 60},
		"not recorded":    {func(_ *testing.T, _ string, _ *projections.Options, c *copies) { c.list = c.list[:1] }, 60},
		"another schema":  {func(_ *testing.T, _ string, _ *projections.Options, c *copies) { c.list[1].Schema++ }, 60},
		"no records":      {func(_ *testing.T, _ string, _ *projections.Options, c *copies) { c.list = nil }, 0},
		"another position": {func(t *testing.T, newest string, o *projections.Options, c *copies) {
			moveCopy(t, newest, o.CopyDir, c)
		}, 60},
		"no directory": {func(t *testing.T, _ string, o *projections.Options, _ *copies) { removeAll(t, o.CopyDir) }, 0},
		"incomplete copy": {func(t *testing.T, _ string, o *projections.Options, _ *copies) {
			write(t, filepath.Join(o.CopyDir, "incomplete"))
		}, 90},
		"incomplete file": {func(t *testing.T, _ string, o *projections.Options, _ *copies) {
			write(t, o.Path+".new")
			write(t, o.Path+".compared")
		}, 90},
		"of another server": {func(_ *testing.T, _ string, _ *projections.Options, c *copies) {
			c.list = slices.Insert(c.list, 2, projections.Copy{Position: 90, Schema: c.list[1].Schema, SHA256: heap(1)})
		}, 90},
		"both damaged": {func(t *testing.T, newest string, o *projections.Options, _ *copies) {
			flip(t, newest)
			flip(t, filepath.Join(o.CopyDir, copyName(60)))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, c := copyOptions(t)
			s := open(t, opts)
			for _, n := range []int{30, 60, 90} {
				if err := s.Apply(t.Context(), b.all()[s.Applied():n]); err != nil {
					t.Fatal(err)
				}
				writeCopy(t, s, c)
			}
			if diff := cmp.Diff([]string{copyName(60), copyName(90)}, copyNames(t, opts.CopyDir)); diff != "" {
				t.Fatal(diff)
			}
			c.list = c.list[1:]
			tt.damage(t, filepath.Join(opts.CopyDir, copyName(90)), &opts, c)
			rebuilt := opts
			rebuilt.Path = filepath.Join(filepath.Dir(opts.Path), "rebuilt.db")
			if from := rebuildLost(t, rebuilt, b, last); from != tt.from {
				t.Errorf("the rebuild began at %d, want %d", from, tt.from)
			}
			if diff := cmp.Diff(want, dump(t, rebuilt.Path)); diff != "" {
				t.Error(diff)
			}
			if err := s.Apply(t.Context(), b.all()[90:]); err != nil { // the next copy removes what is left
				t.Fatal(err)
			}
			writeCopy(t, s, c)
			if names := copyNames(t, opts.CopyDir); slices.Contains(names, "incomplete") || !slices.Contains(names, copyName(last)) {
				t.Errorf("the copies are %v", names)
			}
		})
	}
}

func flip(t *testing.T, path string) {
	t.Helper()
	raw := read(t, path)
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, int64(len(read(t, path))/2)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, bytes.Repeat([]byte("left over"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func removeAll(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func makeDir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// moveCopy gives the newest copy, and its record, another position.
func moveCopy(t *testing.T, newest, dir string, c *copies) {
	t.Helper()
	if err := os.Rename(newest, filepath.Join(dir, copyName(91))); err != nil {
		t.Fatal(err)
	}
	c.list[1].Position = 91
}

// If content is erased, every copy that may have it is deleted before the erasure is applied, also
// one that is written meanwhile. Later copies stay, also if the erasure is applied again in a rebuild.
func TestErasuresDeleteCopies(t *testing.T) {
	t.Parallel()
	opts, c := copyOptions(t)
	b := newMemoryLedger()
	s := open(t, opts)
	stopped := make(chan int, 1)
	ctx, stop := context.WithCancel(t.Context())
	var erased uint64 // guarded by c.mu
	go func() {
		n := 0
		defer func() { stopped <- n }()
		for ctx.Err() == nil {
			p, err := s.WriteCopy(ctx, 2, c.record)
			switch {
			case errors.Is(err, projections.ErrCopyStopped):
				n++
			case err != nil && ctx.Err() == nil:
				t.Error(err)
				return
			}
			c.mu.Lock()
			if names := copyNames(t, opts.CopyDir); err == nil && p.Position < erased && slices.Contains(names, copyName(p.Position)) {
				t.Errorf("content was erased at %d, and the copies are %v", erased, names)
			}
			c.mu.Unlock()
		}
	}()
	for n := 1; n <= tier.Choose(200, 1000); n++ {
		b.add(requested(n, inSession("s")), ended(n, events.StatusCompleted))
		at := b.add(&events.SessionShredded{SessionID: events.SessionID(tenant, "s"), Session: "s", KeyIDs: []string{fmt.Sprint("key ", n)}, Actor: client})
		apply(t, s, b)
		c.mu.Lock()
		erased = at
		c.mu.Unlock()
		for _, name := range copyNames(t, opts.CopyDir) {
			if name < copyName(at) {
				t.Fatalf("content was erased at %d, and there is %s", at, name)
			}
		}
	}
	stop()
	t.Logf("%d copies were stopped", <-stopped)

	b.add(requested(5000))
	apply(t, s, b)
	p := writeCopy(t, s, c)
	last := uint64(len(b.all()))
	if compared, err := projections.RebuildFromStart(t.Context(), projections.Options{Path: filepath.Join(t.TempDir(), "p.db"), CopyDir: opts.CopyDir, RecordedCopies: opts.RecordedCopies}, b, last); err != nil || len(compared) < 2 || compared[len(compared)-1].Different > 0 {
		t.Errorf("compared %+v, error %v", compared, err)
	}
	if names := copyNames(t, opts.CopyDir); !slices.Contains(names, copyName(p.Position)) {
		t.Errorf("a rebuild left the copies %v", names)
	}
	// A rebuild from a copy applies an erasure that was not applied before.
	at := b.add(&events.SessionShredded{SessionID: heap(77), Session: "t", KeyIDs: []string{"k"}, Actor: client})
	rebuilt := projections.Options{Path: filepath.Join(t.TempDir(), "p.db"), CopyDir: opts.CopyDir, RecordedCopies: opts.RecordedCopies}
	if from := rebuildLost(t, rebuilt, b, at); from != p.Position || len(copyNames(t, opts.CopyDir)) > 0 {
		t.Errorf("the rebuild began at %d, and left %v", from, copyNames(t, opts.CopyDir))
	}
}

// A rebuild that omits content whose keys are lost uses no copy, and leaves none.
func TestRebuildWithoutKeysUsesNoCopy(t *testing.T) {
	t.Parallel()
	opts, c := copyOptions(t)
	b := newMemoryLedger()
	b.add(requested(1), requested(2))
	s := open(t, opts)
	apply(t, s, b)
	writeCopy(t, s, c)
	opts.Path, opts.AllowLostKeys = filepath.Join(t.TempDir(), "p.db"), true
	if from := rebuildLost(t, opts, b, 2); from != 0 || len(copyNames(t, opts.CopyDir)) > 0 {
		t.Errorf("the rebuild began at %d, and left %v", from, copyNames(t, opts.CopyDir))
	}
}

// If a copy cannot be recorded, it does not stay.
func TestUnrecordedCopyIsDeleted(t *testing.T) {
	t.Parallel()
	opts, _ := copyOptions(t)
	b := newMemoryLedger()
	b.add(requested(1))
	s := open(t, opts)
	apply(t, s, b)
	refused := errors.New("refused")
	if _, err := s.WriteCopy(t.Context(), 2, func(context.Context, projections.Copy) error { return refused }); !errors.Is(err, refused) || len(copyNames(t, opts.CopyDir)) > 0 {
		t.Errorf("error %v, copies %v", err, copyNames(t, opts.CopyDir))
	}
}

// The comparison names changed, missing and added rows, of the projections and of a copy that was
// made of them. It replaces the projections, and deletes that copy.
func TestComparisonFindsDifferences(t *testing.T) {
	t.Parallel()
	opts, c := copyOptions(t)
	b := newMemoryLedger()
	for n := 1; n <= 20; n++ {
		b.add(requested(n, withTags(tags{"a": "b"})), ended(n, events.StatusCompleted, leaving(heap(n), "")))
	}
	last := uint64(len(b.all()))
	s, err := projections.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, b)
	if _, err := openRaw(t, opts.Path).ExecContext(t.Context(), `UPDATE executions SET status = 'failed', attempt = 7 WHERE id = 3;
		DELETE FROM heaps WHERE heap = '`+heap(5)+`'; INSERT INTO unknown_events VALUES (4, 'default', 't', 1, 's', 'b')`); err != nil {
		t.Fatal(err)
	}
	p := writeCopy(t, s, c)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	compared, err := projections.RebuildFromStart(t.Context(), opts, b, last)
	if err != nil {
		t.Fatal(err)
	}
	want := []projections.Difference{
		{Table: "executions", Row: "5", Columns: []string{"status", "attempt"}},
		{Table: "heaps", Row: tenant + " " + heap(5), OnlyRebuilt: true},
		{Table: "unknown_events", Row: "4", OnlyCompared: true},
	}
	if len(compared) != 2 || compared[0].File != "projections.db" || compared[1].File != copyName(p.Position) {
		t.Fatalf("compared %+v", compared)
	}
	for _, d := range compared {
		if diff := cmp.Diff(want, d.First); diff != "" || d.Different != 3 || d.Rows < 60 || d.Position != last {
			t.Errorf("%+v: %s", d, diff)
		}
	}
	if diff := cmp.Diff(dump(t, rebuildFrom(t, b)), dump(t, opts.Path)); diff != "" {
		t.Error(diff)
	}
	if names := copyNames(t, opts.CopyDir); len(names) > 0 {
		t.Errorf("there are the copies %v", names)
	}
}

// Reading the file beside SQLite leaves the locks by which other processes notice that it is open.
func TestLocksStay(t *testing.T) {
	t.Parallel()
	opts, c := copyOptions(t)
	b := newMemoryLedger()
	b.add(requested(1))
	s, err := projections.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, b)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, opts)
	follow(t, s, b) // compares the checksum
	info, err := os.Stat(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	lock := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	for range 2 {
		if !strings.Contains(string(read(t, "/proc/locks")), lock) {
			t.Fatal("SQLite has no lock on the file")
		}
		writeCopy(t, s, c)
		if err := s.Wait(t.Context(), b.add(requested(2))); err != nil {
			t.Fatal(err)
		}
	}
}
