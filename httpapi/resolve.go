package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// Resolver finds ids by a prefix.
type Resolver interface {
	ResolveExecution(ctx context.Context, tenant, text, session string) (string, error)
	ResolveHeap(ctx context.Context, tenant, text, session string) (string, error)
}

func (a *api) resolveRoutes(r *router) {
	register(r, markHeavy(huma.Operation{
		OperationID: "resolve-id", Method: http.MethodGet, Path: "/api/resolve", Tags: []string{tagService},
		Summary: "Find an id by a prefix",
		Description: "The one execution or heap whose id starts with the text. If there are several, the response is 409 and lists up to ten. `@last` is the newest execution, or the heap of the newest execution that left one. " +
			"With session, it is the newest execution of the session, or the heap that the session continues from, empty if the session was reset to a fresh isolate.",
	}), []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict}, a.resolve)
}

type resolveInput struct {
	Reading
	Kind    string `query:"kind" required:"true" enum:"execution,heap" doc:"Kind of the object."`
	ID      string `query:"id" required:"true" doc:"Prefix of the id, or @last."`
	Session string `query:"session" doc:"With @last: only this session, by name, id, intent, ref or unique prefix."`
}

func (in resolveInput) about() subject {
	if in.Kind == "heap" {
		return subject{"id", "Heap", in.ID}
	}
	return subject{"id", "Execution", in.ID}
}

type resolved struct {
	ID string `json:"id" doc:"The complete id; empty for the heap of a session that was reset to a fresh isolate."`
}

func (a *api) resolve(ctx context.Context, in *resolveInput) (*struct{ Body resolved }, error) {
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	find := a.q.ResolveExecution
	if in.Kind == "heap" {
		find = a.q.ResolveHeap
	}
	if in.ID == projections.Newest && in.Session != "" {
		return a.newestInSession(ctx, in)
	}
	id, err := readCurrent(ctx, a, func() (string, error) { return find(ctx, requestOf(ctx).tenant, in.ID, in.Session) })
	if many, ok := errors.AsType[*projections.AmbiguousError](err); ok {
		return nil, fail(http.StatusConflict, string(ledger.CodeConflict), "id", "%s", many)
	}
	if errors.Is(err, events.ErrNotFound) && in.ID == projections.Newest {
		return nil, in.noneFailure()
	}
	if in.Kind == "execution" {
		err = a.explainUnknown(ctx, in.ID, err)
	}
	return &struct{ Body resolved }{resolved{id}}, err
}

// newestInSession returns the heap that a session continues from, or its newest run.
func (a *api) newestInSession(ctx context.Context, in *resolveInput) (*struct{ Body resolved }, error) {
	s, err := a.session(ctx, in.Session)
	switch {
	case errors.Is(err, events.ErrNotFound):
		return nil, in.noneFailure()
	case err != nil:
		return nil, err
	case in.Kind == "execution":
		list, err := a.q.SessionMoments(ctx, requestOf(ctx).tenant, s, 1)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			if m.ExecutionID != "" {
				return &struct{ Body resolved }{resolved{m.ExecutionID}}, nil
			}
		}
		return nil, in.noneFailure()
	case s.Head != nil:
		return &struct{ Body resolved }{resolved{*s.Head}}, nil
	case s.ResetAt != nil:
		return &struct{ Body resolved }{}, nil
	default:
		return nil, in.noneFailure()
	}
}

func (in resolveInput) noneFailure() *failure {
	within := ""
	if in.Session != "" {
		within = fmt.Sprintf(" in session %.80q", in.Session)
	}
	return fail(http.StatusNotFound, string(ledger.CodeNotFound), "id", "there is no %s%s yet", in.Kind, within)
}
