package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/internal/store/jet"
)

// Release has a request delivered at once that was given back with a delay, and
// waits until the server has noted it. pool is the request's pool and position
// that of its requested event. A request that was never delivered, or that is
// acknowledged, is left alone. One that a runner holds is delivered a second
// time: the receiver asks with Held before it acts.
func (s *Queue) Release(ctx context.Context, tenant, pool string, position uint64) error {
	if err := jet.CheckTokens(tenant, pool); err != nil {
		return fmt.Errorf("release the request at %d: %w", position, err)
	}
	v, ok := s.ledger.LiveAt(position)
	if !ok {
		return nil // a removed volume holds no request that waits
	}
	ctx, cancel := context.WithTimeout(ctx, s.jet.Options.TryWait)
	defer cancel()
	got, err := s.jet.WorkJS.Consumer(ctx, v.Stream(), WorkConsumer(pool, tenant))
	switch {
	case errors.Is(err, natsjs.ErrConsumerNotFound):
		return nil // nothing of this volume was ever delivered
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

// workReply makes the reply subject of a delivery that this process need not
// hold. The server takes any consumer sequence between its acknowledgement floor
// and its newest. The newest of info is such a one for every position that was
// delivered before info was read, as long as that is not acknowledged.
func workReply(info *natsjs.ConsumerInfo, position uint64) string {
	return fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", info.Stream, info.Name, position, info.Delivered.Consumer, time.Now().UnixNano())
}
