package worker

import "daybook/internal/exec/v8"

// prewarmedIsolate is an isolate that is created before its run is known: restoring the base
// heap takes a fifth of the time of a small run. No user code has run in it. Its seed, clock
// and output are assigned when the run is known. The process can have one isolate only, so
// one that does not fit the run is disposed of first.
type prewarmedIsolate struct {
	isolate    *v8.Isolate
	config     v8.Config  // that isolate was created with
	nextConfig *v8.Config // for the next one, nil for none
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

// take returns an isolate for a run. The caller MUST call Dispose.
func (s *prewarmedIsolate) take(cfg v8.Config) (*v8.Isolate, error) {
	isolate := s.isolate
	s.isolate, s.nextConfig = nil, nil
	if len(cfg.Heap) == 0 {
		s.nextConfig = &v8.Config{Plain: cfg.Plain, HeapLimit: cfg.HeapLimit, BufferLimit: cfg.BufferLimit}
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
