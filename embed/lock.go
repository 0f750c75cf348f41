package embed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrLocked is returned by Start when another process owns the data directory.
var ErrLocked = errors.New("the data directory is in use by another process")

// dirLock is an advisory lock on a data directory. The kernel drops it with
// the process, however that ends.
type dirLock struct{ file *os.File }

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			var pid [20]byte
			n, _ := f.Read(pid[:])
			return nil, fmt.Errorf("%s: %w (process %s); stop it, or choose another --data-dir", dir, ErrLocked, pid[:n])
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// The process id is only for the message above.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return &dirLock{file: f}, nil
}

func (l *dirLock) release() error { return l.file.Close() }
