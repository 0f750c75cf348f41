package stream

import (
	"context"
	"errors"

	"daybook/events"
	"daybook/internal/store/jet"
)

// getFromVolume is getOne for a volume whose stream may be removed, also during the call.
func (s *Ledger) getFromVolume(ctx context.Context, v volume, r jet.Request) (events.Stored, error) {
	if v.segment() == nil {
		m, err := s.getOne(ctx, v.stream(), r)
		if v, err = s.reloadIfGone(ctx, v, err); v.segment() == nil {
			if v = s.switched(v, err); v.segment() == nil {
				return m, err
			}
		}
	}
	list, _, err := v.segment().get(ctx, r)
	switch {
	case err != nil:
		return events.Stored{}, err
	case len(list) > 0:
		return list[0], nil
	}
	return events.Stored{}, events.ErrNotFound
}

// GetIn returns one message of a volume, or events.ErrNotFound. The stream of the volume
// may be removed, also during the call.
func (s *Ledger) GetIn(ctx context.Context, n events.Volume, r jet.Request) (events.Stored, error) {
	return s.getFromVolume(ctx, s.volumeByNumber(n), r)
}

// GetBatchIn requests many messages of a volume and calls fn for each, in order of
// position. It returns how many more there are. The stream of the volume may be removed,
// also during the call.
func (s *Ledger) GetBatchIn(ctx context.Context, n events.Volume, r jet.Request, fn func(m events.Stored) error) (pending uint64, err error) {
	return s.getBatchFromVolume(ctx, s.volumeByNumber(n), r, fn)
}

// getWithVolumesLocked is getFromVolume for callers that hold volumesMu; no volume can
// be removed during the call.
func (s *Ledger) getWithVolumesLocked(ctx context.Context, v volume, r jet.Request) (events.Stored, error) {
	if v.segment() == nil {
		return s.getOne(ctx, v.stream(), r)
	}
	return s.getFromVolume(ctx, v, r)
}

// getBatchFromVolume is getBatch for a volume whose stream may be removed, also during the
// call. If it is removed after some messages were read, getBatchFromVolume returns an
// error. For a volume without a stream, pending may be too low, but not 0.
func (s *Ledger) getBatchFromVolume(ctx context.Context, v volume, r jet.Request, fn func(m events.Stored) error) (pending uint64, err error) {
	if v.segment() == nil {
		some := false
		pending, err := s.getBatch(ctx, v.stream(), r, func(m events.Stored) error {
			some = true
			return fn(m)
		})
		if some {
			return pending, err
		}
		if v, err = s.reloadIfGone(ctx, v, err); v.segment() == nil {
			if v = s.switched(v, events.ErrNotFound); v.segment() == nil {
				return pending, err
			}
		}
	}
	list, more, err := v.segment().get(ctx, r)
	if err != nil {
		return 0, err
	}
	for _, m := range list {
		if err := fn(m); err != nil {
			return 0, err
		}
	}
	return uint64(more), nil
}

// switched returns the current state of a volume if err is events.ErrNotFound: a server that is
// deleting a stream may answer that it holds no message. Otherwise it returns v.
func (s *Ledger) switched(v volume, err error) volume {
	if !errors.Is(err, events.ErrNotFound) {
		return v
	}
	if now := s.volumeByNumber(v.number); now.segment() != nil {
		return now
	}
	return v
}

// reloadIfGone returns the current state of a volume if err shows that its stream was
// deleted, because the volume was archived or removed. Otherwise it returns its arguments.
// A server that deletes a stream while it receives a request for it may never answer.
func (s *Ledger) reloadIfGone(ctx context.Context, v volume, err error) (volume, error) {
	isUnanswered := ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
	if !jet.IsStreamGone(err) && !isUnanswered || v.number >= s.volumes().active().number {
		return v, err // the stream of the active volume stays; v.sealed may be out of date
	}
	now := s.volumeByNumber(v.number)
	if now.segment() == nil {
		s.Reload(ctx) // another process may have archived or removed it
		now = s.volumeByNumber(v.number)
	}
	if now.segment() != nil {
		return now, nil
	}
	return v, err
}
