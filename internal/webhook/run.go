package webhook

import (
	"context"
	"fmt"
	"sync"

	"daybook/events"
)

// Run delivers until ctx is done, and then returns nil once every attempt under
// way is broken off: what it was for is tried again by the next Run. It returns
// an error when the ledger cannot be followed any more. Run it once at a time.
func (s *Service) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var couriers sync.WaitGroup
	defer couriers.Wait()
	defer stop()

	s.mu.Lock()
	s.deliver = func(h *hook) { s.startDeliverer(ctx, &couriers, h) }
	for _, h := range s.hooks {
		s.deliver(h)
	}
	from := s.applied
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.deliver = nil
	}()

	err := s.opts.Feed.Follow(ctx, from, func(batch []events.Event, _ uint64) error {
		s.advance(batch)
		return nil
	})
	if ctx.Err() != nil {
		return nil // that is how it is asked to end
	}
	return fmt.Errorf("follow the ledger for webhooks: %w", err)
}

// startDeliverer starts a courier for a webhook whose secret is here. The caller holds
// mu.
func (s *Service) startDeliverer(ctx context.Context, couriers *sync.WaitGroup, h *hook) {
	if !h.here {
		return
	}
	place, position, err := s.keep.openPlace(h.id, h.after)
	if err != nil {
		h.here = false
		s.opts.Logger.ErrorContext(ctx, "a webhook is not served", "webhook", h.id, "error", err)
		return
	}
	position = min(position, s.applied) // no position is beyond the end
	h.position, h.resting = position, false
	ctx, h.stop = context.WithCancel(ctx)
	ended := make(chan struct{})
	h.ended = ended
	c := &deliverer{s: s, h: h, place: place, client: newClient(s.opts), at: position, written: position, selector: s.selector(h)}
	couriers.Go(func() {
		defer close(ended)
		c.run(ctx)
	})
}
