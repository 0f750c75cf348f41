package embed

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// A lock is refused while its holder lives, and waited for when the holder is
// gone and only a child of its own still has the file open.
func TestLockOfADeadProcess(t *testing.T) {
	dir := t.TempDir()
	held, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("the holder is alive: %v, want ErrLocked", err)
	}
	// No process has the highest id there can be.
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(strconv.Itoa(1<<22)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(1<<22, 0); !errors.Is(err, unix.ESRCH) {
		t.Skipf("process %d exists", 1<<22)
	}
	type taken struct {
		lock *dirLock
		err  error
	}
	done := make(chan taken, 1)
	go func() {
		l, err := lockDir(dir)
		done <- taken{l, err}
	}()
	if err := held.release(); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	if err := got.lock.release(); err != nil {
		t.Fatal(err)
	}
}
