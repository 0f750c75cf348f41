package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
)

// brokeOff logs why a response ended early. The level is DEBUG for a client that
// disconnects or is cut off because it is too slow: clients can cause any number of
// such lines.
func (a *api) brokeOff(ctx context.Context, what string, err error, attrs ...any) {
	level := slog.LevelWarn
	if ctx.Err() != nil || isClientFault(err) {
		level = slog.LevelDebug
	}
	if errors.Is(err, errLate) {
		level = slog.LevelDebug // waitForPosition has counted it
	}
	a.log.Log(ctx, level, what, append(attrs, "error", err)...)
}

// isClientFault reports whether err is the error of a write to a client.
func isClientFault(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "write" || errors.Is(err, os.ErrDeadlineExceeded)
}
