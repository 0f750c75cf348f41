package background

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// logName is the log file of a background owner in the data directory. Only
	// the user who started the owner can read it.
	logName = "owner.log"
	// maxLog is the maximum size of the file, in bytes. One older file of this
	// size is kept.
	maxLog = 1 << 20
)

func openFile(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of the background process: %w", err)
	}
	return f, nil
}

// Log is the log of a background owner. The standard error of the process is the
// same file, for messages of the Go runtime.
type Log struct {
	dir string

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLog opens the log in a data directory, and makes it the standard error of the process.
func OpenLog(dir string) (*Log, error) {
	l := &Log{dir: dir}
	return l, l.open()
}

// open opens the file. The caller MUST hold l.mu or be the only user of l.
func (l *Log) open() error {
	f, err := openFile(l.dir)
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

// Write appends to the log. It is safe for concurrent use.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxLog && l.size > 0 {
		if err := l.rotate(l.file); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// rotate renames a full file. It does not sync: after a power cut the old name may be
// back, and the file grows until the next rotation. The caller MUST hold l.mu.
func (l *Log) rotate(full *os.File) error {
	if err := os.Rename(full.Name(), full.Name()+".1"); err != nil {
		return fmt.Errorf("move the log of the background process aside: %w", err)
	}
	if err := l.open(); err != nil {
		return err
	}
	return full.Close()
}

// Close closes the log. The standard error stays open.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
