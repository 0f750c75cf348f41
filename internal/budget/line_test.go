package budget_test

import (
	"context"
	"testing"
	"time"

	"daybook/internal/budget"
)

// A large answer gets memory although answers of other tenants take each piece that
// becomes free, and those that only wait take turns with it.
func TestLargeAnswersTakeTurns(t *testing.T) {
	const mib = 1 << 20
	b := budget.New(budget.Options{Answers: 192 * mib, Runs: mib, Cache: mib, Patience: time.Minute})
	var held []*budget.Account
	for range 20 {
		for _, tenant := range []string{"a", "b", "c"} {
			a := b.Answer(tenant, 1)
			if a.Take(8*mib) == nil {
				held = append(held, a)
			}
		}
	}
	large := b.Answer("quiet", 1)
	got := make(chan error, 1)
	go func() {
		got <- budget.Retry(budget.With(context.Background(), large), func() error { return large.Take(90 * mib) })
	}()
	for deadline := time.Now().Add(3 * time.Second); ; {
		select {
		case err := <-got:
			if err != nil {
				t.Fatal(err)
			}
			small := b.Answer("d", 1)
			defer small.Release()
			if err := small.Take(4 * mib); err != nil {
				t.Errorf("a small answer beside it: %v", err)
			}
			return
		default:
		}
		if len(held) == 0 {
			time.Sleep(time.Millisecond) // it is the only one, and gets its memory
			continue
		}
		// One ends, and another one of the same kind comes at once.
		held[0].Release()
		next := b.Answer([]string{"a", "b", "c"}[len(held)%3], 1)
		held = held[1:]
		if next.Take(8*mib) == nil {
			held = append(held, next)
		}
		if time.Now().After(deadline) {
			t.Fatal("the large answer got no memory")
		}
		time.Sleep(time.Millisecond)
	}
}
