package cli

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// The error of a data directory that this user cannot write has advice. Errors of other files
// and of other kinds have none.
func TestErrorOfAReadOnlyDataDirectory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path   string
		cause  syscall.Errno
		advice bool
	}{
		{"/data", syscall.EACCES, true},
		{"/data/start.lock", syscall.EROFS, true},
		{"/data/audit/key", syscall.EPERM, true},
		{"/data/start.lock", syscall.ENOSPC, false},
		{"/database/file", syscall.EACCES, false},
		{"/etc/key.pem", syscall.EACCES, false},
	} {
		err := fmt.Errorf("open lock: %w", &fs.PathError{Op: "open", Path: test.path, Err: test.cause})
		got := dataDirError(err, "/data/")
		if advice := strings.Contains(got.Error(), "--data-dir"); advice != test.advice || !strings.HasPrefix(got.Error(), err.Error()) || advice && exitStatus(got, io.Discard) != exitUsage {
			t.Errorf("%s, %v: %v", test.path, test.cause, got)
		}
	}
	if dataDirError(nil, "/data") != nil {
		t.Error("an error without a cause")
	}
}
