package queue

import (
	"context"
	"fmt"

	"daybook/events"
)

// PendingWork returns the number of requests of a sealed volume that are waiting or in
// flight.
func (s *Queue) PendingWork(ctx context.Context, n events.Volume) (left uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.jet.Options.TryWait)
	defer cancel()
	stream, err := s.jet.JS.Stream(ctx, n.Stream())
	if err != nil {
		return 0, fmt.Errorf("count the unfinished requests of volume %d: %w", n, err)
	}
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		if isWorkConsumer(info.Config) && !isAdopted(info) {
			left += info.NumPending + uint64(info.NumAckPending)
		}
	}
	if err := list.Err(); err != nil {
		return 0, fmt.Errorf("count the unfinished requests of volume %d: %w", n, err)
	}
	return left, nil
}
