package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/internal/store/jet"
)

// Release ends the delay of a request that was returned with one, so that it is delivered
// immediately, and waits until the server has stored that. pool is the pool of the request, and
// position the position of its requested event. A request that was never delivered, or is
// acknowledged, is left alone. A request that a runner has is delivered a second time; the
// receiver MUST ask with IsHeld before it acts.
func (s *Queue) Release(ctx context.Context, tenant, pool string, position uint64) error {
	if err := jet.CheckTokens(tenant, pool); err != nil {
		return fmt.Errorf("release the request at %d: %w", position, err)
	}
	v, ok := s.ledger.LiveAt(position)
	if !ok {
		return nil // a removed volume has no waiting request
	}
	ctx, cancel := context.WithTimeout(ctx, s.jet.Options.TryWait)
	defer cancel()
	got, err := s.jet.WorkJS.Consumer(ctx, v.Stream(), WorkConsumer(pool, tenant))
	switch {
	case errors.Is(err, natsjs.ErrConsumerNotFound):
		return nil // no request of this volume was delivered
	case err != nil:
		return fmt.Errorf("release the request at %d: %w", position, err)
	}
	info := got.CachedInfo()
	if info.NumAckPending == 0 || position > info.Delivered.Stream {
		return nil
	}
	if _, err := s.jet.WorkConn.RequestWithContext(ctx, workReply(info, position), nak(0)); err != nil {
		return fmt.Errorf("release the request at %d: %w", position, err)
	}
	s.announceReturned(pool, tenant, 0)
	return nil
}

// workReply returns the reply subject of a delivery that this process may not have. The
// server accepts any consumer sequence between its acknowledgement floor and its newest
// one. The newest one of info is valid for every position that was delivered before
// info was read, as long as the position is not acknowledged.
func workReply(info *natsjs.ConsumerInfo, position uint64) string {
	return fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", info.Stream, info.Name, position, info.Delivered.Consumer, time.Now().UnixNano())
}
