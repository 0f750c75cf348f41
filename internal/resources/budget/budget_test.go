package budget_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"daybook/internal/resources/budget"
)

func mustTake(t *testing.T, a *budget.Account, n int64) {
	t.Helper()
	if err := a.Take(n); err != nil {
		t.Fatalf("take %d: %v", n, err)
	}
}

// One tenant leaves as much free as it holds, and is refused only after
// Options.Patience.
func TestAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{Answers: 100, Runs: 1, Cache: 1})
		one, two := b.Answer("a", 1), b.Answer("a", 2)
		mustTake(t, one, 40)
		start := time.Now()
		err := budget.Retry(budget.With(t.Context(), two), func() error { return two.Take(10) }) // counts twice: 60 of 100, 40 would be left
		if !budget.IsExhausted(err) || time.Since(start) != 2*time.Second {
			t.Fatalf("over half of the share: %v after %s; want a refusal after 2 s", err, time.Since(start))
		}
		mustTake(t, b.Answer("b", 1), 20)
		if s := b.Stats(); s.Answers != (budget.Usage{Used: 60, Size: 100}) || s.Refused != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Each refusal counts once: at once without Retry, and at the end of the outermost
// Retry. A wait that gets its memory does not count.
func TestRefusalsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{Answers: 100, Runs: 1, Cache: 1})
		one, two := b.Answer("a", 1), b.Answer("b", 1)
		mustTake(t, one, 80)
		ctx := budget.With(t.Context(), two)
		take := func() error { return budget.TakeOnce(ctx, 40) }
		for n, refused := range []func() error{
			take,
			func() error { return budget.Retry(ctx, take) },
			func() error { return budget.Retry(ctx, func() error { return budget.Retry(ctx, take) }) },
		} {
			if err := refused(); !budget.IsExhausted(err) || b.Stats().Refused != int64(n+1) {
				t.Errorf("refusal %d: %v, %d counted", n+1, err, b.Stats().Refused)
			}
		}
		time.AfterFunc(time.Second, one.Release)
		if err := budget.Retry(ctx, take); err != nil || b.Stats().Refused != 3 {
			t.Errorf("an answer that waited: %v, %d refusals", err, b.Stats().Refused)
		}
	})
}

// The only answer of a tenant may take more than half of the share, as a long request
// does while it is read.
func TestOnlyAnswerMayGrow(t *testing.T) {
	b := budget.New(budget.Options{Answers: 80, Runs: 1, Cache: 1})
	a := b.Answer("a", 1)
	for range 7 {
		mustTake(t, a, 10)
	}
	if err := a.Take(1); !budget.IsExhausted(err) {
		t.Errorf("the last eighth: %v", err)
	}
	mustTake(t, b.Answer("b", 1), 2)
}

// However much one tenant holds, in one answer or in many, small answers of others fit.
// The tenant cannot take the rest with a second large answer.
func TestSmallAnswersOfOthersFit(t *testing.T) {
	for _, piece := range []int64{840, 84, 1} {
		b := budget.New(budget.Options{Answers: 960, Runs: 1, Cache: 1})
		for b.Answer("a", 1).Take(piece) == nil {
		}
		for b.Answer("b", 1).Take(40) == nil {
		}
		for _, tenant := range []string{"c", "d"} {
			mustTake(t, b.Answer(tenant, 1), 30)
		}
		if err := b.Answer("a", 1).Take(1); !budget.IsExhausted(err) {
			t.Errorf("pieces of %d: tenant a takes what is left for small answers: %v", piece, err)
		}
	}
}

func TestFirstAnswerMayTakeWhatFits(t *testing.T) {
	b := budget.New(budget.Options{Answers: 100, Runs: 1, Cache: 1})
	a := b.Answer("a", 1)
	mustTake(t, a, 88)
	a.Release()
	a = b.Answer("a", 1)
	mustTake(t, a, 60) // also piece by piece
	mustTake(t, a, 20)
	if err := b.Answer("a", 1).Take(1); !budget.IsExhausted(err) {
		t.Errorf("another answer of the tenant: %v", err)
	}
	a.Release()
	a.Release()
	mustTake(t, a, 1000) // the answer has ended, so nothing is counted
	if used := b.Stats().Answers.Used; used != 0 {
		t.Errorf("%d bytes are held after the release", used)
	}
	if err := b.Answer("a", 1).Take(101); !budget.IsExhausted(err) {
		t.Errorf("more than the share: %v", err)
	}
}

// An answer returns what it took, waits for memory and starts again.
func TestAnswerWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{Answers: 100, Runs: 1, Cache: 1})
		one, two := b.Answer("a", 1), b.Answer("b", 1)
		mustTake(t, one, 80)
		time.AfterFunc(time.Second, one.Release)
		calls := 0
		ctx := budget.With(t.Context(), two)
		err := budget.Retry(ctx, func() error {
			calls++
			if err := budget.Take(ctx, 10); err != nil {
				return err
			}
			return budget.Take(ctx, 30)
		})
		if err != nil || calls != 2 || two.Held() != 40 {
			t.Errorf("after %d calls: %v, %d bytes held", calls, err, two.Held())
		}
		left, cancel := context.WithCancel(ctx)
		cancel()
		if err := budget.Retry(left, func() error { return budget.Take(left, 90) }); !budget.IsExhausted(err) {
			t.Errorf("a client that left: %v", err)
		}
		other := errors.New("other")
		if err := budget.Retry(ctx, func() error { return other }); !errors.Is(err, other) {
			t.Errorf("another error: %v", err)
		}
	})
}

