package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/ledger"
	"daybook/projections"
)

// maxListLimit bounds a page of a list.
const maxListLimit = 1000

func (a *api) executionRoutes(r *router) {
	register(r, execOperation(r),
		[]int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests}, a.submit)
	r.bounds(http.MethodPost, "/api/exec", "wait", 0, maxWaitSecs, nil)
	answers := r.api.OpenAPI().Paths["/api/exec"].Post.Responses
	answers["200"].Headers = map[string]*huma.Header{sequenceHeader: answers["202"].Headers[sequenceHeader]}

	register(r, markHeavy(huma.Operation{
		OperationID: "list-executions", Method: http.MethodGet, Path: "/api/executions", Tags: []string{tagExecutions},
		Summary:     "List executions",
		Description: "Newest first. Without limit: all running executions and the newest 1,000 ended ones.",
	}), []int{http.StatusBadRequest}, a.listExecutions)
	r.bounds(http.MethodGet, "/api/executions", "limit", 1, maxListLimit, nil)

	register(r, huma.Operation{
		OperationID: "get-execution", Method: http.MethodGet, Path: "/api/executions/{id}", Tags: []string{tagExecutions},
		Summary: "Get an execution", Description: "With wait, answers as soon as the execution has ended, with the beginning of its output, or with its current state when the time is up.",
	}, []int{http.StatusBadRequest, http.StatusNotFound}, a.getExecution)
	r.bounds(http.MethodGet, "/api/executions/{id}", "wait", 0, maxWaitSecs, nil)

	register(r, huma.Operation{
		OperationID: "cancel-execution", Method: http.MethodPost, Path: "/api/executions/{id}/cancel", Tags: []string{tagExecutions},
		Summary: "Cancel an execution", Description: "Answers once the status cancelled is recorded. Error responses have ok: false.",
	}, []int{http.StatusNotFound, http.StatusConflict}, a.cancelExecution)

	register(r, markHeavy(huma.Operation{
		OperationID: "get-execution-events", Method: http.MethodGet, Path: "/api/executions/{id}/events", Tags: []string{tagExecutions},
		Summary: "Get the history of an execution", Description: "All recorded events about the execution up to its end, in order, read from the ledger, without its replays. The response is written while it is read: an error ends the connection.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The events.",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeArray, Items: mediaOf[events.CloudEvent](r).Schema}}},
		}},
	}), []int{http.StatusBadRequest, http.StatusNotFound}, a.executionEvents)
	r.bounds(http.MethodGet, "/api/executions/{id}/events", "limit", 1, maxEventLimit, nil)
	r.bounds(http.MethodGet, "/api/executions/{id}/events", "after", 0, 0, 0)
}

type listInput struct {
	Reading
	Status  string        `query:"status" doc:"Only executions with this status: running, completed, failed, timed_out or cancelled."`
	Session string        `query:"session" doc:"Only runs of this session: a name, an id, an intent, a ref, or a unique prefix."`
	Since   string        `query:"since" doc:"Only runs accepted at this time or later."`
	Text    string        `query:"text" doc:"Only runs whose source contains this text, ignoring case, or whose script has this name in stack traces (main.ts#1a2b3c4d). Only the first 64 KiB of a source are searched. A page searches at most 20,000 runs and 16 MiB of sources: it may have fewer runs than limit, or none, and a next_cursor."`
	Tags    []string      `query:"tag,explode" doc:"Only runs whose output heap has this tag, as KEY=VALUE; repeatable."`
	Limit   optional[int] `query:"limit" doc:"Maximum number of executions."`
	Cursor  string        `query:"cursor" doc:"next_cursor of the previous page."`
}

type listAnswer struct{ Body projections.ExecutionPage }

func (a *api) listExecutions(ctx context.Context, in *listInput) (*listAnswer, error) {
	r := requestOf(ctx)
	filter := projections.ExecutionFilter{Cursor: in.Cursor, Text: in.Text, Details: true}
	if in.Since != "" {
		at, err := time.Parse(time.RFC3339, in.Since)
		if err != nil {
			return nil, invalid("since", `since must be a time such as 2026-11-21T09:30:00Z, not "%s"`, ledger.Excerpt(in.Since))
		}
		filter.Since = at
	}
	if in.Status != "" {
		s, ok := events.ParseStatus(in.Status)
		if !ok {
			return nil, invalid("status", `status must be running, completed, failed, timed_out or cancelled, not "%s"`, ledger.Excerpt(in.Status))
		}
		filter.Status = s
	}
	if in.Limit.Set {
		if f := checkRange("limit", in.Limit.Value, 1, maxListLimit); f != nil {
			return nil, f
		}
		filter.Limit = in.Limit.Value
	}
	tags, f := tagList("tag", r.query["tag"])
	if f != nil {
		return nil, f
	}
	filter.Tags = tags
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	session, err := a.sessionFilter(ctx, in.Session)
	if err != nil {
		return nil, err
	}
	session.restrict(&filter)
	page, err := a.q.Executions(ctx, r.tenant, filter)
	if page.Executions == nil {
		page.Executions = []projections.ExecutionSummary{}
	}
	return &listAnswer{Body: page}, err
}

