package connections

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A client with little surplus work does not wait for the many connections of another
// address, and waits for one portion of each other connection of its own address.
func TestTurnsOfAddresses(t *testing.T) {
	t.Parallel()
	const connections, each = 1000, 11
	attacker, other := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	synctest.Test(t, func(t *testing.T) {
		var p turnQueue
		started := time.Now()
		var all sync.WaitGroup
		for range connections {
			all.Go(func() {
				if err := p.spend(attacker, each, nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for address, most := range map[netip.Prefix]time.Duration{other: 2 * portionTime, attacker: (connections + 1) * portionTime} {
			asked := time.Now()
			if err := p.spend(address, 1, nil); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(asked); waited > most {
				t.Errorf("a client of %v waits %v for one portion, longer than %v", address, waited, most)
			}
		}
		all.Wait()
		// All portions together take as long as in one line.
		if took, want := time.Since(started), (connections*each+2-portionBurst)*portionTime; took != want {
			t.Errorf("the portions take %v, not %v", took, want)
		}
		if p.line.Len() > 0 || len(p.byAddress) > 0 {
			t.Errorf("%d addresses of %d wait for nothing", p.line.Len(), len(p.byAddress))
		}
	})
}

// A connection that is closed for a new one, or because its time is over, stops waiting
// for its turn.
func TestClosedConnectionsLeaveTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Total: 1, Logger: slog.New(slog.DiscardHandler)})
		l.surplus.next = time.Now().Add(time.Hour) // others have turns before
		ended := make(chan error, 3)
		// wait returns a connection that waits for its turn.
		wait := func() *conn {
			c := l.admit(&wireConn{closed: make(chan struct{})})
			f := newFrameConn(c, c)
			c.frames.Store(f)
			f.owedPortions = 3
			go func() {
				_, err := f.Read(make([]byte, 1))
				ended <- err
			}()
			synctest.Wait()
			return c
		}
		has := func(what string, waiting int) {
			t.Helper()
			synctest.Wait()
			l.surplus.mu.Lock()
			defer l.surplus.mu.Unlock()
			n := 0
			for _, e := range l.surplus.byAddress {
				n += e.Value.(*lane).waiting.Len()
			}
			if n != waiting || l.surplus.connections.Load() != int64(waiting) {
				t.Errorf("%s: %d connections wait of %d", what, n, l.surplus.connections.Load())
			}
		}
		wait()
		second := wait()
		has("an idle connection is closed", 1)
		l.begin(second)
		if !wait().spare {
			t.Fatal("a connection beyond the bound is no spare one")
		}
		has("one is beyond the bound", 2)
		time.Sleep(spareTime)
		has("the time of a spare connection is over", 1)
		l.end(second)
		l.closeIdle()
		has("the server ends", 0)
		for range 3 {
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Errorf("a connection that is closed ends with %v", err)
			}
		}
	})
}
