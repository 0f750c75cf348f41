// Package exhausted recognizes errors that say that the machine or the process has used
// up a resource: disk space, quota, descriptors, memory. Such an error is no damage of
// stored data, and the failed operation works again when more of the resource is
// available. exhausted.go is its only file.
package exhausted

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Resource is a resource that can be exhausted.
type Resource struct {
	errno syscall.Errno
	// text is the name of the error in the C library, Go and SQLite.
	text string
	// Reason says what is exhausted and what to do, in a sentence without a full stop.
	Reason string
	// Disk reports whether a write to the disk fails without the resource.
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

// Of returns the resource that err reports as exhausted, and whether there is one.
func Of(err error) (Resource, bool) {
	for _, r := range resources {
		if errors.Is(err, r.errno) {
			return r, true
		}
	}
	return Resource{}, false
}

// Is reports whether err reports an exhausted resource.
func Is(err error) bool {
	_, ok := Of(err)
	return ok
}

// In returns the resource that a text, such as a log line, reports as exhausted, and
// whether there is one.
func In(text string) (Resource, bool) {
	var found Resource
	for _, r := range resources {
		// Take the longest text, because one is the beginning of another.
		if len(r.text) > len(found.text) && strings.Contains(text, r.text) {
			found = r
		}
	}
	return found, found.text != ""
}

// probeCount is the number of descriptors that Descriptors opens.
const probeCount = 4

// Descriptors returns the reason why this process cannot open files now, or nil. It
// takes some microseconds.
func Descriptors() error {
	var open [probeCount]*os.File
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
