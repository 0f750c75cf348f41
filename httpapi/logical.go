package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/internal/tools/catalog"
	"daybook/internal/web"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/projections"
)

// Catalog lists the APIs that code of a tenant may use. *catalog.Catalog implements it.
type Catalog interface {
	Snapshot(ctx context.Context, tenant string) *catalog.Snapshot
}

// LogicalCommands is the write side of logical sessions. *ledger.Ledger implements it.
type LogicalCommands interface {
	OpenSession(ctx context.Context, o ledger.Opening) (ledger.OpenResult, error)
	ExpandSession(ctx context.Context, t ledger.Expansion) (ledger.ExpansionResult, error)
}

// LogicalSessions is the read side of logical sessions.
type LogicalSessions interface {
	LogicalSession(ctx context.Context, tenant, id string) (projections.LogicalSessionDetail, error)
	LogicalSessions(ctx context.Context, tenant string, limit int, cursor string) (projections.LogicalSessionPage, error)
}

func (a *api) logicalRoutes(r *router) {
	const base = "/api/logical-sessions"
	open := huma.Operation{
		OperationID: "open-logical-session", Method: http.MethodPost, Path: base, Tags: []string{tagSessions},
		Summary: "Open a logical session",
		Description: "Each run submitted with this session_id as logical_session starts from the heap that the turn before left, after that turn has ended. " +
			"The same intent always opens the same session. Seeds select catalog entries by id, or all entries of a source. The response declares new entries.",
		Metadata:    map[string]any{scopeKey: access.Run},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": mediaOf[openingBody](r)}},
	}
	register(r, open, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, a.openLogical)
	delete(open.RequestBody.Content, "application/octet-stream")
	register(r, markHeavy(huma.Operation{
		OperationID: "list-logical-sessions", Method: http.MethodGet, Path: base, Tags: []string{tagSessions},
		Summary: "List logical sessions", Description: "The last opened first.",
	}), []int{http.StatusBadRequest}, a.listLogical)
	register(r, huma.Operation{
		OperationID: "get-logical-session", Method: http.MethodGet, Path: base + "/{id}", Tags: []string{tagSessions},
		Summary: "Get a logical session", Description: "With its session head and its catalog entries.",
	}, []int{http.StatusNotFound}, a.getLogical)
}

// openingBody documents the request body; openLogical decodes it.
type openingBody struct {
	Intent  string            `json:"intent" doc:"Purpose of the session: 1 to 512 bytes, compared exactly. Use the same intent for the whole task."`
	Seeds   []string          `json:"seeds" doc:"Catalog entries to declare: ids such as builtin.console, or a source such as builtin."`
	Aliases map[string]string `json:"registry_aliases,omitempty" nullable:"true" doc:"Aliases used in seeds, with the ids that they stand for."`
}

type openLogicalInput struct{ RawBody []byte }

type openLogicalAnswer struct {
	Written
	Body openedSession
}

type openedSession struct {
	SessionID string `json:"session_id" doc:"Id of the session, for logical_session of runs."`
	New       bool   `json:"new" doc:"True if this request opened the session."`
	// MCP returns the following members in _meta and table.
	DomainRevision int64         `json:"domain_revision" doc:"Number of times that entries were added to the session."`
	NewSymbolSpace bool          `json:"new_symbol_space" doc:"True if earlier symbols are void."`
	Broken         *string       `json:"broken" doc:"Reason why this request broke continuity; null if it did not."`
	StateLost      bool          `json:"state_lost" doc:"True if the state could not be restored and the session starts from a fresh isolate."`
	Added          []declaration `json:"added" doc:"New entries of the session."`
	Declarations   string        `json:"declarations" doc:"The new entries as one TypeScript text, grouped by server, for a model; empty if there are none."`
}

type declaration struct {
	Symbol      string `json:"symbol"`
	ID          string `json:"id"`
	Declaration string `json:"declaration" doc:"TypeScript."`
}

