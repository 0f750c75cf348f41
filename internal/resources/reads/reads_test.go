package reads_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"daybook/internal/resources/reads"
)

func take(t *testing.T, g *reads.Gate, tenant string) *reads.Permit {
	t.Helper()
	p := g.Permit(tenant)
	if err := p.Take(t.Context()); err != nil {
		t.Fatalf("%s: %v", tenant, err)
	}
	return p
}

// Reads of one tenant run one after the other, with pauses as long as the reads. A read
// of another tenant waits for one of them at most.
func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := reads.New(reads.Options{Running: 1})
		start := time.Now()
		crowd := make(chan time.Duration, 10)
		first := take(t, g, "crowd")
		for range 3 {
			go func() {
				p := take(t, g, "crowd")
				crowd <- time.Since(start)
				time.Sleep(100 * time.Millisecond)
				p.Yield()
			}()
		}
		other := make(chan time.Duration, 1)
		synctest.Wait()
		go func() {
			p := take(t, g, "other")
			other <- time.Since(start)
			p.Yield()
		}()
		synctest.Wait()
		if s := g.Stats(); s != (reads.Stats{Running: 1, Waiting: 4}) {
			t.Errorf("%+v", s)
		}
		time.Sleep(100 * time.Millisecond)
		first.Yield()
		if at := <-other; at != 100*time.Millisecond {
			t.Errorf("the read of another tenant runs after %v", at)
		}
		for i := range 3 {
			if at, want := <-crowd, time.Duration(i+1)*200*time.Millisecond; at != want {
				t.Errorf("read %d of the crowd runs after %v, want %v", i, at, want)
			}
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if s := g.Stats(); s != (reads.Stats{}) {
			t.Errorf("after all: %+v", s)
		}
	})
}

// A tenant with too many reads is refused, at once or after Options.Patience. Other
// tenants are not refused, and neither is a read that has an answer to finish.
func TestCrowdIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := reads.New(reads.Options{Running: 1, Waiting: 2, Patience: 3 * time.Second})
		started := take(t, g, "crowd")
		started.Yield()
		held := take(t, g, "crowd")
		start := time.Now()
		late := make(chan error, 2)
		for range 2 {
			go func() { late <- g.Permit("crowd").Take(t.Context()) }()
		}
		synctest.Wait()
		busy, ok := errors.AsType[*reads.BusyError](g.Permit("crowd").Take(t.Context()))
		if !ok || busy.Waiting != 2 || time.Since(start) != 0 {
			t.Errorf("a third read: %v after %v", busy, time.Since(start))
		}
		continued := make(chan error, 1)
		go func() { continued <- started.Continue(t.Context()) }()
		for range 2 {
			if err := <-late; err == nil || time.Since(start) != 3*time.Second {
				t.Errorf("a read that waits: %v after %v", err, time.Since(start))
			}
		}
		take(t, g, "other").Yield() // beside a read that runs long
		held.Yield()
		if err := <-continued; err != nil {
			t.Error(err)
		}
		started.Yield()
		if s := g.Stats(); s != (reads.Stats{Refused: 3}) {
			t.Errorf("%+v", s)
		}
	})
}

// A client that leaves the queue holds nothing.
func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := reads.New(reads.Options{Running: 1})
		held := take(t, g, "a")
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { gone <- g.Permit("a").Take(ctx) }()
		go func() { gone <- g.Permit("b").Take(ctx) }()
		synctest.Wait()
		leave()
		for range 2 {
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		held.Yield()
		held.Yield()
		take(t, g, "b").Yield()
		take(t, g, "a").Yield()
		if s := g.Stats(); s != (reads.Stats{}) {
			t.Errorf("%+v", s)
		}
	})
}

