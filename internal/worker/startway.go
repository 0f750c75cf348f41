package worker

import (
	"errors"
	"slices"
	"syscall"
)

// startWay is how a worker is started. Where the system refuses one, the next remains.
type startWay int

const (
	// inNamespaces starts the worker in namespaces of its own, without a copy of this
	// process's page tables.
	inNamespaces startWay = iota
	// forked starts it in namespaces of its own by a fork: some systems let only the
	// parent map the user of a process.
	forked
	// inOurs starts it in the namespaces of this process.
	inOurs
)

// startWays are the ways to start a worker that the system permits. Only the spawner
// uses it.
type startWays struct {
	first startWay // those before it are refused
	used  bool     // a worker was started by the first
}

// try calls start with each way that may be permitted until one succeeds. It remembers
// what the system refuses.
//
// A shortage is no refusal. A client can cause one, and must not end the namespaces of
// workers that way: once a worker has namespaces, it fails the start.
func (s *startWays) try(start func(startWay) (*process, error)) (*process, error) {
	lasting := true
	for way := s.first; ; way++ {
		w, err := start(way)
		switch {
		case err == nil && lasting:
			s.first, s.used = way, true
			return w, nil
		case err == nil:
			return w, nil
		case way == inOurs || s.used && isErrno(err, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE):
			return nil, err
		}
		// The system returns ENOSPC when the user has as many namespaces as permitted.
		lasting = lasting && !isErrno(err, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.EUSERS)
	}
}

func isErrno(err error, list ...syscall.Errno) bool {
	return slices.ContainsFunc(list, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
