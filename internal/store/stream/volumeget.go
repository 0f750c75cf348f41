package stream

import (
	"context"
	"errors"
	"slices"

	"daybook/events"
	"daybook/internal/store/jet"
)

// getFromVolume is getOne for a volume whose stream may be removed, also during the call.
func (s *Ledger) getFromVolume(ctx context.Context, v volume, r jet.Request) (events.Stored, error) {
	if v.segment() == nil {
		m, err := s.getOne(ctx, v.stream(), r)
		if v, err = s.reloadIfGone(ctx, v, err); v.segment() == nil {
			return m, err
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
// call. It then continues behind the messages that it has read. For a volume without a stream,
// pending may be too low. It is not 0 if more messages match a request by subject.
func (s *Ledger) getBatchFromVolume(ctx context.Context, v volume, r jet.Request, fn func(m events.Stored) error) (pending uint64, err error) {
	var got partOfBatch
	if v.segment() == nil {
		var failed error
		pending, err := s.getBatch(ctx, v.stream(), r, func(m events.Stored) error {
			got.add(r, m)
			failed = fn(m)
			return failed
		})
		switch {
		case failed != nil || err == nil && got.n > 0:
			return pending, err
		case err == nil:
			v, _ = s.reloadIfGone(ctx, v, events.ErrNotFound)
		default:
			v, err = s.reloadIfGone(ctx, v, err)
		}
		if v.segment() == nil {
			return pending, err
		}
	}
	return getRest(ctx, v.segment(), r, got, fn)
}

// partOfBatch describes the messages of a batch that were read from a stream before it was
// deleted.
type partOfBatch struct {
	n    int
	last uint64   // position of the newest one
	seqs []uint64 // positions, for requests of the newest messages of subjects
}

func (p *partOfBatch) add(r jet.Request, m events.Stored) {
	p.n, p.last = p.n+1, m.Seq
	if len(r.MultiLast) > 0 {
		p.seqs = append(p.seqs, m.Seq)
	}
}

// getRest calls fn for the messages of a batch behind those that were read before.
func getRest(ctx context.Context, from segment, r jet.Request, got partOfBatch, fn func(m events.Stored) error) (pending uint64, err error) {
	isComplete := false
	if got.n > 0 && len(r.MultiLast) == 0 {
		isComplete = got.n >= r.Batch
		r.Seq, r.Batch = got.last+1, max(r.Batch-got.n, 1)
	}
	list, more, err := from.get(ctx, r)
	if err != nil {
		return 0, err
	}
	if isComplete {
		return uint64(len(list) + more), nil
	}
	for _, m := range list {
		if slices.Contains(got.seqs, m.Seq) {
			continue
		}
		if err := fn(m); err != nil {
			return 0, err
		}
	}
	return uint64(more), nil
}

// reloadIfGone returns the current state of a volume if err shows that its stream was
// deleted, because the volume was archived or removed. Otherwise it returns its arguments.
// A server that deletes a stream while it receives a request for it may never answer, or
// answer that it holds no message.
func (s *Ledger) reloadIfGone(ctx context.Context, v volume, err error) (volume, error) {
	isMissing := errors.Is(err, events.ErrNotFound) || errors.Is(err, jet.ErrHidden)
	isUnanswered := ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
	if !isMissing && !jet.IsStreamGone(err) && !isUnanswered || v.number >= s.volumes().active().number {
		return v, err // the stream of the active volume stays; v.sealed may be out of date
	}
	now := s.volumeByNumber(v.number)
	if now.segment() == nil && (!isMissing || s.isDeleted(ctx, now)) {
		s.Reload(ctx) // another process may have archived or removed it
		now = s.volumeByNumber(v.number)
	}
	if now.segment() != nil {
		return now, nil
	}
	return v, err
}

// isDeleted reports whether another process may have deleted the stream of a sealed volume: its
// last message cannot be read.
func (s *Ledger) isDeleted(ctx context.Context, v volume) bool {
	if s.opts.Exclusive || s.isUnreadable(v.stream(), v.last) {
		return false
	}
	_, err := s.jet.Get(ctx, v.stream(), jet.Request{Seq: v.last})
	return err != nil && ctx.Err() == nil
}
