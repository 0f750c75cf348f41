package worker

import "context"

// base is the base heap of one kind of worker: the first worker of a pool makes
// it, the others receive it, which takes them a third of the time and of the
// processor. No user code has been near the worker that made it.
type base struct {
	// making holds a token while no worker makes the heap.
	making chan struct{}
	made   chan struct{} // closed once heap is set
	heap   []byte
}

// newBases returns the base heaps of a pool, by whether tasks are stateful.
func newBases() map[bool]*base { return map[bool]*base{true: newBase(), false: newBase()} }

func newBase() *base {
	b := &base{making: make(chan struct{}, 1), made: make(chan struct{})}
	b.making <- struct{}{}
	return b
}

// greet waits until a worker is ready. Workers of one kind that start at the same
// time wait for the one of them that makes the base heap.
func (p *Pool) greet(ctx context.Context, w *process, stateful bool) error {
	b := p.bases[stateful]
	// Once the heap is made, the token is gone.
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
	b.making <- struct{}{} // the next one makes it
	return err
}
