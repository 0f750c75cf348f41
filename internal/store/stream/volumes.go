package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
)

// volume is one volume as this process knows it.
type volume struct {
	number events.Volume
	// first is the position of its first event. last is the position of its last event
	// once it is sealed, and 0 before.
	first, last uint64
	sealed      bool
	// ended is the time of its last event, once it is sealed.
	ended time.Time
	// removed, if set, holds the kept events of this volume and all before it, which are
	// removed. first is then 1. archive, if set, holds the events of the volume. With either,
	// the volume is read from there and not from a stream.
	removed *keptEvents
	archive *archived
}

func (v volume) stream() string { return v.number.Stream() }

// segment answers the requests for a volume that is not read from a stream.
type segment interface {
	// get returns the messages that a request selects, in order, and the least number of
	// further ones.
	get(ctx context.Context, r jet.Request) (list []events.Stored, more int, err error)
}

// segment returns nil for a volume that is read from its stream.
func (v volume) segment() segment {
	switch {
	case v.removed != nil:
		return v.removed
	case v.archive != nil:
		return v.archive
	}
	return nil
}

// volumes lists all volumes, oldest first. There is at least one. Only the last one
// takes appends. A list is never changed, only replaced.
type volumes struct {
	list []volume
	// replaced is done when another list has replaced this one.
	replaced context.Context //nolint:containedctx // it is a state, not a call's
	replace  context.CancelFunc
}

func newVolumes(list []volume) *volumes {
	l := &volumes{list: list}
	l.replaced, l.replace = context.WithCancel(context.Background())
	return l
}

func (l *volumes) active() volume   { return l.list[len(l.list)-1] }
func (l *volumes) sealed() []volume { return l.list[:len(l.list)-1] }

// indexOf returns the index of the first volume that may hold a position or a later
// one.
func (l *volumes) indexOf(seq uint64) int {
	i, _ := slices.BinarySearchFunc(l.sealed(), seq, func(v volume, seq uint64) int { return cmp.Compare(v.last, seq) })
	return i
}

// volumes returns the current list.
func (s *Ledger) volumes() *volumes { return s.volumeList.Load() }

func (s *Ledger) setVolumes(list []volume) {
	for _, v := range list {
		if s.opts.OnVolumeOpened == nil {
			break
		}
		if v.segment() != nil {
			continue
		}
		if err := s.opts.OnVolumeOpened(v.stream()); err != nil {
			s.jet.Options.Logger.Error("cannot expose a volume to subscribers", "volume", v.number, "err", err)
		}
	}
	if old := s.volumeList.Swap(newVolumes(list)); old != nil {
		old.replace()
	}
}

// Refresh looks whether another process has sealed the active volume, and completes a
// rotation that it did not finish.
func (s *Ledger) Refresh(ctx context.Context) error {
	s.volumesMu.Lock()
	defer s.volumesMu.Unlock()
	return s.refreshLocked(ctx)
}

