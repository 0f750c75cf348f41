package queue_test

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/stream"
)

// firstStream is the name of the stream of the first volume.
var firstStream = stream.Streams()[0]

// lines collects log messages.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func mustAppend(t testing.TB, s *jetstream.Store, e events.Event, after int64) uint64 {
	t.Helper()
	seq, err := s.Append(t.Context(), e, after)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func newID() string { return events.NewID(time.Now()) }

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

func requested(id string) events.Event {
	return events.New(tenant, time.Now(), &events.ExecutionRequested{
		ExecutionID: id, Pool: events.DefaultPool,
		Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1"}}),
	})
}

func seal(t testing.TB, s *jetstream.Store) events.VolumeInfo {
	t.Helper()
	v, err := s.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: testActor})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var testActor = events.Actor{Principal: "tester", Transport: "embed"}

func started(id string, attempt int) events.Event {
	return events.New(tenant, time.Now(), &events.ExecutionStarted{ExecutionID: id, Attempt: attempt})
}

const tenant = events.DefaultTenant

// until waits until reached returns true.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !reached(); {
		if time.Now().After(late) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
