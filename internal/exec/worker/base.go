package worker

import "context"

// base is the base heap of one kind of worker. The first worker of a pool creates it. The
// others receive it, which takes a third of the time and of the CPU time. No user code has
// run in the worker that created it.
type base struct {
	// making holds a token until a worker takes it to create the heap.
	making chan struct{}
	made   chan struct{} // closed when heap is set
	heap   []byte
}

// newBases returns the base heaps of a pool. The key is whether tasks are stateful.
func newBases() map[bool]*base { return map[bool]*base{true: newBase(), false: newBase()} }

func newBase() *base {
	b := &base{making: make(chan struct{}, 1), made: make(chan struct{})}
	b.making <- struct{}{}
	return b
}

// awaitReady waits until a worker is ready. Workers of one kind that start at the same
// time wait for the one of them that creates the base heap.
func (p *Pool) awaitReady(ctx context.Context, w *process, stateful bool) error {
	b := p.bases[stateful]
	// No worker puts the token back once the heap is created.
	select {
	case <-b.made:
		_, err := w.handshake(ctx, stateful, b.heap)
		return err
	case <-b.making:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	made, err := w.handshake(ctx, stateful, nil)
	if err == nil && len(made) > 0 {
		b.heap = made
		close(b.made)
		return nil
	}
	b.making <- struct{}{} // the next one creates it
	return err
}
