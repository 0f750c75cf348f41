package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
)

// AcceptedLoss is a loss of events that the operator accepted. The ledger continues
// after it.
type AcceptedLoss struct {
	// Lost are all positions without an event. Those at the end reach up to First-1.
	Lost events.Lost
	// Volume is the volume in which the ledger continues, and First its first position.
	// Every volume before it is sealed as it is.
	Volume events.Volume
	First  uint64
}

// Lost returns the positions that are recorded as lost.
func (s *Ledger) Lost() events.Lost {
	if p := s.lost.Load(); p != nil {
		return *p
	}
	return nil
}

// readLost reads the lost positions. The opening of the newest volume that was opened
// because of damage holds all of them.
func (s *Ledger) readLost(ctx context.Context, list []volume) error {
	if s.opts.Accept != nil {
		s.lost.Store(&s.opts.Accept.Lost)
		return nil
	}
	for i := len(list) - 1; i >= 0; i-- {
		v := list[i]
		if v.archive != nil && !v.archive.Manifest().OpensLoss {
			continue
		}
		m, err := s.getWithVolumesLocked(ctx, v, jet.Request{Seq: v.first})
		if errors.Is(err, events.ErrNotFound) || errors.Is(err, events.ErrDamaged) {
			continue // the checks of the volume find whether it may be missing
		}
		if err != nil {
			return err
		}
		e, err := events.Decode(m.Seq, m.Message())
		if err != nil {
			continue // as above
		}
		if d, ok := e.Data.(*events.LedgerVolumeOpened); ok && d.Reason == events.VolumeDamaged {
			lost := d.Losses(m.Seq)
			s.lost.Store(&lost)
			return nil
		}
	}
	return nil
}

// openAfterLoss seals the volumes before the loss and creates the one in which the
// ledger continues. It is idempotent. The caller must hold volumesMu.
func (s *Ledger) openAfterLoss(ctx context.Context, list []volume) ([]volume, error) {
	a := s.opts.Accept
	made := false
	for i := range list {
		v := &list[i]
		if v.number == a.Volume {
			made = true
			if v.first != a.First {
				return nil, fmt.Errorf("volume %d begins at position %d, not %d: %w", v.number, v.first, a.First, ErrWrittenMeanwhile)
			}
		}
		if v.number >= a.Volume || v.sealed {
			continue
		}
		// The check comes first, because sealing is permanent.
		info, err := s.jet.StreamInfo(ctx, v.stream())
		if err != nil {
			return nil, err
		}
		v.last = info.State.LastSeq
		if err := checkNotWritten(*v, a); err != nil {
			return nil, err
		}
		if err := s.sealStream(ctx, v.number); err != nil {
			return nil, err
		}
		info, err = s.jet.StreamInfo(ctx, v.stream())
		if err != nil {
			return nil, err
		}
		v.sealed, v.last, v.ended = true, max(info.State.LastSeq, v.first-1), info.State.LastTime
		if err := checkNotWritten(*v, a); err != nil {
			return nil, err
		}
	}
	if !made {
		next, err := s.createVolume(ctx, a.Volume, a.First)
		if err != nil {
			return nil, err
		}
		list = append(list, next)
	}
	return list, s.jet.Sync()
}

// RecordLoss appends the first event of the volume that Options.Accept describes,
// unless it has one. It sets the fields of d that describe the volume: Volume, First,
// Reason, Predecessor and Hole.
func (s *Ledger) RecordLoss(ctx context.Context, d *events.LedgerVolumeOpened) error {
	s.volumesMu.Lock()
	defer s.volumesMu.Unlock()
	list := s.volumes().list
	v := list[len(list)-1]
	info, err := s.jet.StreamInfo(ctx, v.stream())
	if err != nil || info.State.Msgs > 0 {
		return err
	}
	d.Volume, d.First, d.Reason = v.number, v.first, events.VolumeDamaged
	if len(list) > 1 {
		before := list[len(list)-2]
		d.Predecessor = events.Predecessor{Volume: before.number, First: before.first, Last: before.last}
		if before.last < before.first {
			before.last = 0 // no event of it is left
		}
		switch m, err := s.lastOf(ctx, before); {
		case err == nil && m.Seq == before.last:
			d.Predecessor.LastID = events.HeaderValue(m.Header, "ce-id")
		case err != nil && !errors.Is(err, events.ErrNotFound):
			return fmt.Errorf("read the last event of volume %d: %w", before.number, err)
		}
	}
	if v.first > d.Predecessor.Last+1 {
		d.Hole = &events.Hole{From: d.Predecessor.Last + 1, To: v.first - 1}
	}
	return s.appendOpening(ctx, v, d)
}

