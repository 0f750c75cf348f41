package embed

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/internal/resources/disk"
)

// logLines receives the lines of a log.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default: // the test has ended
	}
	return len(line), nil
}

// A server whose disk becomes full keeps the ballast: the space is for the next start.
func TestRunningServerKeepsItsBallast(t *testing.T) {
	t.Parallel()
	dir, lines := t.TempDir(), make(logLines, 1000)
	book, err := Start(t.Context(), Options{DataDir: dir, Runs: RunOptions{Elsewhere: true}, NATS: NATSOptions{NoSync: true}, Logger: slog.New(slog.NewTextHandler(lines, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	}()
	logged := func(text string) {
		t.Helper()
		for late := time.After(30 * time.Second); ; {
			select {
			case line := <-lines:
				if strings.Contains(line, text) {
					return
				}
			case <-late:
				t.Fatalf("not logged: %s", text)
			}
		}
	}
	book.disk.SetReserve(1)
	path := filepath.Join(dir, disk.BallastName)
	before, err := os.Stat(path)
	if err != nil {
		t.Skipf("the disk of this machine is full: %v", err)
	}
	book.disk.SetReserve(1 << 60)
	logged("no new runs are accepted")
	book.disk.SetReserve(1)
	// This log record comes after all actions of the server on a full disk.
	logged("new runs are accepted")
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("the running server deleted the ballast: %v", err)
	}
}
