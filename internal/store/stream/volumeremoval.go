package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
)

// maxKeptEvents and maxKeptBytes bound the kept events of all removed volumes. They
// stay in memory.
const (
	maxKeptEvents = 200_000
	maxKeptBytes  = 64 << 20
)

func notRemovable(n events.Volume, format string, args ...any) error {
	return &events.NotRemovableError{Volume: n, Reasons: []string{fmt.Sprintf(format, args...)}}
}

// Removable returns volume n and its closing checkpoint if the volume can be removed. Only
// the oldest volume can be removed, and only if it was sealed under a checkpoint. For any
// other volume the error is a *events.NotRemovableError.
func (s *Ledger) Removable(ctx context.Context, n events.Volume) (events.VolumeInfo, events.ClosingCheckpoint, error) {
	now := s.volumes()
	i := slices.IndexFunc(now.list, func(v volume) bool { return v.removed == nil })
	v := now.list[i]
	var none events.ClosingCheckpoint
	switch {
	case n < 1 || n > now.active().number:
		return events.VolumeInfo{}, none, notRemovable(n, "there is no such volume")
	case n < v.number:
		newest := now.list[0].removed.removed
		return events.VolumeInfo{}, none, notRemovable(n, "it was removed already: event %d records that volume %d and all volumes before it were removed", newest.Seq, newest.Volume)
	case n == now.active().number:
		return events.VolumeInfo{}, none, notRemovable(n, "it is the active volume; seal it first")
	case n > v.number:
		return events.VolumeInfo{}, none, notRemovable(n, "volume %d is older; remove the oldest volume first", v.number)
	}
	info, err := s.volumeInfo(ctx, v)
	if err != nil {
		return events.VolumeInfo{}, none, err
	}
	closing, err := s.lastOfVolume(ctx, v)
	if err != nil {
		return events.VolumeInfo{}, none, err
	}
	d, ok := closing.Data.(*events.LedgerVolumeSealed)
	if !ok || d.Closing == nil {
		return events.VolumeInfo{}, none, notRemovable(n, "it was sealed without a checkpoint, so its content could not be verified after the removal")
	}
	info.Sealed = true
	return info, *d.Closing, nil
}

// RemoveOptions selects the volume to remove and the events of it to keep.
type RemoveOptions struct {
	Volume events.Volume
	// Keep are the positions of the events to keep, in ascending order: of this volume and
	// of all volumes that were removed before it.
	Keep []uint64
	// RootHash is the tree hash over positions 1 to the volume's last.
	RootHash string
	Export   events.VolumeExport
	Actor    events.Actor
	// OnPlanned, if set, is called before the removal is recorded. If it fails, nothing is
	// removed.
	OnPlanned func(d *events.LedgerVolumeRemoved) error
	// OnRecorded, if set, is called after the removal is recorded and before the stream
	// is deleted. If it fails, the next Open deletes the stream.
	OnRecorded func(d *events.LedgerVolumeRemoved) error
}

// Remove removes a volume and returns the position of the event that records it. It
// returns *events.NotRemovableError for a volume that is not Removable. Concurrent reads do
// not fail: after the kept events, a reader gets the events of the next volume.
// If Remove is interrupted or fails after it recorded the event, the next Open completes
// it.
func (s *Ledger) Remove(ctx context.Context, r RemoveOptions) (seq uint64, err error) {
	s.removalMu.Lock()
	defer s.removalMu.Unlock()
	v, closing, err := s.Removable(ctx, r.Volume)
	if err != nil {
		return 0, err
	}
	list, err := s.readPositions(ctx, r.Keep)
	if err != nil {
		return 0, fmt.Errorf("remove volume %d: %w", r.Volume, err)
	}
	d := &events.LedgerVolumeRemoved{
		Volume: v.Number, First: v.First, Last: v.Last, Ended: events.Instant{Time: v.Ended.UTC().Truncate(time.Millisecond)},
		RootHash: r.RootHash, Closing: closing, Export: r.Export, Kept: events.KeptEvents{Events: len(list)}, Actor: r.Actor,
	}
	if len(list) > 0 {
		raw, err := events.EncodeKept(list)
		if err != nil {
			return 0, fmt.Errorf("remove volume %d: %w", r.Volume, err)
		}
		if len(list) > maxKeptEvents || len(raw) > maxKeptBytes {
			return 0, notRemovable(r.Volume, "later state depends on %d events of it and of the volumes before it, which take %d bytes; at most %d events and %d bytes can be kept", len(list), len(raw), maxKeptEvents, maxKeptBytes)
		}
		if d.Kept.SHA256, err = s.texts.PutText(ctx, events.LedgerTenant, raw); err != nil {
			return 0, fmt.Errorf("remove volume %d: %w", r.Volume, err)
		}
	}
	before := uint64(0)
	if now := s.volumes().list[0]; now.removed != nil {
		before = now.removed.removed.Seq
	}
	if r.OnPlanned != nil {
		if err := r.OnPlanned(d); err != nil {
			return 0, fmt.Errorf("remove volume %d: %w", r.Volume, err)
		}
	}
	// The append succeeds only if the previous removal is still the newest one.
	e := events.New(events.LedgerTenant, time.Now(), d)
	if seq, err = s.Append(ctx, e, int64(before)); err != nil {
		return 0, fmt.Errorf("remove volume %d: %w", r.Volume, err)
	}
	s.volumesMu.Lock()
	defer s.volumesMu.Unlock()
	s.switchToKeptEvents(newKeptEvents(events.Removal{LedgerVolumeRemoved: d, Seq: seq, At: e.Time}, list))
	if r.OnRecorded != nil {
		if err := r.OnRecorded(d); err != nil {
			return seq, fmt.Errorf("remove volume %d: %w", r.Volume, err)
		}
	}
	return seq, s.finishRemoval(ctx)
}

