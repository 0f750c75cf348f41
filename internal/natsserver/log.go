package natsserver

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// logger passes the server's log on. The server's notices are our debug
// records: it announces every start and stop.
type logger struct{ log *slog.Logger }

func (l *logger) record(level slog.Level, format string, args []any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	l.log.Log(context.Background(), level, "nats-server", slog.String("message", text))
}

func (l *logger) Noticef(format string, args ...any) { l.record(slog.LevelDebug, format, args) }
func (l *logger) Warnf(format string, args ...any)   { l.record(slog.LevelWarn, format, args) }
func (l *logger) Errorf(format string, args ...any)  { l.record(slog.LevelError, format, args) }

// Fatalf only records: the server then fails to become ready, and Start says so.
func (l *logger) Fatalf(format string, args ...any) { l.record(slog.LevelError, format, args) }
func (l *logger) Debugf(string, ...any)             {}
func (l *logger) Tracef(string, ...any)             {}
