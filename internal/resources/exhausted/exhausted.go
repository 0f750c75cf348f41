// Package exhausted recognizes errors that say that the machine or the process is
// out of something: disk space, quota, descriptors, memory. Such an error says
// nothing about stored data, and what failed works again once there is more.
package exhausted

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Resource is something to be out of.
type Resource struct {
	errno syscall.Errno
	// text is how the C library, Go and SQLite name it.
	text string
	// Reason is a sentence without an end: what is exhausted, and what to do.
	Reason string
	// Disk says that a write to the disk failed for it.
	Disk bool
}

var resources = []Resource{
	{syscall.ENOSPC, "no space left on device", "the disk is full; free some space", true},
	{syscall.EDQUOT, "disk quota exceeded", "the disk quota is used up; raise it or free some space", true},
	{syscall.EFBIG, "file too large", "a file has the largest size that this process may write; raise that limit (ulimit -f)", true},
	{syscall.EMFILE, "too many open files", "this process has too many files open; raise its limit (ulimit -n) or close connections", false},
	{syscall.ENFILE, "too many open files in system", "this machine has too many files open; raise fs.file-max or end other programs", false},
	{syscall.ENOMEM, "cannot allocate memory", "this machine is out of memory; free some or add to it", false},
}

// Of returns what an error says is exhausted, or false.
func Of(err error) (Resource, bool) {
	for _, r := range resources {
		if errors.Is(err, r.errno) {
			return r, true
		}
	}
	return Resource{}, false
}

// Is reports whether an error says that something is exhausted.
func Is(err error) bool {
	_, ok := Of(err)
	return ok
}

// In returns what a text, such as a log line, says is exhausted, or false.
func In(text string) (Resource, bool) {
	var found Resource
	for _, r := range resources {
		// The longest, because one is the beginning of another.
		if len(r.text) > len(found.text) && strings.Contains(text, r.text) {
			found = r
		}
	}
	return found, found.text != ""
}

// probed is how many descriptors Descriptors asks for.
const probed = 4

// Descriptors returns why this process cannot open files now, or nil. It costs some
// microseconds.
func Descriptors() error {
	var open [probed]*os.File
	defer func() {
		for _, f := range open {
			if f != nil {
				f.Close()
			}
		}
	}()
	for i := range open {
		f, err := os.Open(os.DevNull)
		if r, ok := Of(err); ok {
			return fmt.Errorf("%s (%w)", r.Reason, r.errno)
		}
		open[i] = f
	}
	return nil
}