// RecordLostBlobs appends the events that list the lost heaps and texts of tenants, after
// RecordLoss. It skips those that are listed already since the loss, so that the caller MAY
// call it again after it failed.
func (s *Ledger) RecordLostBlobs(ctx context.Context, list []events.LostBlob, actor events.Actor) error {
	recorded := map[events.LostBlob]bool{}
	for after := s.opts.Accept.First - 1; ; {
		batch, err := s.Read(ctx, after, readAtOnce)
		if err != nil {
			return fmt.Errorf("record lost heaps and texts: %w", err)
		}
		if len(batch) == 0 {
			break
		}
		for _, e := range batch {
			if d, ok := e.Data.(*events.BlobsLost); ok {
				for _, l := range d.Of(e.Tenant) {
					recorded[l] = true
				}
			}
			after = e.Seq
		}
	}
	left := map[string][]events.LostContent{}
	for _, l := range list {
		if !recorded[l] {
			left[l.Tenant] = append(left[l.Tenant], events.LostContent{Kind: l.Kind, SHA256: l.SHA256})
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(left)) {
		for part := range slices.Chunk(left[tenant], events.MaxLostBlobs) {
			d := &events.BlobsLost{Volume: s.opts.Accept.Volume, Blobs: part, Actor: actor}
			if _, err := s.Append(ctx, events.New(tenant, time.Now(), d), -1); err != nil {
				return fmt.Errorf("record lost heaps and texts: %w", err)
			}
		}
	}
	return s.jet.Sync()
}

// readAtOnce is the number of events that RecordLostBlobs reads at a time.
const readAtOnce = 1000

// lastOf returns the last event of a volume, which may be lost.
func (s *Ledger) lastOf(ctx context.Context, v volume) (events.Stored, error) {
	if v.last == 0 {
		return events.Stored{}, events.ErrNotFound
	}
	return s.getFromVolume(ctx, v, jet.Request{Seq: v.last})
}

// LostHeap returns the position of the newest event that lists a heap of a tenant among
// those lost with accepted damage, or events.ErrNotFound. An event lists up to
// events.MaxLostBlobs blobs. An opening with that many covers all heaps that no event
// lists.
func (s *Ledger) LostHeap(ctx context.Context, tenant, hash string) (uint64, error) {
	var named, covered uint64
	_, err := s.forEachMessage(ctx, events.VolumeSubject(events.LedgerTenant), 0, func(m events.Stored) error {
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		d, ok := e.Data.(*events.LedgerVolumeOpened)
		switch {
		case !ok:
		case slices.Contains(d.LostBlobs, events.LostBlob{Tenant: tenant, Kind: "heap", SHA256: hash}):
			named = e.Seq
		case len(d.LostBlobs) >= events.MaxLostBlobs:
			covered = e.Seq
		}
		return nil
	})
	if err == nil {
		_, err = s.forEachMessage(ctx, events.LossSubject(tenant), 0, func(m events.Stored) error {
			e, err := s.Decode(m)
			if err != nil {
				return err
			}
			if d, ok := e.Data.(*events.BlobsLost); ok && slices.Contains(d.Blobs, events.LostContent{Kind: "heap", SHA256: hash}) {
				named = max(named, e.Seq)
			}
			return nil
		})
	}
	if err != nil {
		return 0, fmt.Errorf("find the loss of heap %s: %w", hash, err)
	}
	if lost := cmp.Or(named, covered); lost != 0 {
		return lost, nil
	}
	return 0, fmt.Errorf("find the loss of heap %s: %w", hash, events.ErrNotFound)
}
