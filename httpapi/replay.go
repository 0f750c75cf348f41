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
	"daybook/internal/resources/reads"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/projections"
)

// Publisher publishes recorded events again, under subjects outside of the ledger.
type Publisher interface {
	// Republish sends an event, marked as replayed, to the subscribers of a subject below
	// "replay.<tenant>.". It refuses other subjects.
	Republish(ctx context.Context, subject string, e events.Event) error
}

// eventBatch is the number of events that a replay reads at a time.
const eventBatch = 1000

func (a *api) replayRoutes(r *router) {
	const path = "/api/sessions/{name}/replay"
	one := mediaOf[events.CloudEvent](r)
	op := func(method, id, summary, description string) huma.Operation {
		return huma.Operation{
			Metadata:    map[string]any{heavyKey: true},
			OperationID: id, Method: method, Path: path, Tags: []string{tagSessions}, Summary: summary,
			Description: description + " The events have their recorded content and are marked with replayed: true. At the original speed, the pauses between them are those between their times; " +
				"speed 10 makes them a tenth as long, and max removes them. During long pauses, empty lines or comments are sent as heartbeats.",
			Responses: map[string]*huma.Response{"200": {Description: "The events.", Headers: map[string]*huma.Param{lastSequence: {
				Description: "Last position of the replay.", Schema: &huma.Schema{Type: huma.TypeInteger},
			}}, Content: map[string]*huma.MediaType{typeNDJSON: one, typeSSE: one}}},
		}
	}
	errs := []int{http.StatusBadRequest, http.StatusNotFound}
	publish := op(http.MethodPost, "republish-session", "Publish the events of a session again under a NATS subject",
		"Publishes the events, and returns each one as it is published, as GET does. The replay ends when the request ends.")
	publish.Metadata[scopeKey] = access.Read // it records nothing, and its response is that of the read
	register(r, op(http.MethodGet, "replay-session", "Replay the events of a session",
		"The events of the session's runs and its entries, in order: one JSON object per line. With Accept: text/event-stream, server-sent events whose id is their position, and an event named end after the last one."),
		errs, a.replaySession)
	register(r, publish, errs, a.republishSession)
}

// ReplayInput is the input of a replay. It is embedded in the input of the operation
// that publishes the events.
type ReplayInput struct {
	Reading
	OneSession
	Speed       string           `query:"speed" doc:"Multiple of the original speed, such as 1, 10 or 0.5, or max for no pauses." default:"1"`
	MaxPause    string           `query:"max_pause" doc:"Maximum pause between two events, such as 5s; default: no limit."`
	From        optional[uint64] `query:"from" doc:"First position."`
	To          optional[uint64] `query:"to" doc:"Last position."`
	FromEntry   optional[int64]  `query:"from_entry" doc:"Only runs of entries with this index or a higher one."`
	ToEntry     optional[int64]  `query:"to_entry" doc:"Only runs of entries with this index or a lower one."`
	LastEventID string           `header:"Last-Event-ID" doc:"Streams only: id of the last event received; the replay continues after it."`
}

type republishInput struct {
	ReplayInput
	Subject string `query:"subject" required:"true" doc:"Subject to publish under, below replay.TENANT., such as replay.default.review."`
}

func (a *api) replaySession(ctx context.Context, in *ReplayInput) (*streamed, error) {
	return a.startReplay(ctx, in, func(context.Context, events.Event) error { return nil })
}

func (a *api) republishSession(ctx context.Context, in *republishInput) (*streamed, error) {
	if a.replay == nil {
		return nil, absent("this server does not publish replays")
	}
	tenant := requestOf(ctx).tenant
	if f := checkReplaySubject(tenant, in.Subject); f != nil {
		return nil, f
	}
	return a.startReplay(ctx, &in.ReplayInput, func(ctx context.Context, e events.Event) error {
		return a.replay.Republish(ctx, in.Subject, e)
	})
}

func checkReplaySubject(tenant, s string) *failure {
	rest, ok := strings.CutPrefix(s, "replay."+tenant+".")
	if !ok || len(s) > 256 || strings.ContainsAny(rest, "*> \t\r\n\x00") || strings.Contains("."+rest+".", "..") {
		return invalid("subject", `subject must be a subject below replay.%s., without wildcards, such as replay.%s.review, not "%s"`, tenant, tenant, ledger.Excerpt(s))
	}
	return nil
}

