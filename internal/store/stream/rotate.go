package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
)

// RotateOptions holds the reason and the actor of a rotation.
type RotateOptions struct {
	Reason events.VolumeReason
	Actor  events.Actor
	// Close, if set, signs the ledger up to position last. No event is appended during
	// the call. If it fails, the volume stays as it is.
	Close func(ctx context.Context, last uint64) (*events.ClosingCheckpoint, error)
}

// Rotate seals the active volume, opens the next one and returns the sealed volume.
// Concurrent appends block and then go to the new volume. If Rotate is interrupted or
// fails after it recorded the last event of the volume, the next Open, or the next
// append that meets the sealed volume, completes it.
func (s *Ledger) Rotate(ctx context.Context, how RotateOptions) (events.VolumeInfo, error) {
	s.volumesMu.Lock()
	defer s.volumesMu.Unlock()
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	now := s.volumes()
	v := now.active()
	info, err := s.jet.StreamInfo(ctx, v.stream())
	if err != nil {
		return events.VolumeInfo{}, err
	}
	st := info.State
	if err := s.checkVolume(v, st); err != nil {
		return events.VolumeInfo{}, err
	}
	if st.Msgs == 0 || st.Msgs == 1 && v.number > 1 {
		return events.VolumeInfo{}, fmt.Errorf("seal volume %d: %w", v.number, events.ErrEmptyVolume)
	}
	list := now.list
	if info.Config.Sealed {
		list, err = s.findVolumes(ctx) // another process sealed it
	} else {
		err = s.recordSealing(ctx, v, st.LastSeq, how)
	}
	if err == nil {
		list, _, err = s.finishSeal(ctx, list)
	}
	if err != nil {
		return events.VolumeInfo{}, fmt.Errorf("seal volume %d: %w", v.number, err)
	}
	s.setVolumes(list)
	done := list[len(now.list)-1]
	return events.VolumeInfo{Number: done.number, First: done.first, Last: done.last, Bytes: st.Bytes, Sealed: true, Began: st.FirstTime, Ended: time.Now()}, nil
}

// recordSealing appends the last event of a volume, unless another process did.
func (s *Ledger) recordSealing(ctx context.Context, v volume, last uint64, how RotateOptions) error {
	opened := uint64(0) // position of the opening of the volume, 0 for none
	if v.number > 1 {
		opened = v.first
	}
	d := &events.LedgerVolumeSealed{Volume: v.number, First: v.first, Reason: how.Reason, Actor: how.Actor}
	if how.Close != nil {
		var err error
		if d.Closing, err = how.Close(ctx, last); err != nil {
			return fmt.Errorf("sign the closing checkpoint: %w", err)
		}
	}
	_, err := s.appendVolumeEvent(ctx, v, events.New(events.LedgerTenant, time.Now(), d), natsjs.ExpectedLastSubjSeqHeader, opened)
	if jet.IsConflict(err) {
		return nil // another process seals it too
	}
	return err
}

// finishSeal completes a rotation from any step: after the last event of a volume is
// recorded, it seals its stream, creates the next one at the following position and
// records the opening. Each step is skipped if it is done. changed is true if it did any
// step. The caller must hold volumesMu.
func (s *Ledger) finishSeal(ctx context.Context, list []volume) (now []volume, changed bool, err error) {
	list = append([]volume(nil), list...)
	last := len(list) - 1
	e, err := s.lastOfVolume(ctx, list[last])
	if err != nil {
		return nil, false, err
	}
	_, ending := e.Data.(*events.LedgerVolumeSealed)
	if list[last].sealed && !ending {
		// A new volume at its end could reuse positions that were assigned to other events.
		return nil, false, s.damageErrorf("stream %s is sealed, but no recorded event seals the volume", list[last].stream())
	}
	for i := range list {
		// A volume with a successor is sealed, even if its stream is not.
		if v := &list[i]; !v.sealed && (i < last || ending) {
			if err := s.sealStream(ctx, v.number); err != nil {
				return nil, false, err
			}
			info, err := s.jet.StreamInfo(ctx, v.stream())
			if err != nil {
				return nil, false, err
			}
			v.sealed, v.last, v.ended, changed = true, info.State.LastSeq, info.State.LastTime, true
			if err := s.checkVolume(*v, info.State); err != nil {
				return nil, false, err
			}
		}
	}
	if newest := list[last]; newest.sealed {
		next, err := s.createVolume(ctx, newest.number+1, newest.last+1)
		if err != nil {
			return nil, false, err
		}
		list, changed = append(list, next), true
	}
	if changed {
		// The opening must not reach the disk before the streams it follows.
		if err := s.jet.Sync(); err != nil {
			return nil, false, err
		}
	}
	opened, err := s.recordOpening(ctx, list)
	return list, changed || opened, err
}

