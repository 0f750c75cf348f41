package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked is returned if another process owns the data directory.
var ErrLocked = errors.New("the data directory is in use by another process")

// Lock is an advisory lock on a data directory or a file. The kernel releases it when the
// process ends for any reason.
type Lock struct{ file *os.File }

// TakeLock makes this process the owner of a directory. It returns ErrLocked while another
// process is the owner. The caller releases the lock.
func TakeLock(dir string) (*Lock, error) {
	lock, pid, err := take(filepath.Join(dir, "lock"))
	if pid >= 0 {
		return nil, LockedError(dir, pid)
	}
	return lock, err
}

// ErrFileLocked is returned if another process uses a file.
var ErrFileLocked = errors.New("the file is in use by another process")

// TakeFileLock makes this process the only one that uses a file. The lock is another file, with the suffix
// ".lock". TakeFileLock returns ErrFileLocked while another process has the lock. The caller releases the lock.
func TakeFileLock(path string) (*Lock, error) {
	lock, pid, err := take(path + ".lock")
	if pid >= 0 {
		return nil, fmt.Errorf("%s: %w (process %d)", path, ErrFileLocked, pid)
	}
	return lock, err
}

// take takes the lock in a file. If another process has it, take returns the id of that process, or 0 if that is not
// known, otherwise -1.
func take(path string) (lock *Lock, pid int, err error) {
	f, err := openLock(path)
	if err != nil {
		return nil, -1, err
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, holderPID(f), nil
		}
		return nil, -1, fmt.Errorf("lock %s: %w", path, err)
	}
	// A process that finds the lock taken reports the process id, and flock checks whether the process exists.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return &Lock{file: f}, -1, nil
}

// Probe returns ErrLocked while a process owns the directory.
func Probe(dir string) error {
	f, err := openLock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	lock := &Lock{file: f}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		defer f.Close()
		return LockedError(dir, holderPID(f))
	case err != nil:
		f.Close()
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return lock.Release()
}

// IsLocked reports whether a process owns a directory or is about to own it.
func IsLocked(dir string) bool {
	for _, name := range []string{"lock", startLockName} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		f.Close() // closing releases the lock
		if errors.Is(err, unix.EWOULDBLOCK) {
			return true
		}
	}
	return false
}

// LockedError returns an ErrLocked that names the directory and the process that owns it.
func LockedError(dir string, pid int) error {
	return fmt.Errorf("%s: %w (process %d); stop it, or choose another --data-dir", dir, ErrLocked, pid)
}

func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return f, nil
}

// TakeStartLock takes the lock to start an owner of a directory in the background, or to
// take the directory over from one. It returns nil while another process has the lock.
func TakeStartLock(dir string) (*Lock, error) {
	path := filepath.Join(dir, startLockName)
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, f.Close()
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Lock{file: f}, nil
}

const startLockName = "start.lock"

// probeWait is the time for which a client may hold the lock to test whether it is
// free.
const probeWait = 100 * time.Millisecond

// flock takes the lock. If a process is killed while it starts a worker, the child
// holds the lock until it has become a worker, some milliseconds later. Therefore flock
// waits for a lock whose holder does not exist any more.
func flock(f *os.File) error {
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Since(start) > 5*time.Second {
			return err
		}
		if time.Since(start) < probeWait {
			continue
		}
		if pid := holderPID(f); pid == 0 || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			return err
		}
	}
}

// holderPID returns the process that wrote its id into the lock file, or 0.
func holderPID(f *os.File) int {
	var id [20]byte
	n, _ := f.ReadAt(id[:], 0)
	pid, _ := strconv.Atoi(string(id[:n]))
	return pid
}

// OwnerPID returns the process that owns a directory, or 0.
func OwnerPID(dir string) int {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return 0
	}
	defer f.Close()
	return holderPID(f)
}

// Release releases the lock. Closing the file is not enough: a child process that
// is being started elsewhere in the program shares the file until it executes another
// program, and would hold the lock until then.
func (l *Lock) Release() error {
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}
