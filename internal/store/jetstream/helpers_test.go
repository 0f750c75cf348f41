package jetstream_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/stream"
)

// stream is the name of the ledger's stream.
var firstStream = stream.Streams()[0]

func output(id string, line int64) events.Event {
	return events.New(tenant, time.Now(), &events.ExecutionOutput{ExecutionID: id, Attempt: 1, FirstLine: line})
}

// raw is a connection beside the Store.
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

func seal(t testing.TB, s *jetstream.Store) stream.Volume {
	t.Helper()
	v, err := s.Seal(t.Context(), stream.Sealing{Reason: events.VolumeAsked, Actor: somebody})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var somebody = events.Actor{Principal: "tester", Transport: "embed"}