// startReplay checks a request and returns its response. onEvent is called with every
// event before the event is sent to the client.
func (a *api) startReplay(ctx context.Context, in *ReplayInput, onEvent func(context.Context, events.Event) error) (*streamed, error) {
	p, f := newReplaySchedule(in.Speed, in.MaxPause)
	if f != nil {
		return nil, f
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	re, err := a.newReplay(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := budget.TakeOnce(ctx, eventStreamBytes); err != nil {
		return nil, err
	}
	re.schedule, re.onEvent = p, onEvent
	return stream(func(w http.ResponseWriter, hr *http.Request) { re.serve(ctx, w, hr) }), nil
}

// replay sends the events of a session again, for one request.
type replay struct {
	a *api
	r *request
	// after is the position reached, edge the last position.
	after, edge uint64
	selector    *events.Selector
	// runs has the runs of the requested entries; nil for all runs of the session.
	runs     map[string]bool
	schedule *replaySchedule
	onEvent  func(context.Context, events.Event) error
}

func (a *api) newReplay(ctx context.Context, in *ReplayInput) (*replay, error) {
	r := requestOf(ctx)
	session, err := a.session(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	re := &replay{a: a, r: r, selector: a.selector(events.Selection{Tenant: r.tenant, Session: sessionFilter{in.Name, &session}.selection()})}
	if re.edge, err = a.events.LastSeq(ctx); err != nil {
		return nil, fmt.Errorf("read the end of the ledger: %w", err)
	}
	if in.To.Set {
		re.edge = min(re.edge, in.To.Value)
	}
	if in.From.Set && in.From.Value > 0 {
		re.after = in.From.Value - 1
	}
	if in.LastEventID != "" && r.accept == typeSSE {
		n, err := strconv.ParseUint(in.LastEventID, 10, 64)
		if err != nil {
			return nil, invalid("Last-Event-ID", `Last-Event-ID must be a position in the ledger, not "%s"`, ledger.Excerpt(in.LastEventID))
		}
		re.after = n
	}
	if err := a.skipUnselected(ctx, re.selector, &re.after, re.edge); err != nil {
		return nil, err
	}
	return re, re.selectRuns(ctx, in, session)
}

// selectRuns sets runs to the runs of the requested entries, and after to the position before
// the earliest request for one of these runs.
func (re *replay) selectRuns(ctx context.Context, in *ReplayInput, session projections.Session) error {
	if !in.FromEntry.Set && !in.ToEntry.Set {
		return nil
	}
	type run struct {
		index int64
		id    string
	}
	var runs []run
	err := re.a.q.ForEachEntry(ctx, re.r.tenant, session, 0, func(e projections.Entry) error {
		runs = append(runs, run{e.Index, e.ExecutionID})
		return nil
	})
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return invalid("from_entry", "the session has no entries yet")
	}
	newest := runs[len(runs)-1].index
	first, last := in.FromEntry.or(0), in.ToEntry.or(newest)
	if first < 0 || first > last || last > newest {
		return invalid("from_entry", "the session has the entries 0 to %d; %d to %d are not among them", newest, first, last)
	}
	re.runs = map[string]bool{}
	earliest := re.edge
	for _, e := range runs {
		if e.index < first || e.index > last {
			continue
		}
		re.runs[e.id] = true
		if len(re.runs) > maxLookups {
			earliest = 0
		}
		if earliest == 0 {
			continue
		}
		requested, err := re.a.cmd.Requested(ctx, re.r.tenant, e.id)
		if err != nil {
			return err
		}
		earliest = min(earliest, requested-1)
	}
	re.after = max(re.after, earliest)
	return nil
}

// maxLookups bounds the runs whose requests are looked up to find the first position.
// With more runs, the replay reads the ledger from the first event of the session.
const maxLookups = 200

func (re *replay) wants(ctx context.Context, e events.Event) (bool, error) {
	if re.runs != nil {
		return e.Tenant == re.r.tenant && slices.ContainsFunc(events.ExecutionsOf(e), func(id string) bool { return re.runs[id] }), nil
	}
	return re.selector.Wants(ctx, e)
}

func (re *replay) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	w.Header().Set(lastSequence, strconv.FormatUint(re.edge, 10))
	begin := startLines(w)
	sse := re.r.accept == typeSSE
	if sse {
		begin = startSSEEvents(w)
	}
	s, err := begin()
	if err != nil || r.Method == http.MethodHead {
		return
	}
	err = re.sendEvents(ctx, s)
	if err == nil {
		if out, ok := s.(sseEvents); ok {
			err = errors.Join(out.sse.event("", "end", edgeReached{strconv.FormatUint(re.after, 10)}), out.flush())
		}
	}
	if err == nil {
		return
	}
	if !errors.Is(err, errDraining) {
		re.a.logFailure(ctx, "replay ended early", err, "after", re.after)
	}
	if !sse {
		// A regular end would look like a complete response.
		panic(http.ErrAbortHandler)
	}
}

// sendEvents writes the selected events up to the position edge.
func (re *replay) sendEvents(ctx context.Context, s eventStream) error {
	for re.after < re.edge {
		if err := errors.Join(continueReading(ctx), reads.Pass(ctx)); err != nil {
			return err
		}
		batch, err := re.a.events.Read(ctx, re.after, eventBatch)
		if err != nil {
			return err
		}
		for _, e := range batch {
			if e.Seq > re.edge {
				break
			}
			if err := re.sendEvent(ctx, s, e); err != nil {
				return err
			}
			re.after = e.Seq
		}
		if err := s.flush(); err != nil {
			return err
		}
		if len(batch) == 0 || batch[len(batch)-1].Seq >= re.edge {
			return nil
		}
	}
	return nil
}

func (re *replay) sendEvent(ctx context.Context, s eventStream, e events.Event) error {
	wanted, err := re.wants(ctx, e)
	if err != nil || !wanted {
		return err
	}
	if pause := re.schedule.pauseBefore(e.Time, time.Now()); pause > 0 {
		if err := s.flush(); err != nil {
			return err
		}
		if err := re.sleep(ctx, s, pause); err != nil {
			return err
		}
	}
	if err := continueReading(ctx); err != nil {
		return err
	}
	ce, err := events.Structured(e)
	if err != nil {
		return err
	}
	ce.Replayed = true
	if err := re.onEvent(ctx, e); err != nil {
		return err
	}
	return s.event(ce)
}

var errDraining = errors.New("the server is shutting down")

// sleep waits for the time of the next event. Meanwhile it sends heartbeats that
// clients do not see as events.
func (re *replay) sleep(ctx context.Context, s eventStream, d time.Duration) error {
	reads.From(ctx).Yield()
	t, beat := time.NewTimer(d), time.NewTicker(heartbeatInterval)
	defer t.Stop()
	defer beat.Stop()
	for {
		select {
		case <-t.C:
			return nil
		case <-beat.C:
			switch out := s.(type) {
			case sseEvents:
				out.sse.beat("")
			case *lines:
				out.blank()
			}
			if err := s.flush(); err != nil {
				return err
			}
		case <-re.r.drain:
			return errDraining
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
