package stream_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/store/jet"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
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
	err := s.ExecutionEvents(ctx, tenant, id, 0, func(e events.Event) error {
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
	if err := s.ExecutionEvents(ctx, tenant, id, 0, func(events.Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the caller: %v", err)
	}
	if err := s.ExecutionEvents(ctx, tenant, newID(), 0, func(events.Event) error { return nil }); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("an unknown execution: %v", err)
	}
}

// The events of an ended execution cost the same, however many events follow its end, and
// however many of them share the subject of its output.
func TestExecutionEventsOfAnEndedExecution(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]int{"near": 20, "far": 3000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Start(t)
			id := newID()
			output := func(i int) events.Event {
				return events.New(tenant, time.Now(), &events.ExecutionOutput{
					ExecutionID: id, Attempt: 1, FirstLine: int64(i + 1), Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: "line"}}}),
				})
			}
			mustAppend(t, s, requested(id), 0)
			at := mustAppend(t, s, started(id, 1), 0)
			for i := range between {
				if i%10 == 0 {
					mustAppend(t, s, output(i), -1)
				} else {
					mustAppend(t, s, started(newID(), 1), -1)
				}
			}
			mustAppend(t, s, ended(id), int64(at))
			read := func() (n int, received uint64) {
				t.Helper()
				before := stream.Received(s.Ledger)
				if err := s.ExecutionEvents(t.Context(), tenant, id, 0, func(events.Event) error { n++; return nil }); err != nil {
					t.Fatal(err)
				}
				return n, stream.Received(s.Ledger) - before
			}
			n, received := read()
			if want := 3 + between/10; n != want {
				t.Errorf("%d events, want %d", n, want)
			}
			for i := range 4000 {
				mustAppend(t, s, output(between+i), -1)
			}
			again, receivedLater := read()
			if slack := uint64(jet.BatchMessages); again != n || receivedLater > received+slack {
				t.Errorf("%d events in %d messages, and %d in %d with 4,000 more on the subject", n, received, again, receivedLater)
			}
			replayed := 0
			before := stream.Received(s.Ledger)
			err := s.EachAboutUntil(t.Context(), events.OutSubject(tenant, id), id, at, at+uint64(between), func(events.Event) error { replayed++; return nil })
			if got := stream.Received(s.Ledger) - before; err != nil || replayed != n-3 || got > received+jet.BatchMessages {
				t.Errorf("%d events of output in %d messages, %v", replayed, got, err)
			}
		})
	}
}
