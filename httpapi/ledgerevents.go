package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/web/feed"
	"daybook/ledger"
)

const maxEventLimit = 100_000

// eventStreamBytes is approximately the memory of a response that reads the ledger in
// pieces: one piece as it is stored, decoded, and as JSON.
const eventStreamBytes = 3 << 20

// eventPageBytes is the same for /api/events, whose pages are smaller and shared.
const eventPageBytes = 1 << 20

// lastSequence is the header of an NDJSON response that has the newest position at the
// start of the response. A client continues after this position, also if a filter left
// out events.
const lastSequence = "Daybook-Last-Sequence"

func (a *api) ledgerRoutes(r *router) {
	const path = "/api/events"
	one := mediaOf[events.CloudEvent](r)
	register(r, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: path, Tags: []string{tagLedger},
		Summary: "Read or follow the ledger",
		Description: "Recorded events after a position, in order, as CloudEvents: one JSON object per line up to the newest event. With Accept: text/event-stream, " +
			"server-sent events whose id is their position, an event named caught-up after the newest one, and then new events as they are recorded. Last-Event-ID resumes. " +
			"With follow=true NDJSON continues too: a line of the type daybook.stream.caught_up.v1, which is not in the ledger, marks the newest event, and repeats as a heartbeat " +
			"with the position reached. Resume after the last sequence received. A browser gets a page of the newest events.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The events.",
			Headers: map[string]*huma.Param{lastSequence: {
				Description: "NDJSON only: the newest position at the start of the response. Without limit, continue after it.",
				Schema:      &huma.Schema{Type: huma.TypeInteger},
			}},
			Content: map[string]*huma.MediaType{typeNDJSON: one, typeSSE: one},
		}},
	}, []int{http.StatusBadRequest}, a.listEvents)
	r.bounds(http.MethodGet, path, "limit", 1, maxEventLimit, nil)
	r.bounds(http.MethodGet, path, "after", 0, 0, 0)
}

type eventsInput struct {
	After       uint64        `query:"after" doc:"Start after this position."`
	Types       []string      `query:"type,explode" doc:"Only events of this type; repeatable."`
	Execution   string        `query:"execution" doc:"Only events about this execution, with the migrations of the heap that it left and for its start."`
	Session     string        `query:"session" doc:"Only events of this session and its runs: a name, an id, an intent, a ref, or a unique prefix. An unknown name is accepted: a later session may have it."`
	Limit       optional[int] `query:"limit" doc:"Maximum number of events."`
	Follow      bool          `query:"follow" doc:"NDJSON only: continue with new events as they are recorded, as server-sent events always do."`
	LastEventID string        `header:"Last-Event-ID" doc:"Streams only: id of the last event received; overrides after."`
}

func (a *api) listEvents(ctx context.Context, in *eventsInput) (*streamed, error) {
	r := requestOf(ctx)
	session, err := a.sessionFilter(ctx, in.Session)
	if err != nil {
		return nil, err
	}
	reader := &eventReader{a: a, r: r, after: in.After, left: -1, selector: a.selector(events.Selection{Tenant: r.tenant, Execution: in.Execution, Session: session.selection()})}
	if in.Limit.Set {
		if f := checkRange("limit", in.Limit.Value, 1, maxEventLimit); f != nil {
			return nil, f
		}
		reader.left = in.Limit.Value
	}
	for _, t := range r.query["type"] {
		if !slices.Contains(events.Types(), events.Type(t)) {
			return nil, unknownType(t)
		}
		if !slices.Contains(reader.selector.Types, events.Type(t)) { // each type is compared with every event
			reader.selector.Types = append(reader.selector.Types, events.Type(t))
		}
	}
	if in.LastEventID != "" && (r.accept == typeSSE || in.Follow) {
		n, err := strconv.ParseUint(in.LastEventID, 10, 64)
		if err != nil {
			return nil, invalid("Last-Event-ID", `Last-Event-ID must be a position in the ledger, not "%s"`, ledger.Excerpt(in.LastEventID))
		}
		reader.after = n
	}
	switch removal := a.removal(); {
	case reader.after == 0:
		reader.after = removal.UpTo() // start with the first event that is not removed
	case reader.after < removal.UpTo():
		return nil, removal.Gone(fmt.Sprintf("events %d to %d were", reader.after+1, removal.UpTo()))
	}
	if reader.hasEnd = !in.Follow && r.accept != typeSSE; reader.hasEnd {
		if err := budget.TakeOnce(ctx, eventPageBytes); err != nil {
			return nil, err
		}
	}
	edge, err := a.events.LastSeq(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the end of the ledger: %w", err)
	}
	if reader.after > edge {
		return nil, invalid("after", "after is %d, but the ledger ends at %d: the position is from another ledger", reader.after, edge)
	}
	isPage := !in.Follow && wantsHTML(r.header.Values("Accept")) // shows positions, of which it reads few
	if !isPage {
		if err := a.skipUnselected(ctx, reader.selector, &reader.after, edge); err != nil {
			return nil, err
		}
	}
	switch {
	case isPage:
		removed := a.removal().UpTo()
		return stream(func(w http.ResponseWriter, _ *http.Request) {
			if err := reader.browse(ctx, w, r.query, removed, edge); err != nil {
				writeFailure(w, a.toFailure(ctx, err, subject{}))
			}
		}), nil
	case r.accept == typeSSE:
		return stream(func(w http.ResponseWriter, hr *http.Request) { reader.follow(ctx, hr, startSSEEvents(w), edge) }), nil
	case in.Follow:
		return stream(func(w http.ResponseWriter, hr *http.Request) { reader.follow(ctx, hr, startLines(w), edge) }), nil
	default:
		return stream(func(w http.ResponseWriter, hr *http.Request) { reader.serveNDJSON(ctx, w, hr, edge) }), nil
	}
}

