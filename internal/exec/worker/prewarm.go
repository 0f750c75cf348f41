package worker

import (
	"fmt"

	"daybook/internal/exec/v8"
)

// prewarmedIsolate is an isolate that is created before its run is known: restoring the base
// heap takes a fifth of the time of a small run. No user code has run in its context. Its seed,
// clock and output are assigned when the run is known. The process can have one isolate only, so
// one that does not fit the run is disposed of first.
//
// The isolate of a stateless run serves the next one with a new context. The worker of a tenant
// runs only scripts of this tenant, and the limits of a worker's runs and age are also those of
// its isolate.
//
// The isolate may also be restored from the heap that the last run saved, if the parent asks for
// that: the next run of a session starts from this heap.
type prewarmedIsolate struct {
	isolate    *v8.Isolate
	config     v8.Config  // that isolate was created with, without its heap
	nextConfig *v8.Config // for the next one, nil for none

	// saved is the heap that the last run saved, or nil if it is not kept. isolate, if there is
	// one, was then restored from it, carried is the report on it, and the bytes are released.
	saved       *heapBody
	savedConfig v8.Config
	carried     *v8.Carried // nil if the inspection was stopped by the heap limit
}

// prepare creates the isolate if the last run started from the base heap. It ignores a
// failure: the next run tries again and reports its own.
func (s *prewarmedIsolate) prepare() {
	if s.isolate != nil || s.nextConfig == nil {
		return
	}
	if isolate, err := v8.New(*s.nextConfig); err == nil {
		s.isolate, s.config = isolate, *s.nextConfig
	}
}

// keep keeps the heap that a run with the limits of cfg saved. The parent decides with the same
// limit whether there is one.
func (s *prewarmedIsolate) keep(heap []byte, cfg v8.Config) {
	if len(heap) == 0 || len(heap) > maxAheadHeap {
		return
	}
	s.nextConfig = nil // the process has one isolate
	s.saved = &heapBody{bytes: append([]byte(nil), heap...)}
	s.savedConfig = limitsOf(cfg)
}

func limitsOf(cfg v8.Config) v8.Config {
	return v8.Config{Plain: cfg.Plain, HeapLimit: cfg.HeapLimit, BufferLimit: cfg.BufferLimit}
}

// restore restores the kept heap and inspects it, as a run does before its script. It ignores a
// failure, as prepare does.
func (s *prewarmedIsolate) restore() {
	if s.saved == nil || s.isolate != nil {
		return
	}
	isolate, err := s.newFromSaved()
	if err != nil {
		return
	}
	s.isolate, s.config = isolate, s.savedConfig
	if carried, err := isolate.Inspect(); err == nil {
		s.carried = &carried
	}
}

func (s *prewarmedIsolate) newFromSaved() (*v8.Isolate, error) {
	cfg := s.savedConfig
	cfg.Heap = s.saved.bytes
	isolate, err := v8.New(cfg)
	if err == nil {
		s.saved.release() // the isolate has a copy
	}
	return isolate, err
}

// drop forgets the kept heap and disposes of the isolate that was restored from it.
func (s *prewarmedIsolate) drop() {
	if s.saved == nil {
		return
	}
	s.saved.release()
	s.saved, s.carried = nil, nil
	if s.isolate != nil {
		s.isolate.Dispose()
		s.isolate = nil
	}
}

// takeSaved returns an isolate with the kept heap for a run. If it was restored ahead, inspected
// is set, and carried is the report on the heap, or nil if there is none. The caller MUST pass
// the isolate to giveBack.
func (s *prewarmedIsolate) takeSaved(cfg v8.Config) (isolate *v8.Isolate, carried *v8.Carried, inspected bool, err error) {
	if want := limitsOf(cfg); s.saved == nil || want.Plain || want.HeapLimit != s.savedConfig.HeapLimit || want.BufferLimit != s.savedConfig.BufferLimit {
		return nil, nil, false, fmt.Errorf("%w: a task from a heap that this worker does not keep", errProtocol)
	}
	isolate, carried, inspected = s.isolate, s.carried, s.isolate != nil
	if isolate == nil {
		isolate, err = s.newFromSaved()
	}
	s.isolate, s.carried, s.saved, s.nextConfig = nil, nil, nil, nil
	if err == nil {
		err = isolate.Assign(cfg)
	}
	return isolate, carried, inspected, err
}

// take returns an isolate for a run. The caller MUST pass it to giveBack.
func (s *prewarmedIsolate) take(cfg v8.Config) (*v8.Isolate, error) {
	s.drop()
	isolate := s.isolate
	s.isolate, s.nextConfig = nil, nil
	if len(cfg.Heap) == 0 {
		next := limitsOf(cfg)
		s.nextConfig = &next
	}
	if isolate == nil {
		return v8.New(cfg)
	}
	if len(cfg.Heap) == 0 && cfg.Plain == s.config.Plain && cfg.HeapLimit == s.config.HeapLimit && cfg.BufferLimit == s.config.BufferLimit {
		return isolate, isolate.Assign(cfg)
	}
	isolate.Dispose()
	return v8.New(cfg)
}

// giveBack renews the isolate of a run that was reported, or disposes of it if it cannot serve
// another run.
func (s *prewarmedIsolate) giveBack(isolate *v8.Isolate) {
	if s.nextConfig == nil || !isolate.Renew() {
		isolate.Dispose()
		return
	}
	s.isolate, s.config = isolate, *s.nextConfig
}
