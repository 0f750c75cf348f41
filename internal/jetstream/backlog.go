package jetstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"daybook/events"
)

// backlogEvery is how often a runner looks for work in sealed volumes, as long
// as some of it is not done.
const backlogEvery = time.Second

// errNextVolume ends a request for work: there is another volume to ask.
var errNextVolume = errors.New("the next volume was opened")

// backlog is what runners have to do in sealed volumes. Nothing is added to those
// any more, so one that is done with is done with for good.
type backlog struct {
	mu sync.Mutex
	// arranged is the list of volumes for which consumers are known to exist.
	arranged *volumes
	left     []volume // oldest first
	done     map[events.Volume]bool
}

// arrange makes sure that there is a consumer of the active volume, and of each
// sealed one that has something left to do, and returns the list of volumes.
func (c *consumption) arrange(ctx context.Context) (*volumes, error) {
	now := c.store.volumes()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.arranged == now {
		return now, nil
	}
	if _, err := c.ensure(ctx, now.active()); err != nil {
		return nil, err
	}
	if c.done == nil {
		c.done = map[events.Volume]bool{}
	}
	c.left = nil
	for _, v := range now.sealed() {
		if c.done[v.number] || v.gone != nil {
			continue
		}
		info, err := c.ensure(ctx, v)
		if err != nil {
			return nil, err
		}
		if info.NumPending == 0 && info.NumAckPending == 0 {
			c.done[v.number] = true
			continue
		}
		c.left = append(c.left, v)
	}
	c.arranged = now
	return now, nil
}

// forget makes arrange look again.
func (c *consumption) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arranged = nil
}

// unfinished are the sealed volumes with something left to do, oldest first.
func (c *consumption) unfinished() []volume {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.left)
}

// nothingIn notes that a sealed volume had no work to hand out. What others have
// in hand may come back.
func (c *consumption) nothingIn(ctx context.Context, v volume) error {
	got, err := c.store.work.Consumer(ctx, v.stream(), WorkConsumer(c.pool))
	if err != nil {
		return err
	}
	if info := got.CachedInfo(); info.NumPending > 0 || info.NumAckPending > 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[v.number] = true
	c.left = slices.DeleteFunc(c.left, func(w volume) bool { return w.number == v.number })
	return nil
}
