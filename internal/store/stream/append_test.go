package stream_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// firstStream is the name of the stream of the first volume.
var firstStream = stream.Streams()[0]

// raw returns a connection in addition to the one of the Store.
func raw(t *testing.T, s interface {
	Conn(string) (*nats.Conn, error)
}) (*nats.Conn, natsjs.JetStream) {
	t.Helper()
	nc, err := s.Conn("raw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func output(id string, line int64) events.Event {
	return events.New(tenant, time.Now(), &events.ExecutionOutput{ExecutionID: id, Attempt: 1, FirstLine: line})
}

// An event that was stored without an acknowledgement is found, also if the server no
// longer remembers its id and other events follow it.
func TestAppendFindsItsOwnEventBehindOthers(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	_, js := raw(t, server)
	id := newID()
	e := started(id, 1)
	w, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: stream.StoredSubject(1, w.Subject), Header: w.Header, Data: w.Body}) // no message id
	if err != nil {
		t.Fatal(err)
	}
	other := events.New(tenant, time.Now(), &events.ExecutionCancelRequested{ExecutionID: id})
	mustAppend(t, s, other, int64(ack.Sequence))

	if seq, err := s.Append(t.Context(), e, 0); err != nil || seq != ack.Sequence {
		t.Errorf("append again: %d, %v; want %d", seq, err, ack.Sequence)
	}
	if _, err := s.Append(t.Context(), started(id, 1), 0); !errors.Is(err, events.ErrConflict) {
		t.Errorf("another event: %v, want a conflict", err)
	}
	// Events before the expected position are not searched.
	if _, err := s.Append(t.Context(), started(id, 1), int64(ack.Sequence)); !errors.Is(err, events.ErrConflict) {
		t.Errorf("another event after the first: %v, want a conflict", err)
	}
}

func TestAppendSurvivesALostAcknowledgement(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]struct {
		event events.Event
		after int64
	}{
		"conditional":   {started(newID(), 1), 0},
		"unconditional": {started(newID(), 1), -1},
		"output":        {output(newID(), 1), -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, network, direct := unreliable(t, jetstream.Options{Client: jet.Options{TryWait: time.Second}})
			mustAppend(t, s, requested(newID()), 0)
			accepted, err := direct.SubscribeSync("events.>")
			if err != nil {
				t.Fatal(err)
			}
			if err := direct.Flush(); err != nil {
				t.Fatal(err)
			}
			network.lose()
			type result struct {
				seq uint64
				err error
			}
			done := make(chan result, 1)
			go func() {
				seq, err := s.Append(context.Background(), e.event, e.after)
				done <- result{seq, err}
			}()
			if _, err := accepted.NextMsg(20 * time.Second); err != nil {
				t.Fatalf("the event was not stored: %v", err)
			}
			network.heal()
			if r := <-done; r.err != nil || r.seq != 2 {
				t.Errorf("append: %d, %v; want position 2", r.seq, r.err)
			}
			if last, err := s.LastSeq(t.Context()); err != nil || last != 2 {
				t.Errorf("the ledger ends at %d, %v; want the event stored once, at 2", last, err)
			}
		})
	}
}

// A caller whose context ends gets an error that the outcome is unknown, and may append
// again.
func TestAppendGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	s, network, direct := unreliable(t, jetstream.Options{Client: jet.Options{TryWait: time.Second}})
	accepted, err := direct.SubscribeSync("events.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := direct.Flush(); err != nil {
		t.Fatal(err)
	}
	network.lose()
	ctx, cancel := context.WithCancel(t.Context())
	e := started(newID(), 1)
	done := make(chan error, 1)
	go func() {
		_, err := s.Append(ctx, e, 0)
		done <- err
	}()
	if _, err := accepted.NextMsg(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil || errors.Is(err, events.ErrConflict) {
		t.Errorf("append: %v, want an unknown outcome", err)
	}
	network.heal()
	if seq, err := s.Append(t.Context(), e, 0); err != nil || seq != 1 {
		t.Errorf("asking again: %d, %v; want 1", seq, err)
	}
}

