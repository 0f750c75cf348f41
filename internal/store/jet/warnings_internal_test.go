package jet

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Without descriptors each follower of the ledger fails five times per second. The log
// has the first failure, and then one line per minute with the number of the others.
// Another cause is logged at once.
func TestRepeatedWarnings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := warnings{log: slog.New(slog.NewTextHandler(&log, nil))}
		const minutes, each = 10, 300
		for n := range minutes*each + 1 {
			starved := fmt.Errorf("get position %d: %w", n, syscall.EMFILE)
			w.warn(t.Context(), "following the ledger", starved, "after", n)
			time.Sleep(time.Minute / each)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != minutes+1 || strings.Contains(lines[0], "equal_since_last") {
			t.Fatalf("%d lines are logged in %d minutes:\n%s", len(lines), minutes, log.String())
		}
		for _, line := range lines[1:] {
			if !strings.Contains(line, fmt.Sprintf("equal_since_last=%d", each-1)) || !strings.Contains(line, "too many open files") {
				t.Errorf("a minute later: %s", line)
			}
		}
		log.Reset()
		w.warn(t.Context(), "following the ledger", errors.New("no server answers"))
		w.warn(t.Context(), "looking for the next volume", syscall.EMFILE)
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d other warnings of 2 are logged:\n%s", n, log.String())
		}
		for n := range 10 * maxWarnings {
			w.warn(t.Context(), "following the ledger", fmt.Errorf("cause %d", n))
		}
		if len(w.logged) > maxWarnings {
			t.Errorf("%d warnings are kept", len(w.logged))
		}
	})
}
