package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/budget"
	"daybook/ledger"
)

const (
	eventBatch    = 1000
	maxEventLimit = 100_000
)

// eventStreamBytes is about what an answer holds that reads the ledger in pieces: a
// piece as it is stored, decoded, and as JSON.
const eventStreamBytes = 3 << 20

// lastSequence is the answer header that tells where the ledger ended when an
// NDJSON answer began: the position to go on after, whatever was filtered out.
const lastSequence = "Daybook-Last-Sequence"

func (a *api) ledgerRoutes(r *router) {
	const path = "/api/events"
	one := mediaOf[CloudEvent](r)
	register(r, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: path, Tags: []string{tagLedger},
		Summary: "Read or follow the ledger",
		Description: "Stored events after a position, in order, as CloudEvents: one JSON object a line up to the newest event, or, with Accept: text/event-stream, " +
			"as events whose id is their position, with an event named caught-up at the newest one, and on from there as they are recorded. Last-Event-ID resumes. " +
			"With follow=true NDJSON goes on too: a line of the type daybook.stream.caught_up.v1, which is no event of the ledger, marks the newest one, and repeats as a sign of life " +
			"with the position reached. Go on after the last sequence seen. A browser gets a page of the newest events.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The events.",
			Headers: map[string]*huma.Param{lastSequence: {
				Description: "NDJSON only: the newest position when the answer began. Without limit, go on after it.",
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
	Types       []string      `query:"type,explode" doc:"Only events of this type; repeat it for more."`
	Execution   string        `query:"execution" doc:"Only events about this execution."`
	Session     string        `query:"session" doc:"Only events of this session and its runs: a name, an id, an intent, a ref, or a unique prefix. A name that is not known yet is followed."`
	Limit       optional[int] `query:"limit" doc:"End after this many events."`
	Follow      bool          `query:"follow" doc:"NDJSON only: go on with events as they are recorded, as a stream of server-sent events always does."`
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
		if f := between("limit", in.Limit.Value, 1, maxEventLimit); f != nil {
			return nil, f
		}
		reader.left = in.Limit.Value
	}
	for _, t := range r.query["type"] {
		if !slices.Contains(events.Types(), events.Type(t)) {
			return nil, noSuchType(t)
		}
		reader.selector.Types = append(reader.selector.Types, events.Type(t))
	}
	if in.LastEventID != "" && (r.accept == typeSSE || in.Follow) {
		n, err := strconv.ParseUint(in.LastEventID, 10, 64)
		if err != nil {
			return nil, invalid("Last-Event-ID", `Last-Event-ID must be a position in the ledger, not "%s"`, ledger.Excerpt(in.LastEventID))
		}
		reader.after = n
	}
	switch gone := a.removal(); {
	case reader.after == 0:
		reader.after = gone.UpTo() // from the beginning is from the first that is there
	case reader.after < gone.UpTo():
		return nil, gone.Gone(fmt.Sprintf("events %d to %d were", reader.after+1, gone.UpTo()))
	}
	if reader.whole = !in.Follow && r.accept != typeSSE; reader.whole {
		if err := budget.TakeOnce(ctx, eventStreamBytes); err != nil {
			return nil, err
		}
	}
	edge, err := a.events.LastSeq(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the end of the ledger: %w", err)
	}
	if reader.after > edge {
		return nil, invalid("after", "after is %d, but the ledger ends at %d: positions never go back, so this one is of another ledger", reader.after, edge)
	}
	switch {
	case !in.Follow && wantsHTML(r.header.Values("Accept")):
		removed := a.removal().UpTo()
		return stream(func(w http.ResponseWriter, _ *http.Request) {
			if err := reader.browse(ctx, w, r.query, removed, edge); err != nil {
				writeFailure(w, a.failed(ctx, err, subject{}))
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

func noSuchType(t string) *failure {
	names := make([]string, 0, len(events.Types()))
	for _, known := range events.Types() {
		names = append(names, string(known))
	}
	return invalid("type", `there is no event type "%s"; the types are %s`, ledger.Excerpt(t), strings.Join(names, ", "))
}

// selector applies a selection with the help of the read side.
func (a *api) selector(sel events.Selection) *events.Selector {
	return &events.Selector{Selection: sel, SessionOf: func(ctx context.Context, seq uint64, execution string) ([]string, error) {
		return a.sessionOf(ctx, sel.Tenant, seq, execution)
	}}
}

// eventReader walks the ledger for one request.
type eventReader struct {
	a *api
	r *request
	// after is the position reached, left the number of events still wanted
	// (-1: all).
	after    uint64
	left     int
	selector *events.Selector
	// whole is true for an answer with an end: it holds memory until then. One that is
	// followed holds it while it reads what was stored before.
	whole bool
}

func (er *eventReader) done() bool { return er.left == 0 }

// take passes the wanted events of a batch to emit and moves the position.
func (er *eventReader) take(ctx context.Context, batch []events.Event, emit func(CloudEvent) error) error {
	for _, e := range batch {
		if er.done() {
			return nil
		}
		er.after = e.Seq
		wanted, err := er.selector.Wants(ctx, e)
		if err != nil {
			return err
		}
		if !wanted {
			continue
		}
		ce, err := cloudEvent(e)
		if err != nil {
			return err
		}
		if err := emit(ce); err != nil {
			return err
		}
		if er.left > 0 {
			er.left--
		}
	}
	return nil
}

// readTo reads stored events up to a position.
func (er *eventReader) readTo(ctx context.Context, edge uint64, emit func(CloudEvent) error, flush func() error) error {
	for er.after < edge && !er.done() {
		err := budget.Piece(ctx, func() error {
			if !er.whole {
				if err := budget.Retry(ctx, func() error { return budget.TakeOnce(ctx, eventStreamBytes) }); err != nil {
					return err
				}
			}
			return er.readPiece(ctx, edge, emit, flush)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readPiece reads some of the stored events up to a position.
func (er *eventReader) readPiece(ctx context.Context, edge uint64, emit func(CloudEvent) error, flush func() error) error {
	batch, err := er.a.events.Read(ctx, er.after, eventBatch)
	if err != nil {
		return err
	}
	if len(batch) == 0 {
		er.after = edge
		return nil
	}
	past := slices.IndexFunc(batch, func(e events.Event) bool { return e.Seq > edge })
	if past >= 0 {
		batch = batch[:past]
	}
	if err := er.take(ctx, batch, emit); err != nil {
		return err
	}
	if past >= 0 && !er.done() {
		er.after = edge
	}
	return flush()
}

// broke logs why a stream that had begun ended early, unless the client left.
func (er *eventReader) broke(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		er.a.log.WarnContext(ctx, "event stream broke off", "after", er.after, "error", err)
	}
}

func (er *eventReader) serveNDJSON(ctx context.Context, w http.ResponseWriter, r *http.Request, edge uint64) {
	w.Header().Set("Content-Type", typeNDJSON)
	w.Header().Set(lastSequence, strconv.FormatUint(edge, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	enc, rc := encoder(w), http.NewResponseController(w)
	err := er.readTo(ctx, edge, func(e CloudEvent) error { return enc.Encode(e) }, rc.Flush)
	if err != nil {
		er.broke(ctx, err)
		// A clean end would pass for the whole answer.
		panic(http.ErrAbortHandler)
	}
}

// eventStream is how events are written to a client that follows them.
type eventStream interface {
	// event adds one, with its position.
	event(CloudEvent) error
	// caughtUp marks the place in the stream from which events come as they are
	// recorded.
	caughtUp(seq string) error
	// beat shows that the stream lives, and how far it has come.
	beat(seq string) error
	// flush sends what was added.
	flush() error
}

// follow writes what is stored, marks the live edge, and goes on from there.
func (er *eventReader) follow(ctx context.Context, r *http.Request, begin func() (eventStream, error), edge uint64) {
	s, err := begin()
	if err != nil || r.Method == http.MethodHead {
		return
	}
	if err := er.readTo(ctx, edge, s.event, s.flush); err != nil {
		er.broke(ctx, err)
		return
	}
	if er.done() {
		return
	}
	if s.caughtUp(strconv.FormatUint(er.after, 10)) != nil || s.flush() != nil {
		return
	}
	er.broke(ctx, er.followLive(ctx, s))
}

// followLive passes on what is recorded from here on. The events are handed
// over by the goroutine that follows, so that silence can be broken by signs
// of life; a slow client makes it wait, and loses its connection if it stalls.
func (er *eventReader) followLive(ctx context.Context, s eventStream) error {
	following, stop := context.WithCancel(ctx)
	batches, ended, gone := make(chan []events.Event), make(chan error, 1), make(chan struct{})
	after := er.after
	go func() {
		defer close(gone)
		ended <- er.a.events.Follow(following, after, func(batch []events.Event, _ uint64) error {
			// The batch is only ours until this returns.
			select {
			case batches <- slices.Clone(batch):
				return nil
			case <-following.Done():
				return following.Err()
			}
		})
	}()
	err := er.relay(ctx, s, batches, ended)
	stop()
	<-gone // nothing of a stream outlives its request
	return err
}

func (er *eventReader) relay(ctx context.Context, s eventStream, batches <-chan []events.Event, ended <-chan error) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for !er.done() {
		select {
		case batch := <-batches:
			if err := er.take(ctx, batch, s.event); err != nil {
				return err
			}
		case <-beat.C:
			if err := s.beat(strconv.FormatUint(er.after, 10)); err != nil {
				return err
			}
		case err := <-ended:
			return err
		case <-er.r.drain:
			return nil
		case <-ctx.Done():
			return nil
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}