// readPositions reads the events at the positions of keep.
func (s *Ledger) readPositions(ctx context.Context, keep []uint64) ([]events.Stored, error) {
	list := make([]events.Stored, 0, len(keep))
	for len(keep) > 0 {
		// One request returns many events if their positions are close.
		n := 1
		for n < len(keep) && keep[n]-keep[0] < jet.BatchMessages {
			n++
		}
		p := page{form: raw, begin: keep[0] - 1, end: keep[0] - 1}
		if _, _, err := s.readBatch(ctx, int(keep[n-1]-keep[0]+1), jet.BatchBytes, &p); err != nil {
			return nil, err
		}
		begin := len(list)
		for _, m := range p.raw {
			if len(keep) > 0 && m.Seq == keep[0] {
				list, keep = append(list, m), keep[1:]
			}
		}
		if len(list) == begin {
			return nil, s.damageErrorf("position %d cannot be read", keep[0])
		}
	}
	return list, nil
}

// switchToKeptEvents replaces the removed volumes by their kept events. The caller must
// hold volumesMu.
func (s *Ledger) switchToKeptEvents(x *keptEvents) {
	list := []volume{removedVolume(x)}
	for _, v := range s.volumes().list {
		if v.number > x.removed.Volume {
			list = append(list, v)
		}
	}
	s.setVolumes(list)
}

func removedVolume(x *keptEvents) volume {
	return volume{number: x.removed.Volume, first: 1, last: x.removed.Last, sealed: true, ended: x.removed.Ended.Time, removed: x}
}

// finishRemoval deletes the streams and archives of volumes whose removal is recorded. The
// archives of the volumes before the last one were deleted with them, or by the start after that.
func (s *Ledger) finishRemoval(ctx context.Context) error {
	oldest := s.volumes().list[0]
	if oldest.removed == nil {
		return nil
	}
	numbers, archives, err := s.volumeNumbers(ctx)
	if err != nil {
		return err
	}
	if numbers[0] <= oldest.number {
		numbers = slices.DeleteFunc(numbers, func(n events.Volume) bool { return n > oldest.number })
		if err := s.deleteStreams(ctx, numbers...); err != nil {
			return err
		}
		if err := s.jet.Sync(); err != nil {
			return err
		}
	}
	if !archives {
		return nil
	}
	// After the stream is deleted, no other process begins to archive it.
	if err := s.purgeArchive(ctx, oldest.number); err != nil {
		return fmt.Errorf("remove the archive of volume %d: %w", oldest.number, err)
	}
	return nil
}

// findRemoved returns the removed volumes, which one volume stands for, according to the
// newest event that records a removal. It returns nil if there is no such event. list holds
// the volumes with a stream or an archive.
func (s *Ledger) findRemoved(ctx context.Context, list []volume) (*volume, error) {
	for _, v := range slices.Backward(list) {
		r := jet.Request{LastBySubject: StoredSubject(v.number, events.RemovalSubject(events.LedgerTenant))}
		if v.archive != nil {
			at := v.archive.Manifest().RemovalAt
			if at == 0 {
				continue
			}
			r = jet.Request{Seq: at}
		}
		m, err := s.getUnchecked(ctx, v, r)
		if errors.Is(err, events.ErrNotFound) || jet.IsStreamGone(err) {
			// The volume records no removal. If its stream is damaged or is not of a ledger,
			// other checks report that.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the last removal of a volume: %w", err)
		}
		e, err := s.Decode(m)
		if err != nil {
			return nil, err
		}
		d, ok := e.Data.(*events.LedgerVolumeRemoved)
		if !ok || d.Volume < 1 || d.Volume >= v.number || d.Last >= e.Seq || d.Last > math.MaxInt64 {
			return nil, s.damageErrorf("event %d (%s) in volume %d does not describe a valid removal", e.Seq, e.Type, v.number)
		}
		// The kept events are usually in memory already.
		if now := s.volumeList.Load(); now != nil && now.list[0].removed != nil && now.list[0].removed.removed.Seq == e.Seq {
			return &now.list[0], nil
		}
		list, err := s.loadKeptEvents(ctx, d)
		if err != nil {
			return nil, err
		}
		v := removedVolume(newKeptEvents(events.Removal{LedgerVolumeRemoved: d, Seq: e.Seq, At: e.Time}, list))
		return &v, nil
	}
	return nil, nil
}