// OneExecution is embedded in the inputs of operations on one execution.
type OneExecution struct {
	ID string `path:"id" doc:"Execution id."`
}

func (e OneExecution) about() subject { return subject{"execution_id", "Execution", e.ID} }

type getInput struct {
	Reading
	OneExecution
	Wait optional[int] `query:"wait" doc:"Seconds to wait for the end. The response for an ended execution has the beginning of its output, also with 0."`
}

type getAnswer struct{ Body executionDetail }

func (a *api) getExecution(ctx context.Context, in *getInput) (*getAnswer, error) {
	if f := checkRange("wait", in.Wait.Value, 0, maxWaitSecs); f != nil {
		return nil, f
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	d, err := a.awaitEnd(ctx, in.ID, 0, in.Wait.Value, in.Wait.Set)
	if err != nil {
		return nil, err
	}
	return &getAnswer{Body: d}, nil
}

type cancelInput struct{ OneExecution }

// ok is the body of the response to a write without a result.
type ok struct {
	OK bool `json:"ok"`
}

type okAnswer struct {
	Written
	Body ok
}

func (a *api) cancelExecution(ctx context.Context, in *cancelInput) (*okAnswer, error) {
	r := requestOf(ctx)
	seq, err := a.cmd.Cancel(ctx, r.tenant, in.ID, r.actor)
	if err != nil {
		return nil, a.toFailure(ctx, a.explainUnknown(ctx, in.ID, err), in.about()).markNotOK()
	}
	return &okAnswer{Written: a.noteWrite(seq), Body: ok{true}}, nil
}

type historyInput struct {
	OneExecution
	After uint64        `query:"after" doc:"Only events after this position. Continue after the last event received."`
	Limit optional[int] `query:"limit" doc:"Maximum number of events. Fewer are the last ones so far."`
}

func (a *api) executionEvents(ctx context.Context, in *historyInput) (*streamed, error) {
	left := -1 // without a limit
	if in.Limit.Set {
		if f := checkRange("limit", in.Limit.Value, 1, maxEventLimit); f != nil {
			return nil, f
		}
		left = in.Limit.Value
	}
	// An unknown execution is refused before the response starts.
	if _, err := a.cmd.Requested(ctx, requestOf(ctx).tenant, in.ID); err != nil {
		return nil, a.explainUnknown(ctx, in.ID, err)
	}
	return stream(func(w http.ResponseWriter, r *http.Request) {
		list := startArray(w, r)
		// Memory is taken before the first event, so a retry repeats no event.
		err := budget.Retry(ctx, reads.RetryFunc(ctx, func() error {
			return a.cmd.EachEvent(ctx, requestOf(ctx).tenant, in.ID, in.After, func(e events.Event) error {
				ce, err := events.Structured(e)
				if err == nil {
					err = list.add(ce)
				}
				if left--; left == 0 && err == nil {
					return errPageComplete
				}
				return err
			})
		}))
		if errors.Is(err, errPageComplete) {
			err = nil
		}
		a.endArray(ctx, list, err)
	}), nil
}

func (a *api) callRoutes(r *router) {
	register(r, markHeavy(huma.Operation{
		OperationID: "get-execution-calls", Method: http.MethodGet, Path: "/api/executions/{id}/calls", Tags: []string{tagExecutions},
		Summary:     "List the host calls of an execution",
		Description: "The calls of the script to tools of MCP servers, and its fetches, in order, with their results.",
	}), []int{http.StatusNotFound}, a.executionCalls)
}

type callsInput struct {
	Reading
	OneExecution
}

type callsAnswer struct {
	Body struct {
		Calls []projections.Call `json:"calls"`
	}
}

func (a *api) executionCalls(ctx context.Context, in *callsInput) (*callsAnswer, error) {
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	calls, err := readCurrent(ctx, a, func() ([]projections.Call, error) { return a.q.Calls(ctx, requestOf(ctx).tenant, in.ID) })
	if err != nil {
		return nil, err
	}
	out := new(callsAnswer)
	out.Body.Calls = calls
	return out, nil
}
