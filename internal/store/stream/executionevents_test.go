package stream_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/store/storetest"
)

// The events of an execution arrive in order of position, regardless of their subjects,
// and a few are held at a time.
func TestExecutionEventsInPieces(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	id, other := newID(), newID()
	var want []uint64
	line := strings.Repeat("x", events.OutputMaxBytes-1)
	output := func(id, text string) events.Event {
		return events.New(tenant, time.Now(), &events.ExecutionOutput{
			ExecutionID: id, Attempt: 1, FirstLine: 1, Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: text}}}),
		})
	}
	add := func(mine bool, e events.Event, after int64) {
		t.Helper()
		seq := mustAppend(t, s, e, after)
		if mine {
			want = append(want, seq)
		}
	}
	add(true, requested(id), 0)
	add(false, requested(other), 0)
	add(true, started(id, 1), 0)
	for range 40 { // 2.5 MiB
		add(true, output(id, line), -1)
		add(false, output(other, line), -1)
	}
	add(true, started(id, 2), 3)
	add(true, output(id, "end"), -1)

	account := newBudget().Answer(tenant, 1)
	ctx := budget.With(t.Context(), account)
	var got []uint64
	err := s.ExecutionEvents(ctx, tenant, id, func(e events.Event) error {
		got = append(got, e.Seq)
		return nil
	})
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d events, %v; want %d", len(got), err, len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("event %d is at %d, want %d", i, got[i], want[i])
		}
	}
	if account.Held() == 0 || account.Held() > 2<<20 {
		t.Errorf("the account holds %d bytes", account.Held())
	}
	stop := errors.New("stop")
	if err := s.ExecutionEvents(ctx, tenant, id, func(events.Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the caller: %v", err)
	}
	if err := s.ExecutionEvents(ctx, tenant, newID(), func(events.Event) error { return nil }); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("an unknown execution: %v", err)
	}
}
