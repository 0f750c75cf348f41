package jetstream

import (
	"context"
	"errors"
)

// Health reports why the ledger cannot be relied upon now, or nil: its
// connections are up, the stream answers and can be written, and no damage has
// been met.
func (s *Store) Health(ctx context.Context) error {
	if err := s.damage.Load(); err != nil {
		return *err
	}
	if err := s.unwritable(); err != nil {
		return err
	}
	if !s.conn.IsConnected() || !s.consume.IsConnected() {
		return errors.New("not connected to NATS")
	}
	newest := s.newest.Load()
	st, err := s.state(ctx)
	if err != nil {
		return err
	}
	if err := s.checkState(volume.Stream(), st); err != nil {
		return err
	}
	if st.LastSeq < newest {
		return s.damaged("the ledger ends at position %d, but %d was recorded", st.LastSeq, newest)
	}
	return s.blobs.reach(ctx)
}
