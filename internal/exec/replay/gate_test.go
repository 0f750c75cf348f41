package replay_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"daybook/internal/exec/replay"
	"daybook/ledger"
)

// Tenants take places in turn, however many replays of one of them wait.
func TestGateSharesPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := replay.NewGate(1)
		leave, err := g.Enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		entered := make(chan string)
		for _, tenant := range []string{"a", "a", "a", "b", "c", "b"} {
			go func() {
				leave, err := g.Enter(t.Context(), tenant)
				if err != nil {
					t.Error(err)
					return
				}
				entered <- tenant
				leave()
			}()
			synctest.Wait() // the order of arrival
		}
		leave()
		var order []string
		for range 6 {
			order = append(order, <-entered)
		}
		if got := strings.Join(order, ""); got != "abcaba" {
			t.Errorf("the order is %s", got)
		}
	})
}

// A replay that is given up leaves its place to others, and a tenant cannot queue without
// limit.
func TestGateRefusesAndForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := replay.NewGate(1)
		leave, err := g.Enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		results := make(chan error, 1000)
		for range 300 {
			go func() {
				_, err := g.Enter(ctx, "a")
				results <- err
			}()
		}
		synctest.Wait()
		stop()
		synctest.Wait()
		var refused, cancelled int
		for range 300 {
			switch err := <-results; {
			case ledger.CodeOf(err) == ledger.CodeExhausted:
				refused++
			case errors.Is(err, context.Canceled):
				cancelled++
			}
		}
		if refused != 44 || cancelled != 256 {
			t.Errorf("%d refused, %d cancelled", refused, cancelled)
		}
		leave()
		for _, tenant := range slices.Repeat([]string{"a", "b"}, 3) {
			leave, err := g.Enter(t.Context(), tenant)
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
	})
}
