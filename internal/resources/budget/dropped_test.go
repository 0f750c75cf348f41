package budget

import "testing"

// Dropped large requests run the collector if they would not fit into the share beside
// the held memory, and not each time.
func TestDroppedRequests(t *testing.T) {
	const mib = 1 << 20
	c := &fakeCollector{}
	b := New(Options{Answers: 192 * mib, Runs: 1, Cache: 1, Collect: c.collect, Cycles: func() uint64 { return c.cycles }})
	request := func(n int64) {
		a := b.Answer("a", 1)
		defer a.Release()
		if err := a.TakeOnce(n); err != nil {
			t.Fatal(err)
		}
		a.Drop(n)
		if held := a.Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	}
	for range 40 {
		request(5 * mib)
	}
	if c.asked != 1 {
		t.Errorf("%d collections for 200 MiB of garbage in a share of 192 MiB", c.asked)
	}
	request(60 * mib)
	request(60 * mib)
	request(60 * mib)
	request(60 * mib)
	if c.asked != 2 {
		t.Errorf("%d collections for 240 MiB more", c.asked)
	}
}

// A request with the longest source fits beside a request of another tenant of any size
// and speed.
func TestLargeRequestsOfOthersFit(t *testing.T) {
	const mib = 1 << 20
	for _, size := range []int64{4 * mib, 60 * mib, 64 * mib, 96 * mib, 200 * mib, 400 * mib} {
		b := New(Split(512 * mib))
		for range 100 {
			a := b.Answer("a", 1)
			_ = a.TakeOnce(a.Limit(size))
		}
		a := b.Answer("b", 1)
		if err := a.TakeOnce(a.Limit(64 * mib)); err != nil {
			t.Errorf("beside requests of %d MiB that hold %d MiB: %v", size/mib, b.answersUsed()/mib, err)
		}
	}
}
