package budget

import (
	"context"
	"testing"
)

// fakeCollector counts collections.
type fakeCollector struct{ asked, cycles uint64 }

func (c *fakeCollector) collect() {
	c.asked++
	c.cycles++
}

func collected(share int64) (*Budget, *fakeCollector) {
	c := &fakeCollector{}
	return New(Options{Answers: 1, Runs: share, Cache: 1, Collect: c.collect, Cycles: func() uint64 { return c.cycles }}), c
}

// hold makes a run hold n bytes and give them back.
func hold(t *testing.T, b *Budget, n int64) {
	t.Helper()
	a := b.Run()
	if err := a.Reserve(context.Background(), n); err != nil {
		t.Fatal(err)
	}
	a.Release()
}

// The collector runs if garbage and heaps in use together would exceed the share, and
// not after each heap.
func TestCollectionsAreBounded(t *testing.T) {
	const mib = 1 << 20
	b, c := collected(256 * mib)
	for range 12 {
		hold(t, b, 20*mib)
	}
	if c.asked != 0 {
		t.Errorf("%d collections for 240 MiB of garbage in a share of 256 MiB", c.asked)
	}
	hold(t, b, 20*mib)
	if c.asked != 1 {
		t.Errorf("%d collections for 260 MiB of garbage", c.asked)
	}
	other := b.Run()
	if err := other.Reserve(t.Context(), 220*mib); err != nil {
		t.Fatal(err)
	}
	for range 16 { // garbage of 64 MiB is too much if the share is used up
		hold(t, b, 20*mib)
	}
	if c.asked != 1+4 {
		t.Errorf("%d collections, want 5", c.asked)
	}
	other.Release()
	if c.asked != 5 {
		t.Errorf("%d collections, want 5: 240 MiB of garbage fit when nothing else is used", c.asked)
	}
}

// A run that takes memory makes the collector free the garbage of earlier runs.
func TestCollectionBeforeALargeHeap(t *testing.T) {
	const mib = 1 << 20
	b, c := collected(256 * mib)
	hold(t, b, 200*mib)
	if c.asked != 0 {
		t.Errorf("%d collections", c.asked)
	}
	hold(t, b, 100*mib)
	if c.asked != 1 {
		t.Errorf("%d collections, want one before the heap of 100 MiB", c.asked)
	}
}

// Memory that the collector has freed is no garbage any longer. This is certain after
// two cycles, because one cycle may have started before the memory was returned.
func TestCollectorRunsAutomatically(t *testing.T) {
	const mib = 1 << 20
	b, c := collected(256 * mib)
	for range 20 {
		hold(t, b, 100*mib)
		c.cycles += 2
	}
	if c.asked != 0 {
		t.Errorf("%d collections", c.asked)
	}
	hold(t, b, 200*mib)
	c.cycles++
	hold(t, b, 100*mib)
	if c.asked != 1 {
		t.Errorf("%d collections after one cycle, want 1", c.asked)
	}
}
