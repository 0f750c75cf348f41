package owner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A client that attaches again to the same owner is served once its former connection has
// ended, or takes too long to end. Other clients do not wait.
func TestClientsAttachInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClients()
		ctx := t.Context()
		first := c.waitForPrevious(ctx, "a", 0)
		c.waitForPrevious(ctx, "b", 0)()
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			first()
		}()
		second := c.waitForPrevious(ctx, "a", 1)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("the second connection waits for %v", waited)
		}
		began = time.Now()
		third := c.waitForPrevious(ctx, "a", 1)
		if waited := time.Since(began); waited != endWait {
			t.Errorf("beside a connection that does not end the next one waits for %v", waited)
		}
		second()
		gone, stop := context.WithCancel(ctx)
		stop()
		began = time.Now()
		c.waitForPrevious(gone, "a", 1)()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the connection of an owner that ends waits for %v", waited)
		}
		third()
		if len(c.serving) != 0 {
			t.Errorf("%d connections are kept", len(c.serving))
		}
	})
}
