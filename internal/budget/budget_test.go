package budget_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"daybook/internal/budget"
)

func mustTake(t *testing.T, a *budget.Account, n int64) {
	t.Helper()
	if err := a.Take(t.Context(), n); err != nil {
		t.Fatalf("take %d: %v", n, err)
	}
}

// One tenant leaves as much as it holds to the others, and is refused after the
// patience, not before.
func TestAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{Answers: 100, Runs: 1, Cache: 1})
		one, two := b.Answer("a", 1), b.Answer("a", 2)
		mustTake(t, one, 40)
		start := time.Now()
		err := two.Take(t.Context(), 10) // counts twice: 60 of 100, 40 would be left
		if !budget.IsExhausted(err) || time.Since(start) != 2*time.Second {
			t.Fatalf("over half of the share: %v after %s; want a refusal after 2 s", err, time.Since(start))
		}
		mustTake(t, b.Answer("b", 1), 20)
		if s := b.Stats(); s.Answers != (budget.Usage{Used: 60, Size: 100}) || s.Refused != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestFirstAnswerMayTakeWhatFits(t *testing.T) {
	b := budget.New(budget.Options{Answers: 100, Runs: 1, Cache: 1})
	a := b.Answer("a", 1)
	mustTake(t, a, 100)
	a.Release()
	a.Release()
	mustTake(t, a, 1000) // it has ended: nothing is counted
	if used := b.Stats().Answers.Used; used != 0 {
		t.Errorf("%d bytes are held after the release", used)
	}
	if err := b.Answer("a", 1).Take(t.Context(), 101); !budget.IsExhausted(err) {
		t.Errorf("more than the share: %v", err)
	}
}

func TestAnswerWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{Answers: 100, Runs: 1, Cache: 1})
		one := b.Answer("a", 1)
		mustTake(t, one, 90)
		time.AfterFunc(time.Second, one.Release)
		mustTake(t, b.Answer("b", 1), 50)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		if err := b.Answer("c", 1).Take(ctx, 90); !errors.Is(err, gone) {
			t.Errorf("a client that left: %v", err)
		}
	})
}

func TestPieceGivesBack(t *testing.T) {
	b := budget.New(budget.Options{Answers: 100, Runs: 1, Cache: 1})
	a := b.Answer("a", 1)
	ctx := budget.With(t.Context(), a)
	mustTake(t, a, 10)
	for range 20 {
		if err := budget.Piece(ctx, func() error { return budget.Take(ctx, 30) }); err != nil {
			t.Fatal(err)
		}
	}
	if a.Held() != 10 {
		t.Errorf("%d bytes are held; want those from before", a.Held())
	}
	if err := budget.Take(t.Context(), 1<<40); err != nil {
		t.Errorf("without an account: %v", err)
	}
}

// Readers that hold all of their share do not delay a run, and a run that needs
// more than there is gets all of the share.
func TestRunsHaveAShareOfTheirOwn(t *testing.T) {
	b := budget.New(budget.Options{Answers: 10, Runs: 100, Cache: 1})
	mustTake(t, b.Answer("a", 1), 10)
	release, err := b.Run(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		release, err := b.Run(ctx, 1)
		release()
		done <- err
	}()
	for b.Stats().RunsWaiting == 0 {
		time.Sleep(time.Millisecond)
	}
	release()
	release()
	if err := <-done; err != nil {
		t.Errorf("the run that waited: %v", err)
	}
	release, _ = b.Run(t.Context(), 100)
	defer release()
	cancel()
	if _, err := b.Run(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a run whose time is up: %v", err)
	}
}
