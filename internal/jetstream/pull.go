package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// puller asks for one message at a time, so that nothing lies waiting in a
// runner that is busy. It belongs to one goroutine.
type puller struct {
	*consumption
	sub     *nats.Subscription
	waiting bool // the server has a request of ours
}

// next returns the next message. After an error the puller is to be closed.
func (p *puller) next(ctx context.Context) (*nats.Msg, error) {
	if p.sub == nil {
		sub, err := p.store.consume.SubscribeSync(p.store.consume.NewInbox())
		if err != nil {
			return nil, err
		}
		p.sub = sub
	}
	for {
		if !p.waiting {
			if err := p.ask(); err != nil {
				return nil, err
			}
		}
		beat, cancel := context.WithTimeout(ctx, 2*pullBeat)
		m, err := p.sub.NextMsgWithContext(beat)
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return nil, errors.New("the server gives no sign of life")
		default:
			return nil, err
		}
		code := first(m.Header, headerStatus)
		switch code {
		case "":
			p.waiting = false
			return m, nil
		case "100":
			// A sign of life.
		case "404", "408":
			p.waiting = false
		default:
			reason := first(m.Header, headerReason)
			if code == "409" && strings.Contains(strings.ToLower(reason), "consumer deleted") {
				return nil, natsjs.ErrConsumerDeleted
			}
			return nil, fmt.Errorf("the server answered %s %s", code, reason)
		}
	}
}

// ask sends a request for one message.
func (p *puller) ask() error {
	body, err := json.Marshal(struct {
		Batch   int           `json:"batch"`
		Expires time.Duration `json:"expires"`
		Beat    time.Duration `json:"idle_heartbeat"`
	}{1, pullExpires, pullBeat})
	if err != nil {
		return err
	}
	subject := "$JS.API.CONSUMER.MSG.NEXT." + volume.Stream() + "." + WorkConsumer(p.pool)
	if err := p.store.consume.PublishRequest(subject, p.sub.Subject, body); err != nil {
		return err
	}
	p.waiting = true
	return nil
}

// close takes back the request, and gives back what the server sent before it
// noticed.
func (p *puller) close() {
	if p.sub == nil {
		return
	}
	sub := p.sub
	p.sub = nil
	if !p.waiting {
		_ = sub.Unsubscribe() // fails only when the connection is gone
		return
	}
	p.waiting = false
	if err := sub.Drain(); err != nil {
		return
	}
	for {
		m, err := sub.NextMsg(p.store.opts.TryWait)
		if err != nil {
			return
		}
		if m.Reply != "" && first(m.Header, headerStatus) == "" {
			_ = p.store.consume.Publish(m.Reply, nak(0)) // else it comes again when its time is up
		}
	}
}
