package webhook

import (
	"context"
	"fmt"
	"sync"

	"daybook/events"
)

// Run delivers events until ctx is done. It then cancels every attempt in progress and
// returns nil; the next Run tries their events again. It returns an error if it can no
// longer follow the ledger. The caller MUST NOT call Run concurrently.
func (s *Service) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var deliverers sync.WaitGroup
	defer deliverers.Wait()
	defer stop()

	s.mu.Lock()
	s.deliver = func(h *hook) { s.startDeliverer(ctx, &deliverers, h) }
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
		return nil // the caller ended Run
	}
	return fmt.Errorf("follow the ledger for webhooks: %w", err)
}

// startDeliverer starts a deliverer for a webhook whose secret is available. The caller
// must hold mu.
func (s *Service) startDeliverer(ctx context.Context, deliverers *sync.WaitGroup, h *hook) {
	if !h.hasSecret {
		return
	}
	place, position, err := s.secrets.openPosition(h.id, h.after)
	if err != nil {
		h.hasSecret = false
		s.opts.Logger.ErrorContext(ctx, "cannot deliver for a webhook", "webhook", h.id, "error", err)
		return
	}
	position = min(position, s.applied) // a position is never after the end of the ledger
	h.position, h.isResting = position, false
	ctx, h.stop = context.WithCancel(ctx)
	ended := make(chan struct{})
	h.ended = ended
	c := &deliverer{s: s, h: h, positionFile: place, client: newClient(s.opts), position: position, writtenPosition: position, selector: s.selector(h)}
	deliverers.Go(func() {
		defer close(ended)
		c.run(ctx)
	})
}
