package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"daybook/internal/resources/exhausted"
)

// logger forwards the log of nats-server. Notices become debug records: the server
// announces every start and stop. The log is also the only place where the server
// reports that it can no longer write.
type logger struct {
	log        *slog.Logger
	unwritable context.CancelCauseFunc
	fatal      atomic.Pointer[string] // the first reason why the server does not start
}

func (l *logger) record(level slog.Level, format string, args []any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	if isOutside(text) {
		level = slog.LevelDebug // a client cannot fill the log
		if !l.log.Enabled(context.Background(), level) {
			return
		}
	}
	attrs := []slog.Attr{slog.String("message", text)}
	if m := explainLine(text); m != "" && !isClient(text) {
		attrs = append(attrs, slog.String("means", m))
	}
	l.log.LogAttrs(context.Background(), level, "nats-server", attrs...)
}

// indexMissing is the meaning of log lines about the index of a stream.
const indexMissing = "an index was not written at the last stop, as after a crash or on a full disk; the server rebuilds it from the messages"

// explainLine translates a log line about files into its consequence for the ledger and the
// required action. It returns "" for other lines.
func explainLine(text string) string {
	// This check comes first, because what cannot be read only because a resource is
	// exhausted is not damaged.
	if r, ok := exhausted.In(text); ok {
		if r.Disk {
			return r.Reason + "; the ledger takes writes again automatically: what was acknowledged is safe"
		}
		return r.Reason + "; the files of the ledger are not damaged"
	}
	for _, known := range []struct {
		words []string
		means string
	}{
		// These words come before those of damage, because the line may call the index corrupt.
		{[]string{"stream state from index", "Stream state corrupt"}, indexMissing},
		{[]string{"write error", "failed to store a msg", "out of space", "resources, will be DISABLED", "permission denied"},
			"the ledger cannot be written; free space on the disk or repair it, then restart the server: acknowledged events are safe"},
		{[]string{"corrupt", "checkMsgs", "loadBlock error", "internal inconsistency", "Error loading msg"},
			"files of the ledger are damaged; reading a damaged event or blob fails: restore the data directory from a backup"},
		{[]string{"metafile", "checksum file", "recreating stream", "could not be recovered"},
			"the configuration of a stream or consumer is damaged, and the server ignores it: restore the data directory from a backup"},
		{[]string{"Stream state ", "state is outdated"}, indexMissing},
	} {
		for _, w := range known.words {
			if strings.Contains(text, w) {
				return known.means
			}
		}
	}
	return ""
}

// isClient reports whether a line is about a connection. Such a line contains text that
// the client chose: its name and subjects. The server may pass that text as a format. The
// line contains nothing about files.
func isClient(text string) bool { return strings.Contains(text, " - cid:") }

// isOutside reports whether a line is about a connection from outside the process.
func isOutside(text string) bool { return isClient(text) && !strings.HasPrefix(text, "pipe - ") }

// watch detects the lines that the server logs when it disables a stream or all of
// them: after a failed write, and after one that was not permitted.
func (l *logger) watch(format string, args []any) {
	if isClient(format) || !strings.Contains(strings.ToLower(format), "critical write error") && !strings.Contains(format, "disabling JetStream") && !strings.Contains(format, "DISABLED") {
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

// Fatalf does not end the process: the server does not become ready, and Start returns
// an error with this text.
func (l *logger) Fatalf(format string, args ...any) {
	l.record(slog.LevelError, format, args)
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	l.fatal.CompareAndSwap(nil, &text)
}

// startFailure returns the logged reason why the server did not start.
func (l *logger) startFailure() string {
	text := l.fatal.Load()
	switch {
	case text == nil:
		return "see its log"
	case explainLine(*text) == "":
		return *text
	default:
		return *text + ": " + explainLine(*text)
	}
}

func (l *logger) Debugf(string, ...any) {}
func (l *logger) Tracef(string, ...any) {}
