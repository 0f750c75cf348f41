package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"daybook/events"
	"daybook/httpapi"
	"daybook/projections"
)

// lateQueries has no executions until a caller has waited for position 5.
type lateQueries struct {
	noQueries
	applied *atomic.Uint64
}

func (q lateQueries) Applied() uint64 { return q.applied.Load() }

func (q lateQueries) Wait(_ context.Context, seq uint64) error {
	q.applied.Store(seq)
	return nil
}

func (lateQueries) WatchEnd(string, string) (<-chan struct{}, func()) { return nil, func() {} }

func (q lateQueries) Execution(_ context.Context, _, id string) (projections.ExecutionDetail, error) {
	if q.applied.Load() < 5 || id != someID {
		return projections.ExecutionDetail{}, events.ErrNotFound
	}
	return projections.ExecutionDetail{Execution: projections.Execution{ExecutionID: id, Status: events.StatusRunning}}, nil
}

// edge is a log that ends at position 5.
type edge struct{ noEvents }

func (edge) LastSeq(context.Context) (uint64, error) { return 5, nil }

// A write through another interface is found as soon as it is in the ledger, although
// the read side is behind. An unknown object is still not found.
func TestUnknownIsReadAgain(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int{someID: http.StatusOK, "other": http.StatusNotFound} {
		h := newBareHandler(t, func(o *httpapi.Options) {
			o.Queries = lateQueries{applied: new(atomic.Uint64)}
			o.Events = edge{}
		})
		r := httptest.NewRequest(http.MethodGet, "/api/executions/"+id, nil)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || !strings.Contains(w.Body.String(), id) {
			t.Errorf("%s: %d %s, want %d", id, w.Code, w.Body, want)
		}
	}
}