func unknownType(t string) *failure {
	names := make([]string, 0, len(events.Types()))
	for _, known := range events.Types() {
		names = append(names, string(known))
	}
	return invalid("type", `there is no event type "%s"; the types are %s`, ledger.Excerpt(t), strings.Join(names, ", "))
}

// selector returns a selector that looks up sessions in the projections.
func (a *api) selector(sel events.Selection) *events.Selector {
	return &events.Selector{Selection: sel, SessionOf: func(ctx context.Context, seq uint64, execution string) ([]string, error) {
		return a.sessionOf(ctx, sel.Tenant, seq, execution)
	}}
}

// skipUnselected advances a position, up to edge, over events that come before the first event
// of the selected execution or session. Of one that the projections do not know, also once they
// have applied the newest event, it skips what is older than the id.
func (a *api) skipUnselected(ctx context.Context, sel *events.Selector, after *uint64, edge uint64) error {
	if sel.Execution == "" && sel.Session == "" {
		return nil
	}
	var failed error
	first, err := readCurrent(ctx, a, func() (first uint64, err error) {
		if first, failed = a.q.FirstPosition(ctx, sel.Tenant, sel.Execution, sel.Session); first == 0 && failed == nil {
			return 0, events.ErrNotFound
		}
		return first, failed
	})
	switch {
	case failed != nil:
		return failed
	case err != nil: // it is unknown, or the projections are late, which the ledger need not wait for
		first = max(a.events.EarliestPosition(sel.Execution), a.events.EarliestPosition(sel.Session))
	}
	*after = max(*after, min(first-1, edge))
	return ctx.Err()
}

// eventReader reads the ledger for one request.
type eventReader struct {
	a *api
	r *request
	// after is the position reached; left is the number of events still to send, -1
	// without a limit.
	after    uint64
	left     int
	selector *events.Selector
	// hasEnd is true for a response that ends with the newest event: it holds memory until
	// its end. A response that follows the ledger holds memory while it reads stored
	// events.
	hasEnd bool
}

func (er *eventReader) isDone() bool { return er.left == 0 }

// advance moves to an event, and calls emit if the selection contains it.
func (er *eventReader) advance(ctx context.Context, e *feed.Event, emit func(*feed.Event) error) error {
	if er.isDone() {
		return nil
	}
	er.after = e.Event.Seq
	wanted, err := er.selector.Wants(ctx, e.Event)
	if err != nil || !wanted {
		return err
	}
	if er.left > 0 {
		er.left--
	}
	return emit(e)
}

