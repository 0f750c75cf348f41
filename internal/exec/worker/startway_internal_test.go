package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A way that the system refuses is not tried again. A way that failed because of a shortage is tried
// again. If a worker had namespaces of its own, later workers have them as well.
func TestStartWays(t *testing.T) {
	t.Parallel()
	var s startWays
	start := func(want error, answers ...error) {
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
		if len(tried) != len(answers) || tried[0] != first || !errors.Is(err, want) || !slices.IsSorted(tried) {
			t.Errorf("after %v the ways %v are tried: %v", answers, tried, err)
		}
	}
	want := func(first startWay) {
		t.Helper()
		if s.first != first {
			t.Errorf("the first way is %d, want %d", s.first, first)
		}
	}
	start(nil, syscall.ENOMEM, syscall.ENOMEM, nil) // no worker had namespaces, so the last way is permitted
	start(nil, syscall.ENOSPC, syscall.ENOSPC, nil)
	start(syscall.EACCES, syscall.EPERM, syscall.EPERM, syscall.EACCES)
	want(inNamespaces)
	start(nil, syscall.ENOMEM, nil)
	want(inNamespaces)
	for _, err := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		start(err, err)
	}
	start(syscall.EPERM, syscall.EPERM, syscall.EPERM)
	want(inNamespaces)
	start(nil, syscall.EPERM, nil)
	want(forked)
	start(syscall.EMFILE, syscall.EMFILE)
	start(syscall.EPERM, syscall.EPERM)
	_, err := s.try(func(startWay) (*process, error) { return nil, syscall.ENOSPC })
	if err == nil || errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "raise user.max_user_namespaces") {
		t.Errorf("without namespaces left: %v", err)
	}
	want(forked)

	s = startWays{}
	start(nil, syscall.EPERM, syscall.EACCES, nil)
	want(inOurs)
	start(syscall.EACCES, syscall.EACCES)
}
