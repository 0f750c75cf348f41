package access

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"daybook/ledger"
)

// enterFor makes changes of a tenant from several clients for a time, and returns their
// number.
func enterFor(t *testing.T, s *share, tenant string, clients int, each, d time.Duration) (n int) {
	t.Helper()
	done := make(chan int)
	ctx, stop := context.WithCancel(t.Context()) // without a deadline, which bounds waits
	defer stop()
	defer time.AfterFunc(d, stop).Stop()
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

// slow returns the speed of the machine that the costs were measured on.
func slow() speed {
	begin := time.Now()
	return speed{processTime: func() time.Duration { return time.Hour + 8*time.Since(begin) }}
}

// A tenant alone can make any number of changes.
func TestShareOfOneTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := share{speed: slow()}
		const clients = 4
		if n := enterFor(t, &s, "loud", clients, 10*time.Millisecond, 2*time.Second); n < clients*1900 {
			t.Errorf("%d changes in 2 s", n)
		}
	})
}

// While another tenant is active, a loud one gets the rest of the total rate. The other
// tenant never waits.
func TestShareBesideAQuietTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := share{speed: slow()}
		const length, cost = 4 * time.Second, 10 * time.Millisecond
		loud := make(chan int)
		go func() { loud <- enterFor(t, &s, "loud", 8, cost, length) }()
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

// Tenants that all request more than the total rate get equal shares.
func TestShareOfEqualTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := share{speed: slow()}
		const length = 8 * time.Second
		got := make(chan int)
		cost := []time.Duration{5 * time.Millisecond, 20 * time.Millisecond}
		go func() { got <- enterFor(t, &s, "small", 4, cost[0], length) }()
		small := enterFor(t, &s, "large", 2, cost[1], length) // either order
		other := <-got
		times := []float64{float64(max(small, other)) * cost[0].Seconds(), float64(min(small, other)) * cost[1].Seconds()}
		for _, used := range times {
			if want := payRate() * length.Seconds() / 2; used > 1.15*want || used < 0.8*want {
				t.Errorf("a tenant used %v s, want about %v s", used, want)
			}
		}
	})
}

// A change that would wait too long is refused with a retry time, and leaves no state.
func TestShareRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := share{speed: slow()}
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
		if entered < 3 || refused < changes/2 {
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

// loudBeside gives a tenant the maximum debt while another tenant is active.
func loudBeside(s *share, tenant string) {
	for range 10 {
		s.charge(tenant, maxDebt/5, time.Now())
		s.charge("other", time.Microsecond, time.Now())
	}
}

// A change whose request would end before its turn comes is refused in time. At the end
// of the request its client could not know whether the change was recorded.
func TestShareAnswersInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const answer = 700 * time.Millisecond
		s := share{speed: slow()}
		loudBeside(&s, "loud")
		began := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), answer)
		defer stop()
		if err := s.enter(ctx, "loud", time.Millisecond); ledger.CodeOf(err) != ledger.CodeExhausted {
			t.Errorf("refused with %v", err)
		}
		if took := time.Since(began); took > answer-appendTime {
			t.Errorf("refused after %v of %v", took, answer)
		}
		if held, refused := s.counts(); held != 1 || refused != 1 {
			t.Errorf("%d changes were held back, %d refused", held, refused)
		}
	})
}

// A tenant with waiting changes counts as active, also if it makes no new ones.
func TestShareOfAWaitingTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := share{speed: slow()}
		const cost = 100 * time.Millisecond
		loudBeside(&s, "waits")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error)
		const waiting = 20
		for range waiting {
			go func() { done <- s.enter(ctx, "waits", cost) }()
		}
		const length = shareTimeout - 500*time.Millisecond
		n := enterFor(t, &s, "loud", 1, cost, length)
		if most := int(payRate() * float64(length/cost)); n > most {
			t.Errorf("%d changes passed beside a tenant that waits, want at most %d", n, most)
		}
		stop()
		for range waiting {
			<-done
		}
	})
}

