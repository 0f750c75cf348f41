package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// Shredder shreds the content of sessions, and of what belongs to no session. *embed.Daybook implements it.
type Shredder interface {
	Shred(ctx context.Context, tenant string, t retention.Target, force bool, actor events.Actor) (retention.ShredResult, error)
}

func (a *api) shredRoutes(r *router) {
	register(r, huma.Operation{
		OperationID: "shred-session", Method: http.MethodDelete, Path: "/api/sessions/{name}/content", Tags: []string{tagSessions},
		Summary: "Shred the content of a session",
		Description: "Destroys the content keys that encrypt the sources, output, results, errors, tags and heaps of the session's runs, the prompts of an ACP session, and the intent of a logical one. Other recorded data and all proofs stay. Later requests for the content are answered with the time and the position of the event that records the destruction. " +
			"Affects only content recorded while the server ran with --erasable-sessions. Refused if runs of the session are in progress that do not end within 2 seconds and, without force, while other runs depend on its heaps or a content key of the session is missing. name is the name of a named session, the intent or ref of a logical session, or the id of any session or its first 12 characters.",
		Metadata: map[string]any{scopeKey: access.Admin},
	}, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict}, a.shred)
	register(r, huma.Operation{
		OperationID: "shred-without-session", Method: http.MethodDelete, Path: "/api/content", Tags: []string{tagSessions},
		Summary: "Shred the content without a session",
		Description: "Destroys the content keys of everything of the tenant that belongs to no session: runs without a session, values and notes of conversation contexts, and tags that clients set. The content of sessions stays. " +
			"Affects only content recorded while the server ran with --erasable-sessions. Refused if such runs are in progress that do not end within 2 seconds; runs that start meanwhile stay. Also refused, without force, while runs of sessions depend on their heaps or a content key is missing.",
		Metadata: map[string]any{scopeKey: access.Admin},
	}, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict}, a.shredWithoutSession)
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
	t, err := a.shredTarget(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	return a.shredContent(ctx, t, in.Force)
}

type shredRestInput struct {
	Force bool `query:"force" doc:"True also removes heaps that runs of sessions depend on, and shreds although content keys are missing."`
}

func (shredRestInput) about() subject { return subject{"session", "Session", ""} }

func (a *api) shredWithoutSession(ctx context.Context, in *shredRestInput) (*shredAnswer, error) {
	answer, err := a.shredContent(ctx, retention.Target{Kind: events.SessionNone}, in.Force)
	if errors.Is(err, events.ErrNotFound) {
		return nil, fail(http.StatusNotFound, string(ledger.CodeNotFound), "", "no content without a session is recorded: nothing was shredded")
	}
	return answer, err
}

// minShredPrefix is the number of characters of an id that name a session to shred. The
// list of sessions of the command line shows as many.
const minShredPrefix = 12

// shredTarget returns the session that a text names: by its complete name, intent, ref or
// id, or by the start of its id. The start of a name is not enough to destroy something. No list
// has deleted ACP sessions, so only the complete id names one.
func (a *api) shredTarget(ctx context.Context, text string) (retention.Target, error) {
	s, err := a.session(ctx, text)
	switch {
	case errors.Is(err, events.ErrNotFound):
		deleted, err := a.q.WasAgentSession(ctx, requestOf(ctx).tenant, text)
		if err != nil {
			return retention.Target{}, err
		}
		if deleted {
			return retention.Target{Kind: events.SessionACP, SessionID: text}, nil
		}
		return retention.Named(text), nil // the ledger decides: the projections may be behind
	case err != nil:
		return retention.Target{}, err
	}
	named := s.Kind != events.SessionACP && s.Name != nil && *s.Name == text
	if !named && !slices.Contains(s.Refs, text) && (len(text) < minShredPrefix || !strings.HasPrefix(s.SessionID, text)) {
		return retention.Named(text), nil
	}
	if s.Kind == events.SessionLog {
		return retention.Named(*s.Name), nil
	}
	return retention.Target{Kind: s.Kind, SessionID: s.SessionID}, nil
}

func (a *api) shredContent(ctx context.Context, t retention.Target, force bool) (*shredAnswer, error) {
	if a.shredder == nil {
		return nil, absent("this server does not shred content")
	}
	r := requestOf(ctx)
	done, err := a.shredder.Shred(ctx, r.tenant, t, force, r.actor)
	var refused *retention.RefusedError
	if errors.As(err, &refused) {
		return nil, fail(http.StatusConflict, string(ledger.CodeConflict), "session", "%s", refused.Message)
	}
	if err != nil {
		return nil, err
	}
	return &shredAnswer{Written: a.noteWrite(done.Last), Body: done}, nil
}
