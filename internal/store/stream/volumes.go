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
	// removed. first is then 1, and there is no stream.
	removed *keptEvents
}

func (v volume) stream() string { return v.number.Stream() }

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
		if v.removed != nil {
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
		if followed := s.followRemoval(ctx); followed != nil || s.volumes() == now {
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
	for i := range list[:len(list)-1] {
		list[i].sealed = true // or at least no process writes to it now
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
	numbers, err := s.volumeNumbers(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]volume, 0, len(numbers)+1)
	removed, err := s.findRemoved(ctx, numbers)
	switch {
	case err != nil:
		return nil, err
	case removed != nil:
		list = append(list, *removed)
		numbers = slices.DeleteFunc(numbers, func(n events.Volume) bool { return n <= removed.number })
		if len(numbers) == 0 {
			return nil, s.damageErrorf("stream %s is missing; it follows the removed volumes", (removed.number + 1).Stream())
		}
	}
	states := make(map[events.Volume]natsjs.StreamState, len(numbers))
	found := make([]volume, 0, len(numbers))
	for i, number := range numbers {
		v, st, err := s.openVolume(ctx, number)
		if err != nil {
			return nil, err
		}
		if i < len(numbers)-1 {
			v.last, v.ended = max(st.LastSeq, v.first-1), st.LastTime
		}
		found, states[number] = append(found, v), st
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
		if err := s.checkVolume(v, st); err != nil {
			return nil, err
		}
		if len(list) > 0 {
			if err := s.checkSuccession(ctx, list[len(list)-1], v, st); err != nil {
				return nil, err
			}
		}
		list = append(list, v)
		s.observeStored(st.LastSeq)
	}
	return list, nil
}

// volumeNumbers returns the numbers of the volumes whose streams exist, in ascending
// order.
func (s *Ledger) volumeNumbers(ctx context.Context) ([]events.Volume, error) {
	var numbers []events.Volume
	names := s.jet.JS.StreamNames(ctx)
	for name := range names.Name() {
		if v, ok := events.VolumeOf(name); ok {
			numbers = append(numbers, v)
		}
	}
	if err := names.Err(); err != nil && !errors.Is(err, natsjs.ErrEndOfData) {
		return nil, fmt.Errorf("list the volumes of the ledger: %w", err)
	}
	slices.Sort(numbers)
	return numbers, nil
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
			if s.refreshRemovals(ctx); s.volumes().active().number != v.number {
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
		info, err := s.jet.StreamInfo(ctx, v.stream())
		if err != nil {
			return nil, err
		}
		list = append(list, events.VolumeInfo{
			Number: v.number, First: v.first, Last: max(info.State.LastSeq, v.first-1), Bytes: info.State.Bytes, Sealed: info.Config.Sealed,
			Began: info.State.FirstTime, Ended: info.State.LastTime,
		})
	}
	return list, nil
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
		if v.removed == nil {
			list = append(list, v.live())
		}
	}
	return list, now.active().live()
}

// Active returns the active volume.
func (s *Ledger) Active() LiveVolume { return s.volumes().active().live() }

// IsLive reports whether a volume is known to have a stream.
func (s *Ledger) IsLive(n events.Volume) bool {
	return slices.ContainsFunc(s.volumes().list, func(v volume) bool { return v.number == n && v.removed == nil })
}

// LiveAt returns the volume that holds a position. It returns false if the volume is
// removed.
func (s *Ledger) LiveAt(position uint64) (LiveVolume, bool) {
	now := s.volumes()
	v := now.list[now.indexOf(position)]
	return v.live(), position >= v.first && v.removed == nil
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
