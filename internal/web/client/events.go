package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"

	"daybook/events"
)

// From selects events of the ledger. Zero members select all.
type From struct {
	// After is the position to start after.
	After uint64
	// Types are types of events, such as daybook.execution.completed.v1.
	Types []string
	// Execution is the id of an execution. Session is a name, intent, ref or id of a
	// session, or a unique prefix.
	Execution, Session string
}

// Event is an event of the ledger, as a CloudEvent.
type Event struct {
	events.CloudEvent
	// CaughtUp is true for the mark that Events yields after the newest recorded event.
	// The mark is no event.
	CaughtUp bool
	// JSON is the text that the event was decoded from.
	JSON json.RawMessage
}

const eventsPath = "/api/events"

// Events reads the events of the ledger in order and follows new ones, until the caller
// ends the loop. A broken connection is replaced; no event is missing or comes twice. The
// mark CaughtUp follows the newest event that was recorded when the connection was opened.
func (c *Client) Events(ctx context.Context, from From) iter.Seq2[Event, error] {
	params := []string{"after", strconv.FormatUint(from.After, 10), "execution", from.Execution, "session", from.Session}
	for _, t := range from.Types {
		params = append(params, "type", t)
	}
	return func(yield func(Event, error) bool) {
		for m, err := range c.follow(ctx, eventsPath+query(params...)) {
			e := Event{CaughtUp: m.name == "caught-up", JSON: json.RawMessage(m.data)}
			if err == nil && !e.CaughtUp {
				if err = decode(e.JSON, &e.CloudEvent, nil); err != nil {
					err = c.unusable(ctx, http.MethodGet, eventsPath, err)
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
