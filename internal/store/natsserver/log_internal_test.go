package natsserver

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"testing"
)

// A log line about files gets its meaning as an attribute.
func TestLogMeaning(t *testing.T) {
	t.Parallel()
	full := &fs.PathError{Op: "write", Path: "/data/1.blk", Err: syscall.ENOSPC}
	for _, test := range []struct {
		format string
		args   []any
		means  string // empty: nothing is added
		ends   error  // what ends Writable
	}{
		{"JetStream stream '%s > %s' critical write error: %v", []any{"$G", "LEDGER-0001", full}, "takes writes again automatically", full},
		{"Critical write error: %v", []any{full}, "takes writes again automatically", full},
		{"Filestore [%s] loadBlock error: corrupt? %v", []any{"LEDGER-0001", &fs.PathError{Op: "open", Path: "1.blk", Err: syscall.EMFILE}}, "not damaged", nil},
		{"Filesystem permission denied while writing msg, disabling JetStream: %v", []any{fs.ErrPermission}, "cannot be written", fs.ErrPermission},
		{"Filestore [%s] indexCacheBuf corrupt state in %s", []any{"LEDGER-0001", "1.blk"}, "restore the data directory", nil},
		{"  Error reading metafile %q: %v", []any{"meta.inf", errors.New("bad")}, "the server ignores it", nil},
		{"Filestore [%s] Stream state outdated, last block has additional entries, will rebuild", []any{"OBJ_BLOBS"}, "rebuilds it from the messages", nil},
		{"Filestore [%s] Recovering stream state from index errored: %v", []any{"LEDGER-0001", errors.New("corrupt state file")}, "rebuilds it from the messages", nil},
		{"Slow consumer of %s", []any{"events.>"}, "", nil},
		{`pipe - cid:14 - "v1:go:DISABLED no space left, critical write error" - Slow Consumer`, nil, "", nil},
	} {
		var out bytes.Buffer
		writable, unwritable := context.WithCancelCause(t.Context())
		l := &logger{log: slog.New(slog.NewTextHandler(&out, nil)), unwritable: unwritable}
		l.Errorf(test.format, test.args...)
		if got := out.String(); strings.Contains(got, "means=") != (test.means != "") || !strings.Contains(got, test.means) {
			t.Errorf("%q is logged as %s, want %q", test.format, got, test.means)
		}
		if cause := context.Cause(writable); !errors.Is(cause, test.ends) || (cause == nil) != (test.ends == nil) {
			t.Errorf("%q ends Writable with %v, want %v", test.format, cause, test.ends)
		}
		unwritable(nil)
	}
}

func TestWhyTheServerDidNotStart(t *testing.T) {
	t.Parallel()
	l := &logger{log: slog.New(slog.DiscardHandler)}
	if got := l.startFailure(); !strings.Contains(got, "its log") {
		t.Errorf("without a logged reason: %q", got)
	}
	l.Fatalf("Can't start JetStream: %v", "no space left on device")
	l.Fatalf("and so on")
	if got := l.startFailure(); !strings.Contains(got, "Can't start JetStream") || !strings.Contains(got, "free some space") || strings.Contains(got, "so on") {
		t.Errorf("the first reason is lost or has no meaning: %q", got)
	}
}
