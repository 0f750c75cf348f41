package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// ownerLogName is the file in the data directory that a background owner logs
	// to; it is private like everything there.
	ownerLogName = "owner.log"
	// maxOwnerLog bounds it, in bytes; one older file of that size is kept.
	maxOwnerLog = 1 << 20
)

func openOwnerLog(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, ownerLogName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of the background process: %w", err)
	}
	return f, nil
}

// boundedLog is the log of a background owner. Its standard error is the same
// file, for what the Go runtime writes.
type boundedLog struct {
	dir string

	mu   sync.Mutex
	file *os.File
	size int64
}

func newBoundedLog(dir string) (*boundedLog, error) {
	l := &boundedLog{dir: dir}
	return l, l.open()
}

// open opens the file. The caller must hold l.mu, or own l alone.
func (l *boundedLog) open() error {
	f, err := openOwnerLog(l.dir)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	if err := unix.Dup3(int(f.Fd()), unix.Stderr, 0); err != nil {
		f.Close()
		return fmt.Errorf("log to %s: %w", f.Name(), err)
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write appends to the log.
func (l *boundedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxOwnerLog && l.size > 0 {
		if err := l.rotate(l.file); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// rotate moves a full file aside. It does not sync: a power cut may undo the rename, and
// the file continues to grow until the next one. The caller must hold l.mu.
func (l *boundedLog) rotate(full *os.File) error {
	if err := os.Rename(full.Name(), full.Name()+".1"); err != nil {
		return fmt.Errorf("move the log of the background process aside: %w", err)
	}
	if err := l.open(); err != nil {
		return err
	}
	return full.Close()
}

// Close closes the log.
func (l *boundedLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