// getUnchecked returns one message of a volume, also if the stream is known to lack others.
func (s *Ledger) getUnchecked(ctx context.Context, v volume, r jet.Request) (events.Stored, error) {
	if v.archive == nil {
		return s.jet.Get(ctx, v.stream(), r)
	}
	return s.getFromVolume(ctx, v, r)
}

func (s *Ledger) loadKeptEvents(ctx context.Context, d *events.LedgerVolumeRemoved) ([]events.Stored, error) {
	if d.Kept.SHA256 == "" {
		return nil, nil
	}
	if _, err := s.texts.Open(ctx); err != nil {
		return nil, err
	}
	raw, err := s.texts.Text(ctx, events.LedgerTenant, d.Kept.SHA256)
	if errors.Is(err, events.ErrNotFound) || errors.Is(err, events.ErrRemoved) {
		return nil, s.damageErrorf("the kept events of volume %d are missing: text %s", d.Volume, d.Kept.SHA256)
	}
	if err != nil {
		return nil, fmt.Errorf("read the kept events of volume %d: %w", d.Volume, err)
	}
	list, err := events.DecodeKept(raw, d.Last)
	if err == nil && len(list) != d.Kept.Events {
		err = fmt.Errorf("the text has %d events, not %d", len(list), d.Kept.Events)
	}
	if err != nil {
		return nil, s.damageErrorf("decode the kept events of volume %d: %w", d.Volume, err)
	}
	return list, nil
}

// Reload looks whether another process archived or removed volumes. It may miss one: an
// unchanged list of volumes does not prove that there was none.
func (s *Ledger) Reload(ctx context.Context) {
	now := s.volumes()
	// Rotate holds volumesMu while it waits for running appends, and the caller may be in
	// one of them. Therefore the tries are bounded.
	for try := 0; !s.volumesMu.TryLock(); try++ {
		if s.volumes() != now || try == maxReloadTries || jet.Wait(ctx, lagPause) != nil {
			return
		}
	}
	defer s.volumesMu.Unlock()
	err := s.reloadLocked(ctx)
	// A stream was deleted while it was read, or the server answers no request for it now. The
	// time is bounded, because other callers wait for volumesMu.
	for end := time.Now().Add(maxReloadTries * lagPause); jet.IsStreamGone(err) && time.Now().Before(end) && jet.Wait(ctx, lagPause) == nil; {
		err = s.reloadLocked(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.jet.Options.Logger.WarnContext(ctx, "cannot look for archived and removed volumes", "err", err)
	}
}

// reloadLocked is Reload for a caller that holds volumesMu.
func (s *Ledger) reloadLocked(ctx context.Context) error {
	list, err := s.findVolumes(ctx)
	if err != nil {
		return err
	}
	now := s.volumes()
	if removed := now.list[0].removed; removed != nil && (len(list) == 0 || list[0].removed == nil || list[0].removed.removed.Seq < removed.removed.Seq) {
		return nil // the stream with the newest removal is missing
	}
	if len(list) > 0 && list[len(list)-1].number < now.active().number {
		return nil // the newest stream is missing
	}
	if len(list) > 0 && !slices.EqualFunc(list, now.list, sameVolume) {
		s.setVolumes(list)
	}
	return nil
}

// maxReloadTries bounds the tries of Reload to lock volumesMu.
const maxReloadTries = 100

// fillFromKept adds to an empty page the kept events that follow its end. It reports
// whether there are any, and how many more follow those in the page. If there are none, it
// moves the page, which stays empty, to the end of the last removed volume.
func (s *Ledger) fillFromKept(ctx context.Context, v volume, limit int, p *page) (some bool, left uint64, err error) {
	list, more, err := v.removed.get(ctx, jet.Request{Seq: p.end + 1, Batch: limit, MaxBytes: jet.BatchBytes})
	if err != nil {
		return false, 0, err
	}
	for _, m := range list {
		p.skip = m.Seq - 1 - p.end
		if err := s.add(p, m); err != nil {
			return false, 0, err
		}
	}
	if len(list) > 0 {
		return true, uint64(more), nil
	}
	if p.end < v.last {
		p.skip, p.removed = v.last-p.end, v.last
		p.begin, p.end = v.last, v.last
	}
	return false, 0, nil
}

// Removed returns the newest removal of a volume, or the zero value if none was
// removed.
func (s *Ledger) Removed() events.Removal {
	if v := s.volumes().list[0]; v.removed != nil {
		return v.removed.removed
	}
	return events.Removal{}
}

func sameVolume(a, b volume) bool {
	return a.number == b.number && a.first == b.first && a.last == b.last && a.sealed == b.sealed && a.removed == b.removed && a.archive == b.archive
}
