package projections

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// copied returns an open Store that has applied events and has copies of the first two positions.
func copied(t *testing.T, positions ...uint64) (*Store, Options, killRecords) {
	t.Helper()
	dir := t.TempDir()
	opts, l, r := killOptions(dir), newKillLedger(), killRecords(filepath.Join(dir, "records"))
	s, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, at := range positions {
		err := s.Apply(t.Context(), l[s.Applied():at])
		if err == nil {
			_, err = s.WriteCopy(t.Context(), 9, r.record)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s, opts, r
}

func wantCopies(t *testing.T, s *Store, newest uint64, want ...uint64) {
	t.Helper()
	got, err := copyPositions(s.opts.CopyDir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil || s.NewestCopy() != newest {
		t.Errorf("the newest copy is %d, want %d; copies, error %v: %s", s.NewestCopy(), newest, err, diff)
	}
}

// A start deletes copies that no rebuild can use: they are damaged, were not recorded before a
// kill, or are of a history that was replaced by a backup. Those of another version stay.
func TestCheckCopies(t *testing.T) {
	t.Parallel()
	s, opts, r := copied(t, 10, 20, 30, 40)
	wantCopies(t, s, 40, 10, 20, 30, 40)
	raw, err := os.ReadFile(copyPath(opts.CopyDir, 30))
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.recorded(t.Context())
	if err == nil {
		list[3].Schema++
		err = errors.Join(os.Truncate(copyPath(opts.CopyDir, 20), 100), os.WriteFile(copyPath(opts.CopyDir, 90), raw, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.opts.RecordedCopies = func(context.Context) ([]Copy, error) { return list, nil }
	if err := s.CheckCopies(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCopies(t, s, 30, 10, 30, 40)
	if err := os.Remove(copyPath(opts.CopyDir, 30)); err != nil {
		t.Fatal(err)
	}
	wantCopies(t, s, 0, 10, 40)

	// Without the records, none is deleted.
	s.opts.RecordedCopies = func(context.Context) ([]Copy, error) { return nil, errors.New("refused") }
	if err := s.CheckCopies(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v", err)
	}
	wantCopies(t, s, 0, 10, 40)
}

// An erasure also deletes a copy of a later position. Only a ledger that was set back has one.
func TestErasureDeletesCopiesOfAnotherHistory(t *testing.T) {
	t.Parallel()
	s, opts, _ := copied(t, 50)
	if err := os.Link(copyPath(opts.CopyDir, 50), copyPath(opts.CopyDir, 80)); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), newKillLedger()[50:killErasedAt+1]); err != nil {
		t.Fatal(err)
	}
	wantCopies(t, s, 0)
}

// A copy that is stopped after it has its name, and before it is recorded, does not stay.
func TestStoppedAfterItsName(t *testing.T) { //nolint:paralleltest // it replaces afterStep
	s, _, r := copied(t, 10)
	t.Cleanup(func() { afterStep = func() {} })
	afterStep = func() {
		if list, err := copyPositions(s.opts.CopyDir); err != nil || len(list) == 2 {
			s.copying.stop(fmt.Errorf("%w: disk space runs out", errors.Join(err, ErrCopyStopped)))
		}
	}
	if err := s.Apply(t.Context(), newKillLedger()[10:20]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteCopy(t.Context(), 9, r.record); !errors.Is(err, ErrCopyStopped) {
		t.Errorf("error %v", err)
	}
	wantCopies(t, s, 10, 10)
	if list, err := r.recorded(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("recorded %v, error %v", list, err)
	}
}

// What is restored is what was verified, also if the file of the copy is replaced or changed
// between both.
func TestCopyChangesBetweenCheckAndUse(t *testing.T) { //nolint:paralleltest // it replaces afterStep
	for name, tt := range map[string]struct {
		change func(path string, other []byte) error
		want   string // part of the error
	}{
		"replaced": {func(path string, other []byte) error {
			return errors.Join(os.WriteFile(path+".other", other, 0o600), os.Rename(path+".other", path))
		}, ""},
		"written to": {func(path string, other []byte) error { return os.WriteFile(path, other, 0o600) }, "it changed while it was read"},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // as above
			_, opts, r := copied(t, 20, 50)
			path, restored := copyPath(opts.CopyDir, 50), filepath.Join(t.TempDir(), "restored.db")
			other, err := os.ReadFile(copyPath(opts.CopyDir, 20))
			if err != nil {
				t.Fatal(err)
			}
			list, err := r.recorded(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			isChanged := false
			t.Cleanup(func() { afterStep = func() {} })
			afterStep = func() {
				if !isChanged { // the hash is computed
					isChanged = true
					if err := tt.change(path, other); err != nil {
						t.Error(err)
					}
				}
			}
			err = restoreCopy(t.Context(), opts.CopyDir, usableCopy{50, []string{list[1].SHA256}}, restored)
			_, missing := os.Stat(restored)
			if tt.want == "" && (err != nil || missing != nil) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || missing == nil) || !isChanged {
				t.Errorf("error %v; the restored file: %v", err, missing)
			}
		})
	}
}

// A damaged file of the projections is not copied, because the rebuild that repairs it would begin
// with the copy.
func TestNoCopyOfADamagedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts, l, r := killOptions(dir), newKillLedger(), killRecords(filepath.Join(dir, "records"))
	opts.Logger = slog.New(slog.DiscardHandler)
	s, err := Open(t.Context(), opts)
	if err == nil {
		err = errors.Join(s.Apply(t.Context(), l[:10]), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(raw, []byte("run(7)"), []byte("run(8)"), 1)
	if err := errors.Join(os.WriteFile(opts.Path, changed, 0o600), os.Chtimes(opts.Path, info.ModTime(), info.ModTime())); err != nil || bytes.Equal(raw, changed) {
		t.Fatalf("error %v", err)
	}
	if built, err := Prepare(t.Context(), opts, l, 10); err != nil || built {
		t.Fatalf("built %v, error %v", built, err)
	}
	if s, err = Open(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	copied := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, err := s.WriteCopy(ctx, 2, r.record)
		copied <- err
	}()
	if err := s.Run(ctx, l[:10]); err == nil || !strings.Contains(err.Error(), "does not match the checksum") {
		t.Errorf("Run: %v", err)
	}
	stop()
	if err := <-copied; !errors.Is(err, context.Canceled) {
		t.Errorf("WriteCopy: %v", err)
	}
	if list, err := copyPositions(opts.CopyDir); err != nil || len(list) > 0 {
		t.Errorf("there are the copies %v, error %v", list, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if built, err := Prepare(t.Context(), opts, l, 10); err != nil || !built || has(t, opts.Path, "run(8)") != bytes.Contains(raw, []byte("run(8)")) {
		t.Errorf("built %v, error %v", built, err)
	}
}

// While the copies cannot be deleted, an erasure is not applied, as on a full disk. It is applied once
// they can.
func TestErasureWaitsForCopies(t *testing.T) {
	t.Parallel()
	s, opts, _ := copied(t, 50)
	inTheWay := filepath.Join(opts.CopyDir, incompleteName)
	if err := os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := newKillLedger()
	if err := s.Apply(t.Context(), l[50:70]); !isUnwritable(err) || strings.Contains(sqliteText(err), opts.CopyDir) {
		t.Errorf("error %v, shown as %q", err, sqliteText(err))
	}
	if s.Applied() != 50 {
		t.Errorf("applied %d", s.Applied())
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), l[50:70]); err != nil {
		t.Error(err)
	}
	wantCopies(t, s, 0)
}