func TestAppendRefusesInvalidTokens(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	for _, bad := range []string{"", "a.b", "*", ">", "a b", "a\r\nb"} {
		e := events.New(bad, time.Now(), &events.ExecutionStarted{ExecutionID: newID()})
		if _, err := s.Append(t.Context(), e, 0); err == nil {
			t.Errorf("tenant %q was accepted", bad)
		}
		if _, err := s.Append(t.Context(), started(bad, 1), 0); err == nil {
			t.Errorf("execution %q was accepted", bad)
		}
		if _, err := s.Execution(t.Context(), bad, newID()); err == nil {
			t.Errorf("tenant %q was read", bad)
		}
		if _, err := s.EachAbout(t.Context(), events.OutSubject(tenant, bad), bad, 0, nil); err == nil {
			t.Errorf("execution %q was read", bad)
		}
		for _, subject := range []string{events.SessionSubject(bad, "abc"), events.SessionSubject(tenant, bad)} {
			_, last := s.Last(t.Context(), subject)
			_, next := s.Next(t.Context(), subject, 0)
			if _, err := s.Each(t.Context(), subject, 0, nil); err == nil || last == nil || next == nil ||
				errors.Is(last, events.ErrNotFound) || errors.Is(next, events.ErrNotFound) {
				t.Errorf("subject %q was read: %v, %v, %v", subject, last, next, err)
			}
		}
	}
	if last, err := s.LastSeq(t.Context()); err != nil || last != 0 {
		t.Errorf("the ledger ends at %d, %v", last, err)
	}
}

func TestExecutionOfAnyPool(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	id, twin := newID(), newID()
	ask := func(id, pool string) {
		mustAppend(t, s, events.New(tenant, time.Now(), &events.ExecutionRequested{ExecutionID: id, Pool: pool}), 0)
	}
	ask(twin, "default")
	ask(id, "gpu")
	var last uint64
	for n := range 5 {
		mustAppend(t, s, output(id, int64(n)), -1)
		last = mustAppend(t, s, started(id, n+1), int64(last))
		mustAppend(t, s, started(twin, n+1), -1)
	}
	list, err := s.Execution(t.Context(), tenant, id)
	if err != nil || len(list) != 6 {
		t.Fatalf("%d events, %v; want 6", len(list), err)
	}
	for i, e := range list {
		if e.About() != id {
			t.Errorf("event %d is about %s", i, e.About())
		}
		if d, ok := e.Data.(*events.ExecutionStarted); ok && d.Attempt != i {
			t.Errorf("event %d is attempt %d", i, d.Attempt)
		}
	}
	if list[5].Seq != last {
		t.Errorf("the last event is at %d, want %d", list[5].Seq, last)
	}
}

// Open refuses a stream that could lose events, and does not change it.
func TestOpenRefusesAnotherConfiguration(t *testing.T) {
	t.Parallel()
	good := natsjs.StreamConfig{
		Name: firstStream, Subjects: []string{"ledger.0001.>"}, DenyDelete: true, DenyPurge: true, AllowDirect: true,
		RePublish: &natsjs.RePublish{Source: "ledger.0001.*.>", Destination: "events.{{wildcard(1)}}.>"},
	}
	for want, change := range map[string]func(*natsjs.StreamConfig){
		"limits":                 func(c *natsjs.StreamConfig) { c.MaxAge = time.Hour },
		"deleted":                func(c *natsjs.StreamConfig) { c.DenyPurge = false },
		"subjects":               func(c *natsjs.StreamConfig) { c.Subjects = []string{"ledger.0001.default.>"} },
		"republish":              func(c *natsjs.StreamConfig) { c.RePublish = nil },
		"direct":                 func(c *natsjs.StreamConfig) { c.AllowDirect = false },
		"retention":              func(c *natsjs.StreamConfig) { c.Retention = natsjs.InterestPolicy },
		"storage is not files":   func(c *natsjs.StreamConfig) { c.Storage = natsjs.MemoryStorage },
		"stream was not changed": func(c *natsjs.StreamConfig) { c.MaxMsgs = 5 },
		"could remove events":    func(c *natsjs.StreamConfig) { c.MaxBytes = 1 << 20 },
	} {
		server := storetest.StartServer(t, t.TempDir())
		nc, js := raw(t, server)
		cfg := good
		change(&cfg)
		made, err := js.CreateStream(t.Context(), cfg)
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		before := made.CachedInfo().Config
		if _, err := jetstream.Open(t.Context(), nc, nc, jetstream.Options{Client: jet.Options{Logger: storetest.Logger(t)}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		after, err := made.Info(t.Context())
		if err != nil || after.Config.MaxMsgs != before.MaxMsgs || after.Config.MaxAge != before.MaxAge || after.Config.DenyPurge != before.DenyPurge {
			t.Errorf("%s: the stream was changed: %+v", want, after)
		}
	}
}