func TestPieceReturnsMemory(t *testing.T) {
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

// Readers that hold their complete share do not delay a run. A run that needs more than
// its share gets all of it.
func TestRunsHaveAShareOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		b := budget.New(budget.Options{Answers: 10, Runs: 100 * mib, Cache: 1})
		mustTake(t, b.Answer("a", 1), 9)
		one, two := b.Run(), b.Run()
		if err := one.Reserve(t.Context(), 1000*mib); err != nil {
			t.Fatal(err)
		}
		if err := two.Reserve(t.Context(), mib); err != nil {
			t.Errorf("a small heap waits: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := budget.Take(budget.WithRun(ctx, two), 50*mib); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a run that reached its time limit: %v", err)
		}
		done := make(chan error)
		go func() { done <- two.Reserve(t.Context(), 50*mib) }()
		synctest.Wait()
		if s := b.Stats(); s.RunsWaiting != 1 || s.Runs.Used != 100*mib {
			t.Errorf("while it waits: %+v", s)
		}
		one.Release()
		one.Release()
		if err := <-done; err != nil {
			t.Errorf("the run that waited: %v", err)
		}
		// The next heap of a run replaces the one before.
		if err := two.Reserve(t.Context(), 60*mib); err != nil || b.Stats().Runs.Used != 60*mib {
			t.Errorf("the next heap: %v, %+v", err, b.Stats())
		}
		two.Release()
	})
}

// Data that stays in memory for all requests does not change the account of the run
// that loads it.
func TestWithoutAccounts(t *testing.T) {
	b := budget.New(budget.Options{Answers: 100, Runs: 100 << 20, Cache: 1})
	run := b.Run()
	ctx := budget.WithRun(budget.With(t.Context(), b.Answer("a", 1)), run)
	if err := run.Reserve(t.Context(), 50<<20); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1 << 20, 80 << 20} {
		if err := budget.Take(budget.Without(ctx), n); err != nil || b.Stats().Runs.Used != 50<<20 {
			t.Errorf("%d bytes for all: %v, %+v", n, err, b.Stats())
		}
	}
}

// The error of an answer that can never fit does not advise a retry.
func TestAnswerLargerThanTheShare(t *testing.T) {
	b := budget.New(budget.Options{Answers: 10 << 20, Runs: 1, Cache: 1})
	ctx := budget.With(t.Context(), b.Answer("a", 3))
	for n, want := range map[int]string{4 << 20: "it takes 12 MiB of memory or more, and one answer may take 8 MiB on this server; ask for less at once, or start the server with a larger --memory-budget", 2 << 20: ""} {
		err := budget.Retry(ctx, func() error { return errors.Join(budget.Take(ctx, n/2), budget.Take(ctx, n/2)) })
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// The last eighth of the share is for others. The error of an answer that needs it does
// not advise a retry, even if no other answer holds memory.
func TestAnswerThatGrowsIntoTheLastEighth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{Answers: 80 << 20, Runs: 1, Cache: 1})
		ctx, start := budget.With(t.Context(), b.Answer("a", 1)), time.Now()
		err := budget.Retry(ctx, func() error {
			for range 8 {
				if err := budget.Take(ctx, 10<<20); err != nil {
					return err
				}
			}
			return nil
		})
		full, ok := errors.AsType[*budget.ExhaustedError](err)
		if !ok || !full.IsPermanent() || !strings.Contains(err.Error(), "it takes 80 MiB of memory or more, and one answer may take 70 MiB") || time.Since(start) > 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		mustTake(t, b.Answer("c", 1), 10<<20)
		if err := b.Answer("b", 1).Take(70 << 20); !budget.IsExhausted(err) || errors.As(err, &full) && full.IsPermanent() {
			t.Errorf("an answer that fits once memory is free: %v", err)
		}
	})
}

// An answer that grows beyond what its tenant may have waits and is refused after
// Options.Patience. It does not start repeatedly in that time.
func TestGrowingAnswerDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{Answers: 100, Runs: 1, Cache: 1})
		for _, other := range []string{"a", "b"} {
			growing(t, b, other)
		}
	})
}

// growing lets an answer of tenant a grow to 50 while an answer of the other tenant, or
// of a itself, holds 40.
func growing(t *testing.T, b *budget.Budget, other string) {
	t.Helper()
	held, account := b.Answer(other, 1), b.Answer("a", 1)
	defer held.Release()
	defer account.Release()
	mustTake(t, held, 40)
	ctx := budget.With(t.Context(), account)
	calls, start := 0, time.Now()
	err := budget.Retry(ctx, func() error {
		if calls++; calls > 10 {
			t.Fatal("it starts again and again")
		}
		for range 5 {
			if err := budget.Take(ctx, 10); err != nil {
				return err
			}
		}
		return nil
	})
	if !budget.IsExhausted(err) || calls != 1 || time.Since(start) != 2*time.Second {
		t.Errorf("beside %s: %v after %d calls and %s", other, err, calls, time.Since(start))
	}
}
