package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/internal/resources/fairness"
	"daybook/internal/store/jet"
	"daybook/internal/store/stream"
)

// oneVolume is a Ledger with one volume.
type oneVolume struct{ Ledger }

func (oneVolume) Active() stream.LiveVolume { return stream.LiveVolume{Number: 1, First: 1} }

// queueOf returns the queue of a tenant in a poolConsumer that takes no requests.
func queueOf(log *slog.Logger) (*poolConsumer, *tenantQueue) {
	s := New(&jet.Client{Options: jet.Options{Logger: log}}, oneVolume{}, Options{})
	c := newPoolConsumer(s, "main", fairness.Slots{Total: 1}, nil)
	c.ctx = context.Background()
	return c, c.queue("t")
}

// An acknowledgement between the request for the state of a consumer and the answer
// counts: nothing else would make the tenant be asked again.
func TestFullIsNotNotedAfterAnAcknowledgement(t *testing.T) {
	t.Parallel()
	full := &natsjs.ConsumerInfo{Config: natsjs.ConsumerConfig{MaxAckPending: 2}, NumAckPending: 2, NumPending: 5}
	var log strings.Builder
	_, q := queueOf(slog.New(slog.NewTextHandler(&log, nil)))
	v := q.c.work.ledger.Active()

	asked := time.Now()
	if q.noteAck() {
		t.Error("a queue that is not full counts as full")
	}
	if q.noteFull(asked) || q.isFull() {
		t.Error("an answer from before the acknowledgement makes the queue full")
	}
	if waiting := q.noteConsumer(v, full, asked); waiting == 0 || q.isFull() {
		t.Errorf("a list from before the acknowledgement makes the queue full; %d requests wait", waiting)
	}
	for range 3 {
		asked = time.Now().Add(time.Nanosecond)
		if !q.noteFull(asked) || !q.isFull() {
			t.Error("the queue is not full")
		}
		if !q.noteAck() || q.isFull() {
			t.Error("after the acknowledgement the tenant is not asked again")
		}
	}
	if n := strings.Count(log.String(), "unacknowledged"); n != 1 {
		t.Errorf("the log names the tenant %d times: %s", n, log.String())
	}
	q.noteConsumer(v, full, time.Now().Add(time.Nanosecond))
	if !q.isFull() {
		t.Error("a list from after the acknowledgement does not make the queue full")
	}
}

// A slot that met a full consumer does not drop requests that were announced since it was
// taken.
func TestAnnouncementsOutliveAFullConsumer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err       error
		announced bool
		want      int
	}{
		{errFull, true, 1}, {errFull, false, 0}, {nil, true, 1}, {nil, false, 0}, {errors.New("no connection"), true, 0},
	} {
		t.Run(fmt.Sprint(test.err, test.announced), func(t *testing.T) {
			t.Parallel()
			c, _ := queueOf(slog.New(slog.DiscardHandler))
			c.expect("t", 1)
			c.mu.Lock()
			slot, generation := c.sched.Next(time.Now()), c.announced["t"].generation
			c.mu.Unlock()
			if test.announced {
				c.expect("t", 1)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.returnSlot(slot, generation, 0, test.err)
			if n := c.sched.Waiting("t"); n != test.want {
				t.Errorf("%d requests wait, want %d", n, test.want)
			}
		})
	}
}
