package exhausted_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"daybook/internal/resources/exhausted"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "disk is full", syscall.EDQUOT: "quota", syscall.EFBIG: "ulimit -f",
		syscall.EMFILE: "process has too many files", syscall.ENFILE: "machine has too many files", syscall.ENOMEM: "out of memory",
	} {
		err := fmt.Errorf("do: %w", &fs.PathError{Op: "open", Path: "1.blk", Err: errno})
		if r, ok := exhausted.Of(err); !ok || !strings.Contains(r.Reason, want) {
			t.Errorf("Of(%v) is %+v, %v", err, r, ok)
		}
		if r, ok := exhausted.In("Critical write error: " + err.Error()); !ok || !strings.Contains(r.Reason, want) {
			t.Errorf("In(%v) is %+v, %v", err, r, ok)
		}
	}
	for _, err := range []error{nil, errors.New("corrupt"), syscall.EIO, syscall.EACCES} {
		if exhausted.Is(err) {
			t.Errorf("%v exhausts something", err)
		}
	}
	if r, ok := exhausted.In("message block data missing"); ok {
		t.Errorf("In: %+v", r)
	}
	if err := exhausted.Descriptors(); err != nil {
		t.Errorf("Descriptors: %v", err)
	}
}
