package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
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