// A tenant whose change is being recorded counts as active, however long that takes.
func TestShareOfARecordingTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var u Changes
		u.share.speed = slow()
		loudBeside(&u.share, "loud")
		appended := u.Count(&view{}, "quiet", 0)
		time.Sleep(2 * activeFor)
		const cost, length = 100 * time.Millisecond, 5 * time.Second
		most := int(payRate()*float64(length/cost)) + 2 // the part that does not wait
		if n := enterFor(t, &u.share, "loud", 1, cost, length); n > most {
			t.Errorf("%d changes passed while one of another tenant is recorded, want at most %d", n, most)
		}
		appended(1)
		if n := enterFor(t, &u.share, "loud", 1, cost, 100*time.Millisecond); n <= most {
			t.Errorf("%d changes passed of a tenant that is alone", n)
		}
		if len(u.share.recording) != 0 {
			t.Errorf("changes of %v are still recorded", u.share.recording)
		}
	})
}

// A change that is not recorded has no cost.
func TestShareRefunds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &view{changed: make(chan struct{})}
		var u Changes
		u.share.speed = slow()
		u.share.charge("other", time.Millisecond, time.Now())
		for range 100 { // consecutive conflicts
			began := time.Now()
			appended, err := u.Admit(t.Context(), v, "tenant", 10<<10)
			if err != nil || time.Since(began) > 0 {
				t.Fatalf("admitted after %v: %v", time.Since(began), err)
			}
			appended(0)
		}
		u.share.mu.Lock()
		defer u.share.mu.Unlock()
		if u.share.debts["tenant"] != nil {
			t.Errorf("%v is owed", u.share.owed(u.share.debts["tenant"]))
		}
	})
}

// A change that is refused because of unapplied changes has no cost, also after Enter.
func TestEnteredRefunds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &view{changed: make(chan struct{}), stalled: errors.New("the projections stall")}
		var u Changes
		u.share.speed = slow()
		u.add(0, "tenant", 2*maxUnappliedBytes, false)
		u.share.charge("other", time.Millisecond, time.Now())
		for range 100 {
			began := time.Now()
			if err := u.Enter(t.Context(), "tenant"); err != nil || time.Since(began) > 0 {
				t.Fatalf("entered after %v: %v", time.Since(began), err)
			}
			if _, err := u.AdmitEntered(t.Context(), v, "tenant", 10<<10); !errors.Is(err, v.stalled) {
				t.Fatalf("admitted: %v", err)
			}
		}
		u.share.mu.Lock()
		defer u.share.mu.Unlock()
		if u.share.debts["tenant"] != nil {
			t.Errorf("%v is owed", u.share.owed(u.share.debts["tenant"]))
		}
	})
}

// A caller that waited in Enter does not wait again while it holds its locks.
func TestEnteredChangesDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &view{changed: make(chan struct{})}
		var u Changes
		u.share.speed = slow()
		loudBeside(&u.share, "loud")
		began := time.Now()
		if err := u.Enter(t.Context(), "loud"); err != nil {
			t.Fatal(err)
		}
		entered := time.Now()
		if entered.Sub(began) < 100*time.Millisecond {
			t.Errorf("entered after %v", entered.Sub(began))
		}
		appended, err := u.AdmitEntered(t.Context(), v, "loud", 100<<10)
		if err != nil || time.Since(entered) > 0 {
			t.Errorf("admitted after %v: %v", time.Since(entered), err)
		}
		appended(1)
		if n := u.Held()["share"]; n != (Held{Waited: 1}) {
			t.Errorf("held back: %+v", n)
		}
	})
}

// On a fast machine changes cost less, down to a tenth, and never more than the
// unscaled cost.
func TestSpeed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ used, want float64 }{{3, 1}, {1, 1}, {0.3, 0.3}, {0.01, minScale}} {
		now, total := time.Unix(0, 0), time.Minute
		s := speed{processTime: func() time.Duration { return total }}
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
	// Without changes, no scale is measured.
	now, total := time.Unix(0, 0), time.Minute
	s := speed{processTime: func() time.Duration { return total }}
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

// BenchmarkShare makes changes of many tenants that all have debt.
func BenchmarkShare(b *testing.B) {
	for _, tenants := range []int{10, 10_000} {
		b.Run(fmt.Sprint(tenants, " tenants"), func(b *testing.B) {
			names := make([]string, tenants)
			var s share
			now := time.Now()
			for i := range names {
				names[i] = fmt.Sprint("tenant ", i)
				s.charge(names[i], 20*time.Millisecond, now)
			}
			for i := 0; b.Loop(); i++ {
				now = now.Add(5 * time.Millisecond)
				s.charge(names[i%tenants], cost(1000), now)
			}
		})
	}
}