// lastOfVolume returns the newest event that a volume holds about itself, or the zero
// event. Other events may follow it in the volume.
func (s *Ledger) lastOfVolume(ctx context.Context, v volume) (events.Event, error) {
	m, err := s.getWithVolumesLocked(ctx, v, jet.Request{LastBySubject: StoredSubject(v.number, events.VolumeSubject(events.LedgerTenant))})
	if errors.Is(err, events.ErrNotFound) {
		return events.Event{}, nil
	}
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last volume event of volume %d: %w", v.number, err)
	}
	return s.Decode(m)
}

// recordOpening appends the first event of the newest volume. It returns false and does
// nothing if that volume has events or is the only one.
func (s *Ledger) recordOpening(ctx context.Context, list []volume) (bool, error) {
	if len(list) < 2 {
		return false, nil
	}
	v, before := list[len(list)-1], list[len(list)-2]
	info, err := s.jet.StreamInfo(ctx, v.stream())
	if err != nil || info.State.Msgs > 0 {
		return false, err
	}
	closing, err := s.lastOfVolume(ctx, before)
	if err != nil {
		return false, err
	}
	last, err := s.getWithVolumesLocked(ctx, before, jet.Request{Seq: before.last})
	if err != nil {
		return false, fmt.Errorf("read the last event of volume %d: %w", before.number, err)
	}
	d := &events.LedgerVolumeOpened{
		Volume: v.number, First: v.first,
		Predecessor: events.Predecessor{Volume: before.number, First: before.first, Last: before.last, LastID: events.HeaderValue(last.Header, "ce-id")},
	}
	if e, ok := closing.Data.(*events.LedgerVolumeSealed); ok {
		d.Reason, d.Actor = e.Reason, e.Actor
	}
	return true, s.appendOpening(ctx, v, d)
}

// OpenVolume seals the active volume although it is damaged, and opens the next one at
// position, which may be after the end of the active one. The first event of the new
// volume then records the positions between as lost. note describes the damage for
// readers. If the newest volume has no first event yet, OpenVolume only appends that.
func (s *Ledger) OpenVolume(ctx context.Context, position uint64, note string, actor events.Actor) (events.VolumeInfo, error) {
	s.volumesMu.Lock()
	defer s.volumesMu.Unlock()
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	list := append([]volume(nil), s.volumes().list...)
	v := &list[len(list)-1]
	info, err := s.jet.StreamInfo(ctx, v.stream())
	if err != nil {
		return events.VolumeInfo{}, err
	}
	if info.State.Msgs > 0 || v.number == 1 || info.State.LastSeq >= v.first {
		if position <= info.State.LastSeq {
			return events.VolumeInfo{}, fmt.Errorf("open a volume at position %d: volume %d ends at position %d", position, v.number, info.State.LastSeq)
		}
		if !info.Config.Sealed {
			if err := s.sealStream(ctx, v.number); err != nil {
				return events.VolumeInfo{}, err
			}
		}
		v.sealed, v.last, v.ended = true, info.State.LastSeq, info.State.LastTime
		next, err := s.createVolume(ctx, v.number+1, position)
		if err != nil {
			return events.VolumeInfo{}, err
		}
		list = append(list, next)
		if err := s.jet.Sync(); err != nil {
			return events.VolumeInfo{}, err
		}
	}
	next, before := list[len(list)-1], list[len(list)-2]
	d := &events.LedgerVolumeOpened{
		Volume: next.number, First: next.first, Reason: events.VolumeDamaged, Note: note, Actor: actor,
		Predecessor: events.Predecessor{Volume: before.number, First: before.first, Last: before.last},
	}
	if next.first > before.last+1 {
		d.Hole = &events.Hole{From: before.last + 1, To: next.first - 1}
	}
	switch m, err := s.getWithVolumesLocked(ctx, before, jet.Request{Seq: before.last}); {
	case err == nil && m.Seq == before.last:
		d.Predecessor.LastID = events.HeaderValue(m.Header, "ce-id")
	case err != nil && !errors.Is(err, events.ErrNotFound):
		return events.VolumeInfo{}, fmt.Errorf("read the last event of volume %d: %w", before.number, err)
	}
	if err := s.appendOpening(ctx, next, d); err != nil {
		return events.VolumeInfo{}, err
	}
	if lost := d.Losses(next.first); len(lost) > 0 {
		s.lost.Store(&lost)
	}
	s.setVolumes(list)
	return events.VolumeInfo{Number: next.number, First: next.first, Last: next.first}, nil
}

