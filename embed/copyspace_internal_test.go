package embed

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/internal/resources/disk"
	"daybook/projections"
)

// No copy is started while the disk lacks the reserve and the size of the projections. A copy that
// is due is made once it has.
func TestNoCopyWithoutSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book, err := Start(t.Context(), Options{DataDir: dir, NATS: NATSOptions{NoSync: true}, Runs: RunOptions{DrainWait: -1}, Storage: StorageOptions{ProjectionCopies: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := book.Run(t.Context(), Script{Code: "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := book.rotateVolume(t.Context(), "asked", systemActor); err != nil {
		t.Fatal(err)
	}
	book.opts.Storage.ProjectionCopies = 2 // after the start, so that only this test makes copies
	isChecked := false
	files := func() []string {
		list, err := filepath.Glob(filepath.Join(dir, "projection-copies", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	book.disk.SetReserve(1 << 60)
	began, err := book.copyIfDue(t.Context(), &isChecked)
	if !errors.Is(err, projections.ErrCopyStopped) || began.IsZero() || len(files()) > 0 {
		t.Errorf("without space: began %v, error %v, files %v", began, err, files())
	}
	book.disk.SetReserve(1)
	for late := time.Now().Add(time.Minute); ; { // the ledger takes writes again
		if began, err = book.copyIfDue(t.Context(), &isChecked); err == nil || time.Now().After(late) {
			break
		}
	}
	if err != nil || began.IsZero() || len(files()) != 1 {
		t.Errorf("with space: began %v, error %v, files %v", began, err, files())
	}
	if began, err = book.copyIfDue(t.Context(), &isChecked); err != nil || !began.IsZero() {
		t.Errorf("without need: began %v, error %v", began, err)
	}
}

// The size of the projections counts.
func TestSpaceOfCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	space, err := disk.Open(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	d := &Daybook{opts: Options{DataDir: dir}, disk: space}
	if err := d.checkCopySpace(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without projections: %v", err)
	}
	if err := os.WriteFile(d.projectionsFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if free, err := space.Free(); err != nil || free < 1<<20 {
		t.Skipf("%d bytes of the disk are free, error %v", free, err)
	}
	if err := d.checkCopySpace(); err != nil {
		t.Errorf("empty projections: %v", err)
	}
	if err := os.Truncate(d.projectionsFile(), 1<<43); err != nil {
		t.Skip(err) // no file of the file system can be larger than the disk
	}
	if err := d.checkCopySpace(); !errors.Is(err, projections.ErrCopyStopped) || !strings.Contains(err.Error(), "a copy needs 8796093022209") {
		t.Errorf("large projections: %v", err)
	}
}