// readTo reads stored events up to the position edge, included. emit MUST NOT wait for
// the client; flush may.
func (er *eventReader) readTo(ctx context.Context, edge uint64, emit func(*feed.Event) error, flush func() error) error {
	for er.after < edge && !er.isDone() {
		err := budget.Piece(ctx, func() error {
			if !er.hasEnd {
				if err := budget.Retry(ctx, func() error { return budget.TakeOnce(ctx, eventPageBytes) }); err != nil {
					return err
				}
			}
			return er.readPage(ctx, edge, emit, flush)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readPage reads one page of stored events, none of them after edge.
func (er *eventReader) readPage(ctx context.Context, edge uint64, emit func(*feed.Event) error, flush func() error) error {
	page, err := er.a.live.Stored(ctx, er.r.tenant, er.after)
	if errors.Is(err, feed.ErrNothingStored) {
		page.End = edge
	} else if err != nil {
		return err
	}
	if err := er.advanceOverPage(ctx, page, edge, emit); err != nil {
		return err
	}
	if !er.isDone() {
		er.after = min(page.End, edge)
	}
	return flush()
}

// advanceOverPage moves over the events of a page. A response with an end first waits for the
// other heavy reads of its tenant. Responses that follow the ledger do not wait, because
// they share the cost of a page.
func (er *eventReader) advanceOverPage(ctx context.Context, page feed.StoredPage, edge uint64, emit func(*feed.Event) error) error {
	if er.hasEnd {
		_, leave, err := er.a.reads.Enter(ctx, er.r.tenant)
		if err != nil {
			return err
		}
		defer leave()
	}
	for _, e := range page.Events {
		if e.Event.Seq > edge {
			break
		}
		if err := er.advance(ctx, e, emit); err != nil {
			return err
		}
	}
	return nil
}

// logStreamError logs why a stream ended early.
func (er *eventReader) logStreamError(ctx context.Context, err error) {
	if err != nil {
		er.a.logFailure(ctx, "event stream ended early", err, "after", er.after)
	}
}

func (er *eventReader) serveNDJSON(ctx context.Context, w http.ResponseWriter, r *http.Request, edge uint64) {
	w.Header().Set(lastSequence, strconv.FormatUint(edge, 10))
	s, err := startLines(w)()
	if err != nil || r.Method == http.MethodHead {
		return
	}
	if err := er.readTo(ctx, edge, s.encoded, s.flush); err != nil {
		er.logStreamError(ctx, err)
		// A regular end would look like a complete response.
		panic(http.ErrAbortHandler)
	}
}

// eventStream writes events in the format of a stream.
type eventStream interface {
	// event adds an event.
	event(events.CloudEvent) error
	// encoded adds an event that is shared with other clients.
	encoded(*feed.Event) error
	// caughtUp marks the newest event: later events are added as they are recorded.
	caughtUp(seq string) error
	// beat adds a heartbeat with the position reached.
	beat(seq string) error
	// flush sends the added events to the client.
	flush() error
}

// follow writes the stored events, a mark, and then new events as they are recorded.
func (er *eventReader) follow(ctx context.Context, r *http.Request, begin func() (eventStream, error), edge uint64) {
	s, err := begin()
	if err != nil || r.Method == http.MethodHead {
		return
	}
	if err := er.readTo(ctx, edge, s.encoded, s.flush); err != nil {
		er.logStreamError(ctx, err)
		return
	}
	if er.isDone() {
		return
	}
	if s.caughtUp(strconv.FormatUint(er.after, 10)) != nil || s.flush() != nil {
		return
	}
	er.logStreamError(ctx, er.followLive(ctx, s))
}

// followLive writes events as they are recorded. A client that is too slow for the feed
// reads stored events until it has caught up, and loses its connection if it stalls.
func (er *eventReader) followLive(ctx context.Context, s eventStream) error {
	place := er.a.live.Join(ctx, er.r.tenant, er.after)
	defer place.Leave()
	beat := time.NewTicker(heartbeatInterval)
	defer beat.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for !er.isDone() {
		list, end, changed, ok := place.Next(er.after)
		if !ok {
			if err := er.readTo(ctx, end, s.encoded, s.flush); err != nil {
				return err
			}
			continue
		}
		for _, e := range list {
			if err := er.advance(ctx, e, s.encoded); err != nil {
				return err
			}
		}
		if !er.isDone() {
			er.after = max(er.after, end)
		}
		if err := s.flush(); err != nil {
			return err
		}
		if len(list) > 0 {
			changed = nil // the next delivery waits for the end of the pause
			pause.Reset(place.Pause())
		}
		select {
		case <-changed:
		case <-pause.C:
		case <-beat.C:
			if err := s.beat(strconv.FormatUint(er.after, 10)); err != nil {
				return err
			}
		case <-place.Ended():
			if len(list) > 0 {
				continue // events read before the end are delivered first
			}
			return place.Err()
		case <-er.r.drain:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}
