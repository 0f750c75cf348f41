package stream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// publish stores an event with additional headers, as an edit of the files of the server
// could leave it.
func publish(t *testing.T, js natsjs.JetStream, e events.Event, more map[string][]string) uint64 {
	t.Helper()
	w, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range more {
		w.Header[name] = values
	}
	ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: stream.StoredSubject(1, w.Subject), Header: w.Header, Data: w.Body})
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

// Readers take nothing from a header that the record of an event does not cover, although
// the server uses headers of the same names for positions, subjects and the status of its
// answers.
func TestReadersIgnoreUncoveredHeaders(t *testing.T) {
	t.Parallel()
	for _, more := range []map[string][]string{
		{"Status": {"404"}},
		{"Status": {"503"}, "Description": {"No Responders"}},
		{"Status": {"204"}, "Nats-Last-Sequence": {"2"}, "Nats-Num-Pending": {"0"}},
		{"Status": {"100"}},
		{"Nats-Sequence": {"1"}},
		{"Nats-Sequence": {"9", "8"}, "Nats-Subject": {"ledger.0001.default.exec.x", "x"}, "Nats-Stream": {"LEDGER-0002"}},
		{"Nats-Subject": {"ledger.0001.default.exec.x"}},
		{"Nats-Num-Pending": {"7"}, "Nats-Last-Sequence": {"7"}},
		{"Nats-Time-Stamp": {"never"}, "Nats-Msg-Size": {"-1"}},
	} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			t.Parallel()
			server := storetest.StartServer(t, t.TempDir())
			s := storetest.Open(t, server, jetstream.Options{})
			_, js := raw(t, server)
			id := newID()
			want := []events.Event{requested(id), started(id, 1), events.New(tenant, time.Now(), &events.ExecutionCancelRequested{ExecutionID: id}), started(id, 2)}
			for i := range want {
				if want[i].Seq = uint64(i) + 1; i == 0 || i == 3 {
					mustAppend(t, s, want[i], -1)
				} else if seq := publish(t, js, want[i], more); seq != want[i].Seq {
					t.Fatalf("stored at %d", seq)
				}
			}
			ways := map[string]func() ([]events.Event, error){
				"Read": func() ([]events.Event, error) { return s.Read(t.Context(), 0, 10) },
				"Follow": func() (list []events.Event, err error) {
					ctx, stop := context.WithTimeout(t.Context(), time.Minute)
					defer stop()
					err = s.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
						if list = append(list, batch...); len(list) < len(want) {
							return nil
						}
						return errEnough
					})
					if errors.Is(err, errEnough) {
						err = nil
					}
					return list, err
				},
				"Execution": func() ([]events.Event, error) { return s.Execution(t.Context(), tenant, id) },
				"GetIn": func() (list []events.Event, err error) {
					for i := range want {
						m, err := s.GetIn(t.Context(), 1, jet.Request{Seq: uint64(i) + 1})
						if err != nil {
							return nil, err
						}
						e, err := s.Decode(m)
						if err != nil {
							return nil, err
						}
						list = append(list, e)
					}
					return list, nil
				},
				"Next and Last": func() (list []events.Event, err error) {
					list = append(list, want[0]) // on another subject
					for after := uint64(0); after < 3 && len(list) < len(want); after = list[len(list)-1].Seq {
						e, err := s.Next(t.Context(), want[1].Subject(), after)
						if err != nil {
							return nil, err
						}
						list = append(list, e)
					}
					last, err := s.Last(t.Context(), want[1].Subject())
					if err != nil {
						return nil, err
					}
					return append(list, last), nil
				},
			}
			for name, read := range ways {
				got, err := read()
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%s: %v\n%s", name, err, diff)
				}
			}
		})
	}
}

// The server recognizes a repeated message by a header that no record covers. An event
// that it takes for another one is not acknowledged.
func TestAppendDistrustsTheMessageIDOfAnotherEvent(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	_, js := raw(t, server)
	id := newID()
	lost, again := started(id, 2), started(id, 3)
	first := publish(t, js, started(id, 1), map[string][]string{natsjs.MsgIDHeader: {lost.ID}})
	if seq, err := s.Append(t.Context(), lost, int64(first)); err == nil || !jet.IsRejected(err) || !errors.Is(err, events.ErrDamaged) {
		t.Errorf("an event that is not stored is acknowledged at position %d, error %v", seq, err)
	}
	if last, err := s.Last(t.Context(), lost.Subject()); err != nil || last.Seq != first {
		t.Errorf("the last event is %+v, error %v", last, err)
	}
	// A true repetition is acknowledged at its position.
	at := mustAppend(t, s, again, -1)
	if seq := mustAppend(t, s, again, -1); seq != at {
		t.Errorf("stored at %d and %d", at, seq)
	}
}

// An event of record version 1 is read with the attributes that its record has, in which
// there are no spaces at the ends of values.
func TestReadersTrimAttributes(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	_, js := raw(t, server)
	id := newID()
	e := output(id, 1)
	mustAppend(t, s, requested(id), 0)
	e.RecordVersion = 1
	publish(t, js, e, map[string][]string{"ce-subject": {id + " "}, "ce-type": {string(e.Type) + "\t"}})
	var list []events.Event
	err := s.ExecutionEvents(t.Context(), tenant, id, 0, func(e events.Event) error {
		list = append(list, e)
		return nil
	})
	if err != nil || len(list) != 2 || list[1].Type != e.Type {
		t.Errorf("the execution has the events %v, error %v", list, err)
	}
}
