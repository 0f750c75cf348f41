package stream

import (
	"context"
)

// Health returns an error if the ledger is not usable: damage was found, a connection
// is down, or a stream does not answer or cannot be written. Otherwise it returns nil.
func (s *Ledger) Health(ctx context.Context) error {
	if err := s.firstDamage.Load(); err != nil {
		return *err
	}
	if err := s.jet.Health(); err != nil {
		return err
	}
	// Loaded before the states, which must not be older.
	recorded := s.lastStored.Load()
	for _, v := range s.volumes().list {
		if v.removed != nil {
			continue
		}
		info, err := s.jet.StreamInfo(ctx, v.stream())
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
