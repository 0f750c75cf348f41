package audit

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// hashedEvent is an event with everything that can be computed from the event alone.
type hashedEvent struct {
	stored events.Stored
	leaf   proof.Hash
	event  events.Event
	// err is set if the event or its line is not valid.
	err error
}

// ownTypes is the beginning of the types of events that Daybook records. Others can be of any form.
const ownTypes = "daybook."

// prepare hashes and decodes a stored message.
func prepare(buf []byte, m events.Stored) (hashedEvent, []byte) {
	p := hashedEvent{stored: m}
	p.leaf, buf, p.err = proof.HashLeaf(buf, eventproof.RecordOf(m))
	if p.err == nil {
		p.event, p.err = events.Decode(m.Seq, m.Message())
	}
	if p.err == nil && strings.HasPrefix(string(p.event.Type), ownTypes) {
		if err := proof.CheckPayload(m.Body); err != nil {
			p.event, p.err = events.Event{}, fmt.Errorf("event %d: %w", m.Seq, err)
		}
	}
	return p, buf
}

// parallelOrdered computes results in parallel and passes them to take in the order of the work, until
// produce returns or take fails.
func parallelOrdered[W, R any](ctx context.Context, produce func(emit func(W) error) error, compute func(W) R, take func(R) error) error {
	type job struct {
		work   W
		result R
		done   chan struct{}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cores := max(2, runtime.GOMAXPROCS(0))
	jobs, ordered := make(chan *job, cores), make(chan *job, 2*cores)
	var workers sync.WaitGroup
	for range cores {
		workers.Go(func() {
			for j := range jobs {
				j.result = compute(j.work)
				close(j.done)
			}
		})
	}
	taken := make(chan error, 1)
	go func() {
		var err error
		for j := range ordered {
			<-j.done
			if err == nil {
				if err = take(j.result); err != nil {
					stop(err)
				}
			}
		}
		taken <- err
	}()
	err := produce(func(w W) error {
		j := &job{work: w, done: make(chan struct{})}
		select {
		case ordered <- j:
			jobs <- j
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(jobs)
	close(ordered)
	workers.Wait()
	if terr := <-taken; terr != nil {
		return terr
	}
	return err
}
