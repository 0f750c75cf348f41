package worker

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Each run asks for a fresh worker. During a shortage the first failure is logged, then one a minute
// with the number of the others. Failures with another cause are all logged.
func TestWarningsOfAShortage(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer p.Close()
	now := time.Now()
	for range 5*60 + 1 {
		p.warnNotStarted(fmt.Errorf("start worker: %w", syscall.EMFILE), now)
		now = now.Add(time.Second)
	}
	if n := strings.Count(log.String(), "\n"); n != 6 || strings.Count(log.String(), "equal_since_last=59") != 5 {
		t.Errorf("%d lines are logged in five minutes:\n%s", n, log.String())
	}
	log.Reset()
	for range 2 {
		p.warnNotStarted(syscall.ENOENT, now)
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d failures of 2 for another cause are logged", n)
	}
}
