package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// Shredder shreds the content of sessions. *embed.Daybook implements it.
type Shredder interface {
	Shred(ctx context.Context, tenant, session string, force bool, actor events.Actor) (retention.ShredResult, error)
}

func (a *api) shredRoutes(r *router) {
	register(r, huma.Operation{
		OperationID: "shred-session", Method: http.MethodDelete, Path: "/api/sessions/{name}/content", Tags: []string{tagSessions},
		Summary: "Shred the content of a session",
		Description: "Destroys the content keys that encrypt the sources, output, results, errors, tags and heaps of the session's runs. Other recorded data and all proofs stay. Later requests for the content are answered with the time and the position of the event that records the destruction. " +
			"Affects only runs recorded while the server ran with --erasable-sessions. Refused while runs of the session are in progress and, without force, while other runs depend on its heaps or a content key of the session is missing.",
		Metadata: map[string]any{scopeKey: access.Admin},
	}, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict}, a.shred)
}

type shredInput struct {
	Name  string `path:"name" doc:"Session name."`
	Force bool   `query:"force" doc:"True also removes heaps that runs outside of the session depend on, and shreds although content keys are missing."`
}

func (in shredInput) about() subject { return subject{"session", "Session", in.Name} }

type shredAnswer struct {
	Written
	Body retention.ShredResult
}

func (a *api) shred(ctx context.Context, in *shredInput) (*shredAnswer, error) {
	if a.shredder == nil {
		return nil, absent("this server does not shred content")
	}
	r := requestOf(ctx)
	done, err := a.shredder.Shred(ctx, r.tenant, in.Name, in.Force, r.actor)
	var refused *retention.RefusedError
	if errors.As(err, &refused) {
		return nil, fail(http.StatusConflict, string(ledger.CodeConflict), "session", "%s", refused.Message)
	}
	if err != nil {
		return nil, err
	}
	return &shredAnswer{Written: a.noteWrite(done.Last), Body: done}, nil
}
