package budget_test

import (
	"context"
	"testing"
	"time"

	"daybook/internal/resources/budget"
)

// A large answer gets memory although answers of other tenants take each piece that
// becomes free. Waiting large answers take turns.
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
	for deadline := time.Now().Add(30 * time.Second); ; {
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
		// One answer ends, and another one of the same kind starts at once.
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

// The memory that an answer took after its wait is no longer kept for it.
func TestNothingIsKeptTwice(t *testing.T) {
	const mib = 1 << 20
	b := budget.New(budget.Options{Answers: 192 * mib, Runs: mib, Cache: mib, Patience: time.Minute})
	blocker := b.Answer("blocker", 1)
	if err := blocker.Take(150 * mib); err != nil {
		t.Fatal(err)
	}
	large := b.Answer("large", 1)
	defer large.Release()
	tried, took, finish, done := make(chan struct{}, 2), make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- budget.Retry(budget.With(context.Background(), large), func() error {
			tried <- struct{}{}
			if err := large.Take(40 * mib); err != nil {
				return err
			}
			close(took)
			<-finish
			return nil
		})
	}()
	<-tried
	blocker.Release()
	<-took
	other := b.Answer("other", 1)
	defer other.Release()
	if err := other.Take(100 * mib); err != nil {
		t.Errorf("40 of 192 MiB are held: %v", err)
	}
	close(finish)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
