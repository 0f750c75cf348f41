package mcp

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"daybook/events"
	"daybook/internal/resources/reads"
	"daybook/ledger"
	"daybook/projections"
)

// SessionQueries finds sessions of all kinds. *projections.Store implements it.
type SessionQueries interface {
	ResolveSession(ctx context.Context, tenant, text string) (projections.Session, error)
}

func (s *Server) resetTool() tool {
	return tool{
		name: "reset_session", title: "Reset session", destructive: true, idempotent: true,
		description: "Reset a session to heap, or to a fresh isolate.",
		input:       []property{{name: "session", kind: text, required: true, description: "ref or name"}, {name: "heap", kind: text}},
		output:      objectSchema(typedField("session_id", "string"), typedField("kind", "string"), nullableField("head", "string")),
		call:        s.resetSession,
	}
}

type resetAnswer struct {
	SessionID string             `json:"session_id"`
	Kind      events.SessionKind `json:"kind"`
	Head      *string            `json:"head"`
}

func (s *Server) resetSession(ctx context.Context, c caller, a arguments) (answer, error) {
	if a.has("heap") && a.text("heap") == "" {
		return answer{}, ledger.Invalid("heap", "heap must not be empty: leave it out to reset the session to nothing")
	}
	r := ledger.Reset{Tenant: s.tenant, Heap: a.text("heap"), Actor: c.actor, Traceparent: c.traceparent}
	if err := s.setResetTarget(ctx, c, a.text("session"), &r); err != nil {
		return answer{}, err
	}
	if r.Heap != "" { // the command reads the complete session
		if err := takePermit(ctx); err != nil {
			return answer{}, err
		}
	}
	done, err := s.opts.Commands.ResetSession(ctx, r)
	reads.From(ctx).Yield()
	if err != nil {
		return answer{}, err
	}
	out := resetAnswer{SessionID: done.SessionID, Kind: done.Kind}
	if r.Heap != "" {
		out.Head = &r.Heap
	}
	return answer{value: out, seq: done.Seq}, nil
}

// setResetTarget finds the session named by text and sets it in r.
func (s *Server) setResetTarget(ctx context.Context, c caller, text string, r *ledger.Reset) error {
	if strings.TrimSpace(text) == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ledger.Invalid("session", "session must be a logical_session_ref, a name, or an id, in printable characters")
	}
	found, err := s.findSession(ctx, c, text)
	switch {
	case errors.Is(err, events.ErrNotFound):
		return &ledger.Error{Code: ledger.CodeNotFound, Field: "session", Message: "there is no session " + quote(text) + "; open_session opens one, list_sessions lists the named sessions", Err: err}
	case err != nil:
		return err
	case found.Kind == events.SessionLog:
		r.Name = *found.Name
	default:
		r.SessionID = found.SessionID
	}
	return nil
}

// findSession finds a session by a ref that was assigned to this caller, by its complete
// name or intent, or by its id. It accepts neither refs of other holders nor prefixes of
// names, so that an agent with a typing error does not change another session.
func (s *Server) findSession(ctx context.Context, c caller, text string) (projections.Session, error) {
	id, err := s.opts.Commands.ResolveRef(ctx, s.tenant, c.holder(s.tenant), text)
	switch {
	case err == nil:
		return s.opts.Queries.ResolveSession(ctx, s.tenant, id)
	case codeOf(err) != ledger.CodeNotFound:
		return projections.Session{}, err
	}
	found, err := s.opts.Queries.ResolveSession(ctx, s.tenant, text)
	if _, ambiguous := errors.AsType[*projections.AmbiguousError](err); ambiguous {
		return projections.Session{}, events.ErrNotFound // no session has exactly this name
	}
	if err == nil && found.SessionID != text && (found.Name == nil || *found.Name != text) {
		return projections.Session{}, events.ErrNotFound
	}
	return found, err
}
