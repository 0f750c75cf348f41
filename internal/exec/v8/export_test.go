package v8

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// NewWithPrelude creates an isolate that runs another prelude, so that tests can use the host object,
// which the real prelude hides.
func NewWithPrelude(cfg Config, prelude string) (*Isolate, error) {
	if err := start(); err != nil {
		return nil, err
	}
	return newIsolate(cfg, nil, []byte(prelude), false)
}

// ShapeOfRecord returns the lines that platform/record.js has to have; see prelude/86_intrinsics.
func ShapeOfRecord() (string, error) {
	prelude := strings.Replace(string(sources()[0].text), "\nreturn entry;", "\nentry.result = () => recording().shapeOfRecord();\nreturn entry;", 1)
	i, err := NewWithPrelude(Config{}, prelude)
	if err != nil {
		return "", err
	}
	defer i.Dispose()
	r, err := i.Run(Script{Source: []byte("1")})
	if err != nil || r.Text == nil {
		return "", fmt.Errorf("read the record: %v, %w", r.Status, err)
	}
	return *r.Text, nil
}

// TimeOfGlobals returns the CPU time that the part of Inspect for the global object takes on the
// isolate's thread.
func TimeOfGlobals(i *Isolate) time.Duration {
	began := threadTime()
	if _, err := i.inspectGlobals(); err != nil {
		panic(err)
	}
	return threadTime() - began
}

func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// SnapshotFormat is the version of the parts of a saved heap that this package defines.
const SnapshotFormat = snapshotFormat

// Errors of an Isolate.
var (
	ErrDisposed       = errDisposed
	ErrUnserializable = errUnserializable
)
