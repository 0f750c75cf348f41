// Package fill appends events to a ledger many times faster than the product does, for
// measurements of long ledgers. The events are stored as the product stores them, without the
// headers of the transport (message ids and expected positions), some 100 bytes of each message. It
// waits for one acknowledgement per batch, so no other process may append meanwhile, and a failure
// leaves an unknown part of a batch.
package fill

import (
	"context"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/stream"
)

// batchSize is the number of events for each acknowledgement. The server drops messages
// beyond 10,000 that wait to be stored.
const batchSize = 2000

// Events appends events to a volume, whose last position is last, and returns the new last
// position. The caller owns conn.
func Events(ctx context.Context, conn *nats.Conn, volume events.Volume, last uint64, list iter.Seq[events.Event]) (uint64, error) {
	js, err := natsjs.New(conn)
	if err != nil {
		return last, err
	}
	var held *nats.Msg // the last message, which is sent with a request for an acknowledgement
	sent := 0
	flush := func() error {
		if held == nil {
			return nil
		}
		ack, err := js.PublishMsg(ctx, held)
		if err != nil {
			return fmt.Errorf("append events: %w", err)
		}
		last += uint64(sent)
		if held, sent = nil, 0; ack.Sequence != last {
			return fmt.Errorf("append events: the server stored %d as the last position, not %d", ack.Sequence, last)
		}
		return nil
	}
	for e := range list {
		w, err := events.Encode(e)
		if err != nil {
			return last, err
		}
		if held != nil {
			if err := conn.PublishMsg(held); err != nil {
				return last, fmt.Errorf("append events: %w", err)
			}
		}
		held = &nats.Msg{Subject: stream.StoredSubject(volume, w.Subject), Header: nats.Header(w.Header), Data: w.Body}
		if sent++; sent == batchSize {
			if err := flush(); err != nil {
				return last, err
			}
		}
	}
	return last, flush()
}
