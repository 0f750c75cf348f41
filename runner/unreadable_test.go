package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/ledger"
	"daybook/runner"
)

// TestUnreadableRequest checks that a damaged request ends its run once, with an error
// that holds none of its content, and that later runs are not affected.
func TestUnreadableRequest(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{})
	b := &testLedger{t: t, store: store, ledger: ledger.New(store, ledger.Options{Logger: storetest.Logger(t)})}
	nc, err := server.Conn("raw")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	publish := func(id, body string) {
		t.Helper()
		m, err := nc.Request(stream.StoredSubject(1, events.RunSubject(events.DefaultTenant, events.DefaultPool, id)), []byte(body), patience)
		var ack struct{ Seq uint64 }
		if err == nil {
			err = json.Unmarshal(m.Data, &ack)
		}
		if err != nil || ack.Seq == 0 {
			t.Fatalf("publish: %v", err)
		}
	}
	fresh, ended := events.NewID(time.Now()), events.NewID(time.Now())
	end := events.NewEnding(events.StatusCancelled, events.Ending{ExecutionID: ended})
	if _, err := store.Append(t.Context(), events.New(events.DefaultTenant, time.Now(), end), 0); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{fresh, ended, "no-id", fresh} { // the last one as a second delivery
		publish(id, `{"secret":`)
	}
	opts, acked := b.acks(completes("line"))
	r, _ := b.startRunner(opts)
	good := b.submit()
	for range 5 {
		receive(t, "an acknowledgement", acked)
	}
	last := func(id string) events.Event {
		t.Helper()
		e, err := store.Last(t.Context(), events.ExecSubject(events.DefaultTenant, id))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if e := last(good); e.Type != events.TypeExecutionCompleted {
		t.Errorf("the run after it ended with %s", e.Type)
	}
	if e := last(ended); e.Type != events.TypeExecutionCancelled {
		t.Errorf("the run that had ended got %s", e.Type)
	}
	e := last(fresh)
	if e.Type != events.TypeExecutionFailed || events.EndingOf(e.Data).Reason != ledger.ReasonRequestUnreadable {
		t.Fatalf("the damaged run ended with %+v", e)
	}
	if text := errorText(events.EndingOf(e.Data)); !strings.Contains(text, "is damaged") || strings.Contains(text, "secret") {
		t.Errorf("the error is %q", text)
	}
	if n := r.Stats().Retried; n != 0 {
		t.Errorf("%d requests were returned", n)
	}
}

// TestRequestForANewerVersion checks that a request that only this version cannot
// decode is left to another version.
func TestRequestForANewerVersion(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	opts := b.options(completes())
	id := events.NewID(time.Now())
	given := make(chan time.Duration, 1)
	opts.Work = scriptedQueue(func(ctx context.Context, fn func(context.Context, runner.Delivery)) error {
		fn(ctx, runner.Delivery{
			Event:      events.Event{Seq: 1, Tenant: events.DefaultTenant, Data: &events.Unknown{Concerns: id}},
			Unreadable: errors.New("encrypted by an algorithm of tomorrow"), Delivered: 1,
			Nak: func(_ context.Context, d time.Duration) error { given <- d; return nil },
		})
		return nil
	})
	if err := runner.New(opts).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if receive(t, "the nak", given) != opts.RetryDelay {
		t.Error("it is not delivered again")
	}
	if _, err := b.store.Last(t.Context(), events.ExecSubject(events.DefaultTenant, id)); !errors.Is(err, events.ErrNotFound) {
		t.Error(fmt.Errorf("something was recorded: %w", err))
	}
}
