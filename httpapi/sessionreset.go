package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/ledger"
)

func (a *api) resetRoutes(r *router) {
	reset := huma.Operation{
		OperationID: "reset-session", Method: http.MethodPost, Path: "/api/sessions/{name}/reset", Tags: []string{tagSessions},
		Summary: "Reset a session to one of its heaps or to a fresh isolate",
		Description: "The next turn starts from the heap or, without one, from a fresh isolate. Runs accepted before the reset do not change. In a named session, the option --continue of the command line starts from the heap. " +
			"The heap must be one that a run of the session left or started from. " + sessionText,
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": mediaOf[resetBody](r)}},
	}
	register(r, reset, []int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
	}, a.resetSession)
	delete(reset.RequestBody.Content, "application/octet-stream")
	reset.RequestBody.Required = false
}

// resetBody documents the request body; resetSession decodes it.
type resetBody struct {
	Heap *string `json:"heap,omitempty" nullable:"true" doc:"Heap of the session to continue from; a fresh isolate if absent."`
}

type resetInput struct {
	OneSession
	IdempotencyKey string `header:"Idempotency-Key" doc:"The same key resets the session once; with another heap it is a conflict."`
	RawBody        []byte
}

type resetAnswer struct {
	Written
	Body resetDone
}

type resetDone struct {
	SessionID string             `json:"session_id"`
	Kind      events.SessionKind `json:"kind" enum:"named,logical,acp"`
	Name      *string            `json:"name" doc:"Name, intent or title of the session."`
	Head      *string            `json:"head" doc:"Heap that the session continues from; null for a fresh isolate."`
	Repeated  bool               `json:"repeated" doc:"True if an earlier request with this idempotency key reset the session."`
}

func (a *api) resetSession(ctx context.Context, in *resetInput) (*resetAnswer, error) {
	r := requestOf(ctx)
	var heap string
	if len(in.RawBody) > 0 {
		if f := requireJSON(r, in.RawBody, `curl -H 'Content-Type: application/json' --data '{"heap":"..."}' ..., or without a body`); f != nil {
			return nil, f
		}
		if f := decodeObject(in.RawBody, map[string]member{"heap": text(&heap, nil)}); f != nil {
			return nil, f
		}
	}
	if keys := r.header.Values("Idempotency-Key"); len(keys) > 1 || len(keys) == 1 && keys[0] == "" {
		return nil, invalid("Idempotency-Key", "give one Idempotency-Key that is not empty, or none")
	}
	if err := a.waitForPosition(ctx, Reading{}); err != nil {
		return nil, err
	}
	s, err := a.session(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	reset := ledger.Reset{Tenant: r.tenant, Heap: heap, IdempotencyKey: in.IdempotencyKey, Actor: r.actor, Traceparent: r.traceparent}
	if s.Kind == events.SessionLog {
		reset.Name = *s.Name
	} else {
		reset.SessionID = s.SessionID
	}
	if heap != "" || in.IdempotencyKey != "" { // ResetSession reads the whole session
		if err := takePermit(ctx); err != nil {
			return nil, err
		}
	}
	done, err := a.cmd.ResetSession(ctx, reset)
	if err != nil {
		return nil, err
	}
	out := &resetAnswer{Written: a.noteWrite(done.Seq), Body: resetDone{SessionID: s.SessionID, Kind: s.Kind, Name: s.Name, Repeated: done.Repeated}}
	if heap != "" {
		out.Body.Head = &heap
	}
	return out, nil
}
