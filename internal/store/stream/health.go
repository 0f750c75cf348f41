package stream

import "context"

// Health returns an error if the ledger is not usable: damage was found, a connection
// is down, or the active stream does not answer or cannot be written. Otherwise it returns nil.
//
// Of the sealed volumes that have a stream, which do not change, each call queries one in turn,
// and the same one again after an error. Health thus sends two requests in a ledger of any age.
// HealthOfAll queries all of them.
func (s *Ledger) Health(ctx context.Context) error {
	err := s.health(ctx, func(now *volumes) []volume {
		sealed := streamsOf(now.sealed())
		if len(sealed) > 0 {
			i := int(s.healthy.Load() % uint64(len(sealed)))
			sealed = sealed[i : i+1]
		}
		return append(sealed, now.active())
	})
	if err == nil {
		s.healthy.Add(1)
	}
	return err
}

// HealthOfAll is Health with the streams of all volumes.
func (s *Ledger) HealthOfAll(ctx context.Context) error {
	return s.health(ctx, func(now *volumes) []volume { return streamsOf(now.list) })
}

// streamsOf returns the volumes of a list that are read from streams.
func streamsOf(list []volume) (streams []volume) {
	for _, v := range list {
		if v.segment() == nil {
			streams = append(streams, v)
		}
	}
	return streams
}

func (s *Ledger) health(ctx context.Context, choose func(*volumes) []volume) error {
	if err := s.firstDamage.Load(); err != nil {
		return *err
	}
	if err := s.jet.Health(); err != nil {
		return err
	}
	// Loaded before the states, which must not be older.
	recorded := s.lastStored.Load()
	for _, v := range choose(s.volumes()) {
		info, err := s.jet.StreamInfo(ctx, v.stream())
		if now, rerr := s.reloadIfGone(ctx, v, err); err != nil && rerr == nil && now.segment() != nil {
			continue // it was archived or removed
		}
		if err != nil {
			return err
		}
		if err := s.checkVolume(v, info.State); err != nil {
			return err
		}
		if !v.sealed && !info.Config.Sealed && max(info.State.LastSeq, v.first-1) < recorded {
			return s.damageErrorf("the ledger ends at position %d, but %d was recorded", info.State.LastSeq, recorded)
		}
	}
	return nil
}
