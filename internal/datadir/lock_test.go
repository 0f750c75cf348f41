package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// A lock is refused while its holder lives. If the holder ended and only a child of it
// still has the file open, TakeLock waits for the child.
func TestLockOfADeadProcess(t *testing.T) {
	dir := t.TempDir()
	held, err := TakeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLock(dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("the holder is alive: %v, want ErrLocked", err)
	}
	// No process has the highest possible id.
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(strconv.Itoa(1<<22)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(1<<22, 0); !errors.Is(err, unix.ESRCH) {
		t.Skipf("process %d exists", 1<<22)
	}
	type taken struct {
		lock *Lock
		err  error
	}
	done := make(chan taken, 1)
	go func() {
		l, err := TakeLock(dir)
		done <- taken{l, err}
	}()
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	if err := got.lock.Release(); err != nil {
		t.Fatal(err)
	}
}
