package projections_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/projections"
)

// A closed file that changed with its time is rebuilt by Prepare. One that changed without, as on a disk
// that loses bits, is found by Run and rebuilt by the next Prepare.
func TestChangedFileIsRebuilt(t *testing.T) {
	t.Parallel()
	for name, keepTime := range map[string]bool{"with its time": false, "without its time": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newMemoryLedger()
			b.add(requested(1), requested(2))
			opts := projections.Options{Path: filepath.Join(t.TempDir(), "projections.db")}
			prepare := func() bool {
				t.Helper()
				built, err := projections.Prepare(t.Context(), opts, b, 2)
				if err != nil {
					t.Fatal(err)
				}
				return built
			}
			open := func() *projections.Store {
				t.Helper()
				s, err := projections.Open(t.Context(), opts)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			prepare()
			if err := open().Close(); err != nil {
				t.Fatal(err)
			}
			if prepare() {
				t.Error("an unchanged file is rebuilt")
			}

			info, err := os.Stat(opts.Path)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(opts.Path)
			if err != nil {
				t.Fatal(err)
			}
			changed := bytes.Replace(raw, []byte("run(2)"), []byte("ran(2)"), 1)
			if bytes.Equal(changed, raw) {
				t.Fatal("the file does not hold the source of a run")
			}
			if err := os.WriteFile(opts.Path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			if keepTime {
				if err := os.Chtimes(opts.Path, time.Time{}, info.ModTime()); err != nil {
					t.Fatal(err)
				}
				if prepare() {
					t.Error("Prepare reads a file of the same size and time")
				}
				s := open()
				if err := s.Run(t.Context(), b); err == nil || !strings.Contains(err.Error(), "does not match the checksum") {
					t.Errorf("Run returns %v", err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if !prepare() {
				t.Error("a changed file is not rebuilt")
			}
		})
	}
}

// A file that changed without its time is rebuilt also after a kill: before Run has read the file, and
// after Run has found that it changed. A kill after Run found no change costs no start the reading.
func TestChangedFileIsRebuiltAfterKill(t *testing.T) {
	t.Parallel()
	b := newMemoryLedger()
	b.add(requested(1), requested(2))
	prepare := func(opts projections.Options) bool {
		t.Helper()
		built, err := projections.Prepare(t.Context(), opts, b, 2)
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	// killed returns what a kill leaves of the files.
	killed := func(opts projections.Options) projections.Options {
		t.Helper()
		left := projections.Options{Path: filepath.Join(t.TempDir(), "projections.db")}
		for _, suffix := range []string{"", "-wal", ".sum"} {
			raw, err := os.ReadFile(opts.Path + suffix)
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(opts.Path + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(left.Path+suffix, raw, 0o600), os.Chtimes(left.Path+suffix, time.Time{}, info.ModTime())); err != nil {
				t.Fatal(err)
			}
		}
		return left
	}
	mark := func(opts projections.Options) string {
		t.Helper()
		raw, err := os.ReadFile(opts.Path + ".sum")
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	damage := func(opts projections.Options) {
		t.Helper()
		info, err := os.Stat(opts.Path)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(opts.Path)
		if err != nil {
			t.Fatal(err)
		}
		raw = bytes.Replace(raw, []byte("run(2)"), []byte("ran(2)"), 1)
		if err := errors.Join(os.WriteFile(opts.Path, raw, 0o600), os.Chtimes(opts.Path, time.Time{}, info.ModTime())); err != nil {
			t.Fatal(err)
		}
	}
	opts := projections.Options{Path: filepath.Join(t.TempDir(), "projections.db")}
	prepare(opts)
	s, err := projections.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s, err = projections.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	left := killed(opts)
	if prepare(left) {
		t.Error("an intact file is rebuilt after a kill before Run")
	}
	left = killed(opts)
	damage(left)
	if !prepare(left) {
		t.Error("a file that changed before a kill before Run is not rebuilt")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	before := mark(opts)
	go func() { ended <- s.Run(ctx, b) }()
	for mark(opts) == before {
		select {
		case err := <-ended:
			t.Fatal("Run ends before it has recorded that the file is intact: ", err)
		case <-t.Context().Done():
			t.Fatal("Run does not record that the file is intact")
		case <-time.After(time.Millisecond):
		}
	}
	left = killed(opts)
	damage(left)
	if prepare(left) {
		t.Error("a file that Run has read is read after a kill")
	}
	stop()
	<-ended
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	damage(opts)
	s, err = projections.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run(t.Context(), b); err == nil || !strings.Contains(err.Error(), "does not match the checksum") {
		t.Errorf("Run returns %v", err)
	}
	if !prepare(killed(opts)) {
		t.Error("a file that Run has found to be changed is not rebuilt after a kill")
	}
}
