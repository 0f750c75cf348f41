package stream

import (
	"context"

	"daybook/events"
	"daybook/internal/store/jet"
)

// getFromVolume is getOne for a volume that may be removed, also during the call.
func (s *Ledger) getFromVolume(ctx context.Context, v volume, r jet.Request) (events.Stored, error) {
	if v.removed == nil {
		m, err := s.getOne(ctx, v.stream(), r)
		if v, err = s.reloadIfRemoved(ctx, v, err); v.removed == nil {
			return m, err
		}
	}
	if list, _ := v.removed.get(r); len(list) > 0 {
		return list[0], nil
	}
	return events.Stored{}, events.ErrNotFound
}

// GetIn returns one message of a volume, or events.ErrNotFound. The volume may be
// removed, also during the call.
func (s *Ledger) GetIn(ctx context.Context, n events.Volume, r jet.Request) (events.Stored, error) {
	return s.getFromVolume(ctx, s.volumeByNumber(n), r)
}

// GetBatchIn requests many messages of a volume and calls fn for each, in order of
// position. It returns how many more there are. The volume may be removed, also during
// the call.
func (s *Ledger) GetBatchIn(ctx context.Context, n events.Volume, r jet.Request, fn func(m events.Stored) error) (pending uint64, err error) {
	return s.getBatchFromVolume(ctx, s.volumeByNumber(n), r, fn)
}

// getWithVolumesLocked is getFromVolume for callers that hold volumesMu; no volume can
// be removed during the call.
func (s *Ledger) getWithVolumesLocked(ctx context.Context, v volume, r jet.Request) (events.Stored, error) {
	if v.removed == nil {
		return s.getOne(ctx, v.stream(), r)
	}
	return s.getFromVolume(ctx, v, r)
}

// getBatchFromVolume is getBatch for a volume that may be removed, also during the
// call. If it is removed after some messages were read, getBatchFromVolume returns an
// error.
func (s *Ledger) getBatchFromVolume(ctx context.Context, v volume, r jet.Request, fn func(m events.Stored) error) (pending uint64, err error) {
	if v.removed == nil {
		some := false
		pending, err := s.getBatch(ctx, v.stream(), r, func(m events.Stored) error {
			some = true
			return fn(m)
		})
		if some {
			return pending, err
		}
		if v, err = s.reloadIfRemoved(ctx, v, err); v.removed == nil {
			return pending, err
		}
	}
	list, more := v.removed.get(r)
	for _, m := range list {
		if err := fn(m); err != nil {
			return 0, err
		}
	}
	return uint64(more), nil
}

// reloadIfRemoved returns the current state of a volume if err shows that its stream
// was removed. Otherwise it returns its arguments.
func (s *Ledger) reloadIfRemoved(ctx context.Context, v volume, err error) (volume, error) {
	if !jet.IsStreamGone(err) || v.number >= s.volumes().active().number {
		return v, err // only sealed volumes are removed; v.sealed may be out of date
	}
	if now := s.volumes().list[0]; now.removed == nil || now.number < v.number {
		s.refreshRemovals(ctx) // another process may have removed it
	}
	if now := s.volumes().list[0]; now.removed != nil && now.number >= v.number {
		return now, nil
	}
	return v, err
}
