package worker

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
)

// A way that the system refuses is not tried again. A way that fails for a shortage is.
func TestStartWays(t *testing.T) {
	t.Parallel()
	var s startWays
	start := func(answers ...error) {
		t.Helper()
		var tried []startWay
		first := s.first
		_, err := s.try(func(way startWay) (*process, error) {
			tried = append(tried, way)
			if err := answers[len(tried)-1]; err != nil {
				return nil, fmt.Errorf("start worker: %w", err)
			}
			return &process{}, nil
		})
		if last := answers[len(answers)-1]; len(tried) != len(answers) || tried[0] != first || !errors.Is(err, last) || !slices.IsSorted(tried) {
			t.Errorf("after %v the ways %v are tried: %v", answers, tried, err)
		}
	}
	want := func(first startWay) {
		t.Helper()
		if s.first != first {
			t.Errorf("the first way is %d, want %d", s.first, first)
		}
	}
	start(syscall.ENOMEM, syscall.ENOMEM, nil) // this system may always lack it
	want(inNamespaces)
	start(syscall.EPERM, syscall.EPERM, syscall.EPERM)
	want(inNamespaces)
	start(nil)
	for _, err := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		start(err)
	}
	start(syscall.ENOSPC, syscall.ENOSPC, nil)
	start(syscall.EPERM, syscall.ENOSPC, nil)
	want(inNamespaces)
	start(syscall.EPERM, nil)
	want(forked)
	start(syscall.EMFILE)
	start(syscall.EACCES, nil)
	want(inOurs)
	start(syscall.EACCES)
}
