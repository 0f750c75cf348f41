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

// next returns the next message, of the oldest volume that has one. After an
// error the puller is to be closed; errNextVolume is no failure.
func (p *puller) next(ctx context.Context) (*nats.Msg, error) {
	now, err := p.arrange(ctx)
	if err != nil {
		return nil, err
	}
	if p.sub == nil {
		sub, err := p.store.consume.SubscribeSync(p.store.consume.NewInbox())
		if err != nil {
			return nil, err
		}
		p.sub = sub
	}
	for {
		expires := pullExpires
		if !p.waiting {
			for _, v := range p.unfinished() {
				expires = backlogEvery
				m, err := p.try(ctx, now, v)
				if m != nil || err != nil {
					return m, err
				}
				if err := p.nothingIn(ctx, v); err != nil {
					return nil, err
				}
			}
			if err := p.ask(now.active(), request{Batch: 1, Expires: expires, Beat: min(pullBeat, expires/2)}); err != nil {
				return nil, err
			}
		}
		m, err := p.answer(ctx, now)
		if m != nil || err != nil {
			return m, err
		}
	}
}

// try takes a message of a sealed volume, if there is one now.
func (p *puller) try(ctx context.Context, now *volumes, v volume) (*nats.Msg, error) {
	if err := p.ask(v, request{Batch: 1, NoWait: true}); err != nil {
		return nil, err
	}
	return p.answer(ctx, now)
}

// answer waits for what comes of a request: a message, or nil when it has ended
// without one.
func (p *puller) answer(ctx context.Context, now *volumes) (*nats.Msg, error) {
	for {
		beat, cancel := context.WithTimeout(ctx, 2*pullBeat)
		stop := context.AfterFunc(now.replaced, cancel)
		unwatch := func() bool { return true }
		if p.store.opts.Writable != nil {
			// The server that has the request may be replaced.
			unwatch = context.AfterFunc(p.store.opts.Writable(), cancel)
		}
		m, err := p.sub.NextMsgWithContext(beat)
		stop()
		unwatch()
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case now.replaced.Err() != nil:
			return nil, errNextVolume
		case p.store.unwritable() != nil:
			return nil, p.store.unwritable()
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
			// A sign of life. Perhaps another process has opened a volume meanwhile.
			if err := p.store.refresh(ctx); err != nil {
				return nil, err
			}
		case "404", "408":
			p.waiting = false
			return nil, nil //nolint:nilnil // nothing came, which is no error
		default:
			reason := first(m.Header, headerReason)
			if code == "409" && strings.Contains(strings.ToLower(reason), "consumer deleted") {
				return nil, natsjs.ErrConsumerDeleted
			}
			return nil, fmt.Errorf("the server answered %s %s", code, reason)
		}
	}
}

// request asks a consumer for messages.
type request struct {
	Batch   int           `json:"batch"`
	Expires time.Duration `json:"expires,omitempty"`
	Beat    time.Duration `json:"idle_heartbeat,omitempty"`
	NoWait  bool          `json:"no_wait,omitempty"`
}

// ask sends a request to the consumer of a volume.
func (p *puller) ask(v volume, r request) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	subject := "$JS.API.CONSUMER.MSG.NEXT." + v.stream() + "." + WorkConsumer(p.pool)
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