// refreshLocked is Refresh for a caller that holds volumesMu.
func (s *Ledger) refreshLocked(ctx context.Context) error {
	now := s.volumes()
	info, err := s.jet.StreamInfo(ctx, now.active().stream())
	if jet.IsStreamGone(err) { // another process may have sealed and removed it
		if followed := s.reloadLocked(ctx); followed != nil || s.volumes() == now {
			return errors.Join(err, followed)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Config.Sealed {
		return nil
	}
	list, err := s.findVolumes(ctx)
	if err != nil {
		return err
	}
	if list, _, err = s.finishSeal(ctx, list); err != nil {
		return err
	}
	if !slices.EqualFunc(list, now.list, sameVolume) {
		s.setVolumes(list)
	}
	return nil
}

// openVolumes lists the volumes of the ledger, creates the first one if there is none,
// and completes an interrupted rotation and removal. made is true if it created a volume or
// continued a rotation.
func (s *Ledger) openVolumes(ctx context.Context) (made bool, err error) {
	s.volumesMu.Lock()
	defer s.volumesMu.Unlock()
	if a := s.opts.Accept; a != nil {
		if err := s.reindexArchives(ctx, a.Volume-1); err != nil {
			return false, err
		}
	}
	list, err := s.findVolumes(ctx)
	if err != nil {
		return false, err
	}
	if s.opts.Accept != nil {
		if list, err = s.openAfterLoss(ctx, list); err != nil {
			return false, err
		}
		s.setVolumes(list)
		return true, nil
	}
	if len(list) == 0 {
		if s.jet.Options.ReadExisting {
			return false, fmt.Errorf("open stream %s: %w", events.Volume(1).Stream(), natsjs.ErrStreamNotFound)
		}
		v, err := s.createVolume(ctx, 1, 1)
		if err != nil {
			return false, err
		}
		list, made = []volume{v}, true
	}
	if !s.jet.Options.ReadExisting {
		var changed bool
		if list, changed, err = s.finishSeal(ctx, list); err != nil {
			return false, err
		}
		made = made || changed
	}
	s.setVolumes(list)
	if removed := list[0].removed; !s.jet.Options.ReadExisting && removed != nil && (s.opts.MayDelete == nil || s.opts.MayDelete(removed.removed)) {
		if err := s.finishRemoval(ctx); err != nil {
			return false, err
		}
	}
	return made, nil
}

// findVolumes lists the volumes and checks that each is intact and continues the one
// before it.
func (s *Ledger) findVolumes(ctx context.Context) ([]volume, error) {
	found, states, err := s.listVolumes(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]volume, 0, len(found)+1)
	removed, err := s.findRemoved(ctx, found)
	switch {
	case err != nil:
		return nil, err
	case removed != nil:
		list = append(list, *removed)
		found = slices.DeleteFunc(found, func(v volume) bool { return v.number <= removed.number })
		if len(found) == 0 {
			return nil, s.damageErrorf("stream %s is missing; it follows the removed volumes", (removed.number + 1).Stream())
		}
	}
	if err := s.readLost(ctx, found); err != nil {
		return nil, err
	}
	if removed == nil && len(found) > 0 {
		if err := s.checkOldest(found[0]); err != nil {
			return nil, err
		}
	}
	for _, v := range found {
		st := states[v.number]
		if v.archive == nil {
			if err := s.checkVolume(v, st); err != nil {
				return nil, err
			}
		}
		if len(list) > 0 {
			if err := s.checkSuccession(ctx, list[len(list)-1], v, st); err != nil {
				return nil, err
			}
		}
		list = append(list, v)
		s.observeStored(max(st.LastSeq, v.last))
	}
	return list, nil
}

// listVolumes returns the volumes that have a stream or an archive, and the states of the
// streams, without checks. A volume with both is read from its stream: its archive may be
// incomplete.
func (s *Ledger) listVolumes(ctx context.Context) (list []volume, states map[events.Volume]natsjs.StreamState, err error) {
	numbers, archives, err := s.volumeNumbers(ctx)
	if err != nil {
		return nil, nil, err
	}
	newest := events.Volume(0)
	if len(numbers) > 0 {
		newest = numbers[len(numbers)-1]
	}
	if a := s.opts.Accept; a != nil {
		newest = max(newest, a.Volume-1)
	}
	states = make(map[events.Volume]natsjs.StreamState, len(numbers))
	for n := events.Volume(1); n <= newest; n++ {
		if _, ok := slices.BinarySearch(numbers, n); !ok {
			if !archives {
				continue
			}
			a, err := s.knownArchive(ctx, n)
			if errors.Is(err, events.ErrNotFound) {
				continue // the volume was removed or is missing
			}
			if err != nil {
				return nil, nil, err
			}
			list = append(list, archivedVolume(a))
			continue
		}
		v, st, err := s.openVolume(ctx, n)
		if jet.IsStreamGone(err) && n < newest {
			// Another process deleted the stream since they were listed.
			if a, aerr := s.openArchive(ctx, n); aerr == nil {
				list = append(list, archivedVolume(a))
				continue
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if n < newest { // sealed, or at least no process writes to it now
			v.sealed, v.last, v.ended = true, max(st.LastSeq, v.first-1), st.LastTime
		}
		list, states[n] = append(list, v), st
	}
	if len(list) == 0 && archives && s.opts.Accept == nil {
		return nil, nil, s.damageErrorf("all streams of the ledger are missing, but there are archives of volumes")
	}
	return list, states, nil
}

// knownArchive is openArchive for a volume whose archive may be open already.
func (s *Ledger) knownArchive(ctx context.Context, n events.Volume) (*archived, error) {
	if now := s.volumeList.Load(); now != nil {
		for _, v := range now.list {
			if v.number == n && v.archive != nil {
				return v.archive, nil
			}
		}
	}
	return s.openArchive(ctx, n)
}

// volumeNumbers returns the numbers of the volumes whose streams exist, in ascending
// order, and whether there may be archives.
func (s *Ledger) volumeNumbers(ctx context.Context) (numbers []events.Volume, archives bool, err error) {
	names := s.jet.JS.StreamNames(ctx)
	for name := range names.Name() {
		if v, ok := events.VolumeOf(name); ok {
			numbers = append(numbers, v)
		}
		archives = archives || name == ArchiveStream
	}
	if err := names.Err(); err != nil && !errors.Is(err, natsjs.ErrEndOfData) {
		return nil, false, fmt.Errorf("list the volumes of the ledger: %w", err)
	}
	slices.Sort(numbers)
	return numbers, archives, nil
}

// openVolume checks the configuration of an existing volume and returns its state.
func (s *Ledger) openVolume(ctx context.Context, number events.Volume) (volume, natsjs.StreamState, error) {
	info, err := s.jet.StreamInfo(ctx, number.Stream())
	if err != nil {
		return volume{}, natsjs.StreamState{}, err
	}
	want := s.streamConfig(number, 1)
	if err := checkConfig(info.Config, want); err != nil {
		return volume{}, natsjs.StreamState{}, fmt.Errorf("stream %s is not configured as a ledger: %w; the stream was not changed", want.Name, err)
	}
	if info.Config.Replicas != want.Replicas {
		s.jet.Options.Logger.WarnContext(ctx, "the stream keeps its number of replicas", "stream", want.Name, "copies", info.Config.Replicas, "asked", want.Replicas)
	}
	v := volume{number: number, first: max(info.Config.FirstSeq, 1), sealed: info.Config.Sealed}
	if v.sealed {
		v.last, v.ended = info.State.LastSeq, info.State.LastTime
	}
	return v, info.State, nil
}

// createVolume creates the stream of a volume that begins at a position. An equal stream
// may exist already.
func (s *Ledger) createVolume(ctx context.Context, number events.Volume, first uint64) (volume, error) {
	if _, err := s.jet.JS.CreateStream(ctx, s.streamConfig(number, first)); err != nil {
		return volume{}, fmt.Errorf("create stream %s: %w", number.Stream(), err)
	}
	return volume{number: number, first: first}, nil
}

// LastSeq returns the position of the last event in the ledger, or 0 if it is empty.
func (s *Ledger) LastSeq(ctx context.Context) (uint64, error) {
	for {
		v := s.volumes().active()
		info, err := s.jet.StreamInfo(ctx, v.stream())
		if jet.IsStreamGone(err) {
			if s.Reload(ctx); s.volumes().active().number != v.number {
				continue
			}
		}
		if err != nil {
			return 0, err
		}
		if info.Config.Sealed && !s.jet.Options.ReadExisting {
			if err := s.Refresh(ctx); err != nil {
				return 0, err
			}
			if s.volumes().active().number != v.number {
				continue
			}
		}
		// An empty volume ends before its first position.
		return max(info.State.LastSeq, v.first-1), nil
	}
}

// Volumes returns every volume that is not removed, oldest first. The last one is the
// active volume.
func (s *Ledger) Volumes(ctx context.Context) ([]events.VolumeInfo, error) {
	var list []events.VolumeInfo
	for _, v := range s.volumes().list {
		if v.removed != nil {
			continue
		}
		info, err := s.volumeInfo(ctx, v)
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}

// volumeInfo describes a volume that is not removed.
func (s *Ledger) volumeInfo(ctx context.Context, v volume) (events.VolumeInfo, error) {
	if v.archive != nil {
		return v.archive.info(), nil
	}
	info, err := s.jet.StreamInfo(ctx, v.stream())
	if now, rerr := s.reloadIfGone(ctx, v, err); rerr == nil && now.archive != nil {
		return now.archive.info(), nil
	}
	if err != nil {
		return events.VolumeInfo{}, err
	}
	return events.VolumeInfo{
		Number: v.number, First: v.first, Last: max(info.State.LastSeq, v.first-1), Bytes: info.State.Bytes, Subjects: info.State.NumSubjects, Sealed: info.Config.Sealed,
		Began: info.State.FirstTime, Ended: info.State.LastTime,
	}, nil
}

// LiveVolume is a volume that has a stream.
type LiveVolume struct {
	Number events.Volume
	// First is the position of its first event.
	First uint64
}

// Stream returns the name of the stream of the volume.
func (v LiveVolume) Stream() string { return v.Number.Stream() }

func (v volume) live() LiveVolume { return LiveVolume{Number: v.number, First: v.first} }

// Live returns the volumes that have a stream, oldest first, and the active volume.
func (s *Ledger) Live() (list []LiveVolume, active LiveVolume) {
	now := s.volumes()
	for _, v := range now.list {
		if v.segment() == nil {
			list = append(list, v.live())
		}
	}
	return list, now.active().live()
}

// Active returns the active volume.
func (s *Ledger) Active() LiveVolume { return s.volumes().active().live() }

// IsLive reports whether a volume is known to have a stream.
func (s *Ledger) IsLive(n events.Volume) bool {
	return slices.ContainsFunc(s.volumes().list, func(v volume) bool { return v.number == n && v.segment() == nil })
}

// LiveAt returns the volume that holds a position. It returns false if the volume has no
// stream.
func (s *Ledger) LiveAt(position uint64) (LiveVolume, bool) {
	now := s.volumes()
	v := now.list[now.indexOf(position)]
	return v.live(), position >= v.first && v.segment() == nil
}

// volumeByNumber returns a volume in its current state. For a removed one it returns the
// volume that holds the kept events.
func (s *Ledger) volumeByNumber(n events.Volume) volume {
	for _, v := range s.volumes().list {
		if v.number == n || v.removed != nil && v.number > n {
			return v
		}
	}
	return volume{number: n, first: 1}
}
