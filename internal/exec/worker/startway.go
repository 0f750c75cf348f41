package worker

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// startWay is a way to start a worker. If the system refuses one, the next one is tried.
type startWay int

const (
	// inNamespaces starts the worker in namespaces of its own, without a copy of the
	// page tables of this process.
	inNamespaces startWay = iota
	// forked starts the worker in namespaces of its own by a fork. On some systems only
	// the parent may map the user of a process.
	forked
	// inOurs starts the worker in the namespaces of this process.
	inOurs
)

// startWays records which ways to start a worker the system permits. Only the goroutine
// of runSpawner uses it.
type startWays struct {
	first    startWay // the system refuses the ways before it
	isolated bool     // true once a worker was started in namespaces of its own
}

// try calls start with each way that may be permitted until one succeeds. Later calls
// skip the ways that the system refuses permanently.
//
// Once a worker has namespaces of its own, none is started without them: the layers of
// workers are recorded with each run and do not change during the life of the pool. A
// client can cause a shortage, which must not remove this layer from later workers.
func (s *startWays) try(start func(startWay) (*process, error)) (*process, error) {
	lasting := true
	for way := s.first; ; way++ {
		w, err := start(way)
		if err == nil {
			if lasting {
				s.first = way
			}
			s.isolated = s.isolated || way != inOurs
			return w, nil
		}
		full := isErrno(err, syscall.ENOSPC, syscall.EUSERS) // no more namespaces
		short := isShort(err)
		switch {
		case s.isolated && way == forked && full:
			// The error is not wrapped: it does not say that the disk is full.
			return nil, fmt.Errorf("start worker: this user has as many namespaces as the system permits; raise user.max_user_namespaces, or start the server again: %s", err.Error())
		case way == inOurs, s.isolated && (way == forked || short):
			return nil, err
		}
		lasting = lasting && !full && !short
	}
}

// isShort reports whether a start failed because the process or the machine is short of
// descriptors, memory or processes.
func isShort(err error) bool {
	return isErrno(err, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE)
}

func isErrno(err error, list ...syscall.Errno) bool {
	return slices.ContainsFunc(list, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
