package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

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
			if v, err = s.reloadIfGone(ctx, v, events.ErrNotFound); errors.Is(err, events.ErrNotFound) {
				err = nil
			}
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
	n, bytes int    // bytes is the size of the bodies
	last     uint64 // position of the newest one
	// subjects has their subjects without the volume, for requests of the newest messages of
	// subjects. Of a removed volume, an older message of a subject may be kept.
	subjects []string
}

func (p *partOfBatch) add(r jet.Request, m events.Stored) {
	p.n, p.bytes, p.last = p.n+1, p.bytes+len(m.Body), m.Seq
	if len(r.MultiLast) > 0 {
		p.subjects = append(p.subjects, subjectOf(m))
	}
}

// subjectOf returns the subject of a message without its volume.
func subjectOf(m events.Stored) string {
	subject, _ := events.WithoutVolume(m.Subject)
	return subject
}

// getRest calls fn for the messages of a batch behind those that were read before.
func getRest(ctx context.Context, from segment, r jet.Request, got partOfBatch, fn func(m events.Stored) error) (pending uint64, err error) {
	isComplete := false
	if got.n > 0 && len(r.MultiLast) == 0 {
		isComplete = got.n >= r.Batch || r.MaxBytes > 0 && got.bytes >= r.MaxBytes
		r.Seq, r.Batch = got.last+1, max(r.Batch-got.n, 1)
		if r.MaxBytes > 0 {
			r.MaxBytes = max(r.MaxBytes-got.bytes, 1)
		}
	}
	list, more, err := from.get(ctx, r)
	if err != nil {
		return 0, err
	}
	if isComplete {
		return uint64(len(list) + more), nil
	}
	for _, m := range list {
		if slices.Contains(got.subjects, subjectOf(m)) {
			continue
		}
		if err := fn(m); err != nil {
			return 0, err
		}
	}
	return uint64(more), nil
}

// reloadIfGone returns the current state of a volume if err shows that its stream was
// deleted, because the volume was archived or removed. Otherwise it returns v and err.
// A server that deletes a stream while it receives a request for it may never answer, or
// answer that it holds no message. If such an answer cannot be confirmed, reloadIfGone
// returns another error in place of err.
func (s *Ledger) reloadIfGone(ctx context.Context, v volume, err error) (volume, error) {
	isMissing := errors.Is(err, events.ErrNotFound) || errors.Is(err, jet.ErrHidden)
	isUnanswered := ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
	if !isMissing && !jet.IsStreamGone(err) && !isUnanswered || v.number >= s.volumes().active().number {
		return v, err // the stream of the active volume stays; v.sealed may be out of date
	}
	now := s.volumeByNumber(v.number)
	if now.segment() == nil {
		if isMissing && s.isLastReadable(ctx, now) {
			return v, err
		}
		s.Reload(ctx) // another process may have archived or removed it
		now = s.volumeByNumber(v.number)
	}
	if now.segment() != nil {
		return now, nil
	}
	if isMissing { // Reload may not have found the archive
		if gone := s.checkHasStream(ctx, v); gone != nil {
			return v, gone
		}
	}
	return v, err
}

// isLastReadable reports whether the last message of a sealed volume can be read, so that no
// other process has deleted the stream. It does not ask for a message that no process can read,
// and if no other process can delete the stream.
func (s *Ledger) isLastReadable(ctx context.Context, v volume) bool {
	if s.opts.Exclusive || v.last < v.first || s.isUnreadable(v.stream(), v.last) {
		return true
	}
	_, err := s.jet.Get(ctx, v.stream(), jet.Request{Seq: v.last})
	return err == nil
}

// checkHasStream returns an error if a volume has no stream, or if that is not known. The error
// is not one of an append that the server refused.
func (s *Ledger) checkHasStream(ctx context.Context, v volume) error {
	_, err := s.jet.StreamInfo(ctx, v.stream())
	if jet.IsStreamGone(err) {
		return fmt.Errorf("stream %s was deleted, and this process does not know its archive yet: %w", v.stream(), nats.ErrNoResponders)
	}
	return err
}
