package httpapi

import (
	"context"
	"daybook/events"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A client that disconnects or is too slow causes no log line above DEBUG.
func TestLevelOfLoggedFailures(t *testing.T) {
	t.Parallel()
	left, leave := context.WithCancel(t.Context())
	leave()
	for name, test := range map[string]struct {
		ctx  context.Context
		err  error
		want string
	}{
		"the client left":     {left, errors.New("x"), "DEBUG"},
		"a reset connection":  {t.Context(), fmt.Errorf("write: %w", &net.OpError{Op: "write", Err: syscall.ECONNRESET}), "DEBUG"},
		"a slow client":       {t.Context(), fmt.Errorf("write: %w", os.ErrDeadlineExceeded), "DEBUG"},
		"a ledger that fails": {t.Context(), errors.New("x"), "WARN"},
		"a late read":         {t.Context(), fmt.Errorf("%w: x", errLate), "DEBUG"},
	} {
		var log strings.Builder
		a := &api{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		a.logFailure(test.ctx, "response ended early", test.err, "path", "/x")
		if !strings.Contains(log.String(), "level="+test.want) || !strings.Contains(log.String(), "path=/x") {
			t.Errorf("%s: %s", name, log.String())
		}
	}
}

// The message about content that cannot be read says no more than what is known.
func TestRemovedContent(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"the content was removed on purpose": fmt.Errorf("read: %w", events.ErrRemoved),
		"key was destroyed, or is missing":   fmt.Errorf("read: %w", events.ErrShredded),
		`"s" was shredded`:                   fmt.Errorf("read: %w", events.Shredded(`the content of session "s"`, 7, time.Unix(0, 0))),
	} {
		if f := removedFailure(err, subject{}); !strings.Contains(f.problem.Error, want) || f.problem.Status != http.StatusGone {
			t.Errorf("%v: %+v", err, f.problem)
		}
	}
}
