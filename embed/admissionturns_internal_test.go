package embed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"daybook/ledger"
)

// One tenant with many admissions takes one place, and another tenant gets the next one.
func TestAdmissionTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open, stop := context.WithCancel(t.Context())
		turns := newAdmissionTurns(open)
		var mu sync.Mutex // guards running and order
		running := map[string]int{}
		var order []string
		next := make(chan struct{})
		admit := func(tenant string) {
			_, leave, err := turns.enter(t.Context(), tenant)
			if err != nil {
				return // the server closes
			}
			mu.Lock()
			running[tenant]++
			order = append(order, tenant)
			mu.Unlock()
			<-next
			mu.Lock()
			running[tenant]--
			mu.Unlock()
			leave()
		}
		enter := func(tenant string) {
			go admit(tenant)
			synctest.Wait()
		}
		for range waitingAdmissions {
			enter("loud")
		}
		enter("acme")
		enter("beta")
		if fmt.Sprint(order, running) != "[loud acme] map[acme:1 loud:1]" {
			t.Fatalf("%v run: %v", running, order)
		}
		var full *ledger.Error
		if _, _, err := turns.enter(t.Context(), "loud"); !errors.As(err, &full) || full.Code != ledger.CodeExhausted {
			t.Errorf("beyond the limit: %v", err)
		}
		next <- struct{}{}
		synctest.Wait()
		if order[2] != "beta" {
			t.Errorf("the place went to %s", order[2])
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		if _, _, err := turns.enter(left, "acme2"); !errors.Is(err, context.Canceled) {
			t.Errorf("of a client that left: %v", err)
		}
		stop()
		close(next)
		synctest.Wait()
		if fmt.Sprint(running) != "map[acme:0 beta:0 loud:0]" || len(turns.tenants) != 0 || len(turns.places) != 0 {
			t.Errorf("at the end: %v %v", running, turns.tenants)
		}
		if _, _, err := turns.enter(t.Context(), "acme"); !errors.Is(err, errAdmissionClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}