// appendOpening appends the first event of a volume. If several processes append it,
// one of them succeeds, and the others return nil.
func (s *Ledger) appendOpening(ctx context.Context, v volume, d *events.LedgerVolumeOpened) error {
	seq, err := s.appendVolumeEvent(ctx, v, events.New(events.LedgerTenant, time.Now(), d), natsjs.ExpectedLastSeqHeader, v.first-1)
	switch {
	case jet.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("open volume %d: %w", v.number, err)
	case seq != v.first:
		return s.damageErrorf("the first event of volume %d was stored at position %d, not %d", v.number, seq, v.first)
	}
	return nil
}

// appendVolumeEvent appends an event of a volume about itself.
func (s *Ledger) appendVolumeEvent(ctx context.Context, v volume, e events.Event, expect string, position uint64) (uint64, error) {
	w, err := encode(e)
	if err != nil {
		return 0, err
	}
	m := message(v.number, e, w)
	m.Header.Set(expect, strconv.FormatUint(position, 10))
	for try := 0; ; try++ {
		seq, err := s.publishTo(ctx, v, m, w)
		if err == nil {
			return seq, nil
		}
		if jet.IsConflict(err) || jet.IsRejected(err) || jet.IsUnwritable(err) {
			return 0, err
		}
		if werr := jet.Wait(ctx, retryPause); werr != nil || try == maxVolumeEventTries {
			return 0, err
		}
	}
}

// maxVolumeEventTries bounds the tries of appendVolumeEvent, because all other appends wait.
const maxVolumeEventTries = 20

// sealStream seals the stream of a volume: the server then refuses every write to it.
// An admin connection may do little else; see Options.OpenAdminConn.
func (s *Ledger) sealStream(ctx context.Context, number events.Volume) error {
	js, done, err := s.adminConn()
	if err != nil {
		return err
	}
	defer done()
	info, err := s.jet.StreamInfo(ctx, number.Stream())
	if err != nil {
		return err
	}
	config := info.Config
	config.Sealed = true
	ctx, cancel := context.WithTimeout(ctx, s.jet.Options.TryWait)
	defer cancel()
	if _, err := js.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("seal stream %s: %w", number.Stream(), err)
	}
	return nil
}

// adminConn returns JetStream over a connection that may seal and remove volumes, and a
// function that closes the connection.
func (s *Ledger) adminConn() (natsjs.JetStream, func(), error) {
	if s.opts.OpenAdminConn == nil {
		return s.jet.JS, func() {}, nil
	}
	conn, err := s.opts.OpenAdminConn("keeper of the volumes")
	if err != nil {
		return nil, nil, err
	}
	js, err := natsjs.New(conn, natsjs.WithDefaultTimeout(s.jet.Options.TryWait))
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("use JetStream: %w", err)
	}
	return js, conn.Close, nil
}