func (a *api) openLogical(ctx context.Context, in *openLogicalInput) (*openLogicalAnswer, error) {
	r := requestOf(ctx)
	if f := requireJSON(r, in.RawBody, `curl -H 'Content-Type: application/json' --data '{"intent":"...","seeds":["builtin"]}' ...`); f != nil {
		return nil, f
	}
	o := catalog.Opening{Opening: ledger.Opening{Tenant: r.tenant, Actor: r.actor, Traceparent: r.traceparent}}
	if f := decodeObject(in.RawBody, map[string]member{"intent": text(&o.Intent, nil), "seeds": texts(&o.Seeds), "registry_aliases": textMap(&o.Aliases)}); f != nil {
		return nil, f
	}
	opened, err := catalog.Open(ctx, a.catalog, a.cmd, o)
	var count *catalog.SeedsError
	var unknown *catalog.UnknownError
	switch {
	case errors.As(err, &count) && count.Count == 0:
		return nil, invalid("seeds", "seeds is empty: give at least one id or source, for example %q for the built-in APIs", catalog.BuiltinSource)
	case errors.As(err, &count):
		return nil, invalid("seeds", "seeds must be at most %d, not %d: name a whole source, such as %q", catalog.MaxSeeds, count.Count, catalog.BuiltinSource)
	case errors.As(err, &unknown):
		return nil, invalid("seeds", "seeds: %s", unknown.Error())
	case err != nil:
		return nil, err
	}
	done := opened.Taught
	out := &openLogicalAnswer{Body: openedSession{
		SessionID: opened.SessionID, New: opened.New, DomainRevision: done.Revision, NewSymbolSpace: done.NewSymbolSpace, StateLost: done.StateLost,
		Added: []declaration{},
	}}
	if done.BreakReason != "" {
		out.Body.Broken = &done.BreakReason
	}
	added := opened.Added()
	for _, one := range added {
		e, _ := opened.Offered.Entry(one.ID)
		out.Body.Added = append(out.Body.Added, declaration{one.Name, one.ID, e.Declaration})
	}
	out.Body.Declarations = opened.Offered.Table(added)
	if opened.Recorded != 0 {
		out.Written = a.noteWrite(opened.Recorded)
	}
	return out, nil
}

// texts decodes a list of strings.
func texts(list *[]string) member {
	return func(where string, raw []byte) *failure {
		given, err := web.Strings(raw)
		if _, half := errors.AsType[*web.SurrogateError](err); half {
			return textFailure(where, err)
		}
		if err != nil {
			return mistyped(where, "%s must be a list of strings", where)
		}
		*list = given
		return nil
	}
}

type listLogicalInput struct {
	Reading
	Limit  optional[int] `query:"limit" minimum:"1" maximum:"1000" doc:"Maximum number of sessions; default 100."`
	Cursor string        `query:"cursor" doc:"next_cursor of the previous page."`
}

type listLogicalAnswer struct {
	Body projections.LogicalSessionPage
}

func (a *api) listLogical(ctx context.Context, in *listLogicalInput) (*listLogicalAnswer, error) {
	if in.Limit.Set && in.Limit.Value < 1 {
		return nil, invalid("limit", "limit must be 1 to %d, not %d", projections.MaxListLimit, in.Limit.Value)
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	page, err := a.q.LogicalSessions(ctx, requestOf(ctx).tenant, in.Limit.Value, in.Cursor)
	return &listLogicalAnswer{page}, err
}

type getLogicalInput struct {
	Reading
	ID string `path:"id" doc:"Id of the session."`
}

func (in getLogicalInput) about() subject { return subject{"session_id", "Session", in.ID} }

type getLogicalAnswer struct {
	Body projections.LogicalSessionDetail
}

func (a *api) getLogical(ctx context.Context, in *getLogicalInput) (*getLogicalAnswer, error) {
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	d, err := readCurrent(ctx, a, func() (projections.LogicalSessionDetail, error) {
		return a.q.LogicalSession(ctx, requestOf(ctx).tenant, in.ID)
	})
	if err != nil {
		return nil, err
	}
	return &getLogicalAnswer{d}, nil
}
