package stream

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"daybook/events"
	"daybook/internal/store/jet"
)

// largeMessage is a message of a stream with a body of 512 KiB.
type largeMessage struct {
	natsjs.Msg
	seq  uint64
	data []byte
}

func (m largeMessage) Data() []byte         { return m.data }
func (m largeMessage) Subject() string      { return "a" }
func (m largeMessage) Headers() nats.Header { return nats.Header{} }
func (m largeMessage) Metadata() (*natsjs.MsgMetadata, error) {
	return &natsjs.MsgMetadata{Sequence: natsjs.SequencePair{Stream: m.seq}}, nil
}

// A bulk read bounds large messages by their bytes: few wait to be taken, and a page is
// complete with fewer than 1000 of them.
func TestBulkReadHoldsFewLargeMessages(t *testing.T) {
	t.Parallel()
	a := arrivals{messages: make(chan natsjs.Msg, 2*jet.BatchMessages), bytes: semaphore.NewWeighted(bulkReadBytes)}
	data := make([]byte, events.MaxEventBytes)
	full, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	const fit = bulkReadBytes / events.MaxEventBytes
	for n := range uint64(fit + 1) {
		if n == fit {
			stop(errors.New("the test ends the wait"))
		}
		a.put(full, largeMessage{seq: n + 1, data: data})
	}
	if n := len(a.messages); n != fit {
		t.Fatalf("%d large messages have arrived", n)
	}
	var s Ledger
	p := newPage(raw, 0, 1)
	if whole := s.drainBatch(<-a.messages, a, &p); !whole || p.held != pageBytes || p.end != pageBytes/events.MaxEventBytes {
		t.Errorf("a page with %d bytes ends at %d, %t", p.held, p.end, whole)
	}
	a.put(t.Context(), largeMessage{seq: fit + 1, data: data}) // in place of the one that was taken
	if n := len(a.messages); n != fit-1 {
		t.Errorf("%d large messages have arrived", n)
	}
}
