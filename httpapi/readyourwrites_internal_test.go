package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// behind is a read side that never advances.
type behind struct{ Queries }

func (behind) Applied() uint64 { return 7 }
func (behind) Damage() error   { return nil }
func (behind) Wait(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

// Late reads are counted, answered 503, and logged once per 10 s.
func TestLateReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		counted := 0
		a := &api{q: behind{}, log: slog.New(slog.NewTextHandler(&log, nil)), countLate: func() { counted++ }}
		a.late.warned.Interval = lateLogInterval
		for range 4 { // each takes 5 s
			err := a.waitForPosition(t.Context(), Reading{MinSequence: 9})
			f, ok := errors.AsType[*failure](err)
			if !ok || f.problem.Status != http.StatusServiceUnavailable || f.retryAfter == 0 || !errors.Is(err, errLate) {
				t.Errorf("a late read is answered %v", err)
			}
		}
		if lines := strings.Count(log.String(), "level=WARN"); counted != 4 || lines != 2 {
			t.Errorf("%d late reads are counted, %d lines are logged:\n%s", counted, lines, log.String())
		}
		time.Sleep(lateLogInterval)
	})
}
