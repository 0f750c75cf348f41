package access

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"daybook/ledger"
)

// enterFor makes changes of a tenant from several clients for a time, and returns how
// many.
func enterFor(t *testing.T, s *share, tenant string, clients int, each, d time.Duration) (n int) {
	t.Helper()
	done := make(chan int)
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	for range clients {
		go func() {
			n := 0
			for ; ctx.Err() == nil; n++ {
				if err := s.enter(ctx, tenant, each); err != nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			done <- n
		}()
	}
	for range clients {
		n += <-done
	}
	return n
}

// slowShare is a share on a machine as slow as the one that costs were measured on.
func slowShare() *share {
	begin := time.Now()
	return &share{speed: speed{used: func() time.Duration { return time.Hour + 8*time.Since(begin) }}}
}

// A tenant alone makes as many changes as it likes.
func TestShareOfOneTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slowShare()
		const clients = 4
		if n := enterFor(t, s, "loud", clients, 10*time.Millisecond, 2*time.Second); n < clients*1900 {
			t.Errorf("%d changes in 2 s", n)
		}
	})
}

// While another tenant asks, a loud one gets what all together may use, less what the
// other one uses, which never waits.
func TestShareBesideAQuietTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slowShare()
		const length, cost = 4 * time.Second, 10 * time.Millisecond
		loud := make(chan int)
		go func() { loud <- enterFor(t, s, "loud", 8, cost, length) }()
		for begin := time.Now(); time.Since(begin) < length; time.Sleep(100 * time.Millisecond) {
			asked := time.Now()
			if err := s.enter(t.Context(), "quiet", 2*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(asked); waited > 0 {
				t.Errorf("the quiet tenant waited %v", waited)
			}
		}
		want := payRate() * length.Seconds() / cost.Seconds()
		if n := float64(<-loud); n > 1.1*want || n < 0.8*want {
			t.Errorf("%v changes, want about %v", n, want)
		}
	})
}

// Tenants that all ask for more than there is get the same.
func TestShareOfEqualTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slowShare()
		const length = 8 * time.Second
		got := make(chan int)
		cost := []time.Duration{5 * time.Millisecond, 20 * time.Millisecond}
		go func() { got <- enterFor(t, s, "small", 4, cost[0], length) }()
		small := enterFor(t, s, "large", 2, cost[1], length) // either order
		other := <-got
		times := []float64{float64(max(small, other)) * cost[0].Seconds(), float64(min(small, other)) * cost[1].Seconds()}
		for _, used := range times {
			if want := payRate() * length.Seconds() / 2; used > 1.15*want || used < 0.8*want {
				t.Errorf("a tenant used %v s, want about %v s", used, want)
			}
		}
	})
}

// A change that would wait for too long is refused with the time of the next try, and
// what waited leaves nothing behind.
func TestShareRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slowShare()
		stop := make(chan struct{})
		quiet := make(chan struct{})
		go func() {
			defer close(quiet)
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
					_ = s.enter(t.Context(), "quiet", time.Millisecond)
				}
			}
		}()
		time.Sleep(200 * time.Millisecond)
		refused, entered := 0, 0
		errs := make(chan error)
		const changes = 200
		for range changes {
			go func() { errs <- s.enter(t.Context(), "loud", 400*time.Millisecond) }()
		}
		for range changes {
			err := <-errs
			var e *ledger.Error
			switch {
			case err == nil:
				entered++
			case errors.As(err, &e) && e.Code == ledger.CodeExhausted && e.RetryAfter > 0:
				refused++
			default:
				t.Errorf("refused with %v", err)
			}
		}
		if entered < 5 || refused < changes/2 {
			t.Errorf("%d changes passed, %d were refused", entered, refused)
		}
		close(stop)
		<-quiet
		time.Sleep(5 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.settle(time.Now()); len(s.debts) > 0 {
			t.Errorf("%d tenants are kept", len(s.debts))
		}
	})
}

// On a fast machine changes cost less, down to a tenth, and never more than usual.
func TestSpeed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ used, want float64 }{{3, 1}, {1, 1}, {0.3, 0.3}, {0.01, leastScale}} {
		now, total := time.Unix(0, 0), time.Minute
		s := speed{used: func() time.Duration { return total }}
		var got time.Duration
		for range 1000 { // a change of 10 ms every 10 ms
			got = s.cost(10*time.Millisecond, now)
			now = now.Add(10 * time.Millisecond)
			total += time.Duration(test.used * float64(10*time.Millisecond))
		}
		if scale := got.Seconds() / 0.01; scale < 0.95*test.want || scale > 1.05*test.want {
			t.Errorf("where the server uses %v of the cost, a change costs %v of it, want %v", test.used, scale, test.want)
		}
	}
	// A measurement needs changes: an idle time says nothing.
	now, total := time.Unix(0, 0), time.Minute
	s := speed{used: func() time.Duration { return total }}
	for range 20 {
		now = now.Add(time.Second)
		if got := s.cost(10*time.Millisecond, now); got != 10*time.Millisecond {
			t.Errorf("after an idle second a change of 10 ms costs %v", got)
		}
	}
	if processTime() <= 0 {
		t.Error("the processor time of this process is not known")
	}
}