// A permit is not held while its request waits. It is held once for any number of
// callers. Requests that read little need none.
func TestWaitWithoutPermit(t *testing.T) {
	g := reads.New(reads.Options{Running: 2})
	p := take(t, g, "a")
	ctx := reads.With(t.Context(), p)
	_, leave, err := g.Enter(ctx, "a") // would wait for itself
	if err != nil {
		t.Fatal(err)
	}
	leave()
	inside, leave, err := g.Enter(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	err = reads.Wait(inside, func() error {
		take(t, g, "b").Yield() // a piece that waits lets others of its tenant run
		return nil
	})
	if leave(); err != nil || g.Stats().Running != 1 {
		t.Errorf("%v, %+v", err, g.Stats())
	}
	err = reads.Wait(ctx, func() error {
		take(t, g, "a").Yield()
		return p.Continue(ctx)
	})
	if err != nil || g.Stats().Running != 1 {
		t.Errorf("%v, %+v", err, g.Stats())
	}
	p.Yield()
	light := g.Permit("a")
	if err := light.Continue(t.Context()); err != nil || g.Stats().Running != 0 {
		t.Errorf("a light request: %v, %+v", err, g.Stats())
	}
	var none *reads.Permit
	if err := errors.Join(none.Take(ctx), none.Continue(ctx)); err != nil {
		t.Error(err)
	}
	none.Yield()
}

// A read that waited for something other than the processor does not delay the next
// read of its tenant for that time.
func TestWaitedWithPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := reads.New(reads.Options{Running: 1})
		for _, waited := range []bool{false, true} {
			p, next := take(t, g, "a"), g.Permit("a")
			taken := make(chan error)
			go func() { taken <- next.Take(t.Context()) }()
			synctest.Wait()
			time.Sleep(700 * time.Millisecond)
			if waited {
				reads.ReportWait(reads.With(t.Context(), p))
			}
			yielded := time.Now()
			p.Yield()
			if err := <-taken; err != nil {
				t.Fatal(err)
			}
			if pause := time.Since(yielded); (pause == 0) != waited {
				t.Errorf("waited: %v; the next read starts %v later", waited, pause)
			}
			next.Yield()
		}
		reads.ReportWait(t.Context()) // a request without a permit
	})
}

// A read that waited and then computes long keeps reads of other tenants waiting for
// holdTime at most.
func TestWaitedReadsLetOthersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := reads.New(reads.Options{Running: 1})
		p := take(t, g, "a")
		time.Sleep(100 * time.Millisecond)
		reads.ReportWait(reads.With(t.Context(), p))
		start := time.Now()
		take(t, g, "b").Yield()
		if took := time.Since(start); took != 250*time.Millisecond {
			t.Errorf("another tenant waits %v", took)
		}
		p.Yield()
		if s := g.Stats(); s != (reads.Stats{}) {
			t.Errorf("%+v", s)
		}
	})
}

// A long read lets others of its tenant run between two pieces, and holds no permit
// while it waits for a retry.
func TestLongReadsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := reads.New(reads.Options{Running: 1})
		long := take(t, g, "a")
		ctx := reads.With(t.Context(), long)
		start := time.Now()
		other := make(chan time.Duration, 1)
		go func() {
			p := take(t, g, "a")
			other <- time.Since(start)
			p.Yield()
		}()
		synctest.Wait()
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			if err := reads.Pass(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if at := <-other; at != 600*time.Millisecond { // 300 ms and as long a pause
			t.Errorf("another read runs after %v", at)
		}
		long.Yield()
		if err := long.Continue(ctx); err != nil { // held for less than holdTime
			t.Fatal(err)
		}
		tries := 0
		try := reads.RetryFunc(ctx, func() error {
			if g.Stats().Running != 1 {
				t.Errorf("try %d: %+v", tries, g.Stats())
			}
			if tries++; tries < 3 {
				return errors.New("no memory")
			}
			return nil
		})
		for range 2 {
			if try() == nil || g.Stats().Running != 0 {
				t.Errorf("after try %d: %+v", tries, g.Stats())
			}
		}
		if err := try(); err != nil || g.Stats().Running != 1 {
			t.Errorf("at last: %v, %+v", err, g.Stats())
		}
		long.Yield()
		if err := errors.Join(reads.Pass(ctx), reads.Pass(t.Context())); err != nil || g.Stats() != (reads.Stats{}) {
			t.Errorf("%v, %+v", err, g.Stats())
		}
	})
}

// Clients of one tenant that page through lists wait and are not refused. The same
// holds for one client beside many busy tenants.
func TestHonestClientsAreNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := reads.New(reads.Options{Running: 1})
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		read := func(tenant string) {
			p := g.Permit(tenant)
			if err := p.Take(ctx); err != nil && ctx.Err() == nil && tenant == "honest" {
				t.Error(err)
				stop()
			}
			time.Sleep(500 * time.Millisecond)
			p.Yield()
		}
		var clients sync.WaitGroup
		for range 20 {
			clients.Go(func() {
				for range 5 {
					read("honest")
				}
			})
		}
		clients.Wait()
		for i := range 64 {
			for range 3 {
				clients.Go(func() {
					for ctx.Err() == nil {
						read(fmt.Sprint("busy", i))
					}
				})
			}
		}
		synctest.Wait()
		start := time.Now()
		for range 5 {
			read("honest")
		}
		t.Logf("five reads beside 64 busy tenants take %v", time.Since(start))
		stop()
		clients.Wait()
	})
}
