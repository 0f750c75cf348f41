package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// logger passes the server's log on. The server's notices are our debug
// records: it announces every start and stop. The log is also the only place
// where the server tells that it can write no more.
type logger struct {
	log        *slog.Logger
	unwritable context.CancelCauseFunc
}

func (l *logger) record(level slog.Level, format string, args []any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	l.log.Log(context.Background(), level, "nats-server", slog.String("message", text))
}

// watch looks for the lines with which the server gives up a stream, or all of
// them: on a failed write, and on one that was not permitted.
func (l *logger) watch(format string, args []any) {
	if !strings.Contains(format, "critical write error") && !strings.Contains(format, "disabling JetStream") && !strings.Contains(format, "DISABLED") {
		return
	}
	cause := errors.New(strings.TrimSpace(fmt.Sprintf(format, args...)))
	if len(args) > 0 {
		if err, ok := args[len(args)-1].(error); ok {
			cause = err
		}
	}
	l.unwritable(cause)
}

func (l *logger) Noticef(format string, args ...any) { l.record(slog.LevelDebug, format, args) }

func (l *logger) Warnf(format string, args ...any) {
	l.record(slog.LevelWarn, format, args)
	l.watch(format, args)
}

func (l *logger) Errorf(format string, args ...any) {
	l.record(slog.LevelError, format, args)
	l.watch(format, args)
}

// Fatalf only records: the server then fails to become ready, and Start says so.
func (l *logger) Fatalf(format string, args ...any) { l.record(slog.LevelError, format, args) }
func (l *logger) Debugf(string, ...any)             {}
func (l *logger) Tracef(string, ...any)             {}
