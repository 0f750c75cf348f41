package mcp

import (
	"context"
	"encoding/json"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/projections"
)

// Contexts is the store of conversation contexts. *contextstore.Store implements it.
type Contexts interface {
	Ref(ctx context.Context, k contextstore.Key) (events.ContextRef, error)
	Get(ctx context.Context, k contextstore.Key, reader string) (projections.Context, error)
	Set(ctx context.Context, k contextstore.Key, p contextstore.Patch, actor events.Actor) (projections.Context, uint64, error)
	Clear(ctx context.Context, k contextstore.Key, actor events.Actor) (projections.Context, uint64, error)
	Health(ctx context.Context) contextstore.Health
	ContextNotes
}

// ContextNotes reads and adds notes of calls in conversation contexts.
type ContextNotes interface {
	CallHash(tool string, args map[string]any) string
	Preferences(ctx context.Context, k contextstore.Key, reader string) (events.UserPreferences, error)
	PriorCall(ctx context.Context, k contextstore.Key, reader, sha256 string) (*projections.PriorCall, error)
	PriorRead(ctx context.Context, k contextstore.Key, reader, resource string) (*projections.FetchedResource, error)
	Note(ctx context.Context, k contextstore.Key, c contextstore.Call) error
	NoteResource(ctx context.Context, k contextstore.Key, r contextstore.Resource) error
}

// errContextsDisabled is returned by the tools for conversation contexts if
// Options.Contexts is nil.
var errContextsDisabled = &ledger.Error{Code: ledger.CodeUnavailable, Message: "this server keeps no conversation contexts"}

func (s *Server) contextTools() []tool {
	ref := property{name: "logical_session_ref", kind: text}
	ctx := objectSchema(typedField("schema_version", "integer"), typedField("session_id", "string"), typedField("created_at", "string"), typedField("last_updated_at", "string"),
		typedField("user_preferences", "object"), listField("recent_tool_calls", object{{"type", "object"}}), listField("fetched_resources", object{{"type", "object"}}),
		typedField("custom", "object"), optionalField(typedField("summary_before_window", "string")), optionalField(typedField("window_start_index", "integer")),
		optionalField(listField("warnings", object{{"type", "string"}})))
	return []tool{
		{
			name: "get_context", title: "Get context", readOnly: true, idempotent: true, skipContext: true,
			description: "Get recent calls and stored values. Resets after 30 idle minutes.",
			input:       []property{ref},
			output:      ctx, call: s.getContext,
		},
		{
			name: "set_context", title: "Set context", idempotent: true, skipContext: true,
			description: "Store values; null deletes. user_preferences: output_format (json, markdown, plain), max_results, language.",
			input:       []property{{name: "user_preferences", kind: anyMap}, {name: "custom", kind: anyMap}, ref},
			// A new value replaces the previous one.
			destructive: true,
			output:      ctx, call: s.setContext,
		},
		{
			name: "context_clear", title: "Clear context", destructive: true, idempotent: true, skipContext: true,
			description: "Clear the context for a new task.", input: []property{ref},
			output: objectSchema(typedField("status", "string"), typedField("session_id", "string"), typedField("message", "string")), call: s.clearContext,
		},
		{
			name: "health_check", title: "Check health", readOnly: true, idempotent: true, skipContext: true,
			description: "Get server health.",
			output:      objectSchema(typedField("status", "string"), typedField("context_store", "object"), typedField("timestamp", "string")),
			call: func(ctx context.Context, _ caller, _ arguments) (answer, error) {
				if s.opts.Contexts == nil {
					return answer{}, errContextsDisabled
				}
				h := s.opts.Contexts.Health(ctx)
				return answer{value: h, failed: h.Degraded()}, nil
			},
		},
	}
}

func (s *Server) getContext(ctx context.Context, c caller, a arguments) (answer, error) {
	k, err := s.contextFor(ctx, c, a)
	if err != nil {
		return answer{}, err
	}
	now, err := s.opts.Contexts.Get(ctx, k, "get_context")
	return answer{value: now}, err
}

func (s *Server) setContext(ctx context.Context, c caller, a arguments) (answer, error) {
	patch := contextstore.Patch{UserPreferences: a.anyMap("user_preferences"), Custom: a.anyMap("custom")}
	k, err := s.contextFor(ctx, c, a)
	if err != nil {
		return answer{}, err
	}
	now, seq, err := s.opts.Contexts.Set(ctx, k, patch, c.actor)
	return answer{value: now, seq: seq}, err
}

type clearedAnswer struct {
	Status    string `json:"status"`
	SessionID string `json:"session_id"`
	Message   string `json:"message"`
}

func (s *Server) clearContext(ctx context.Context, c caller, a arguments) (answer, error) {
	k, err := s.contextFor(ctx, c, a)
	if err != nil {
		return answer{}, err
	}
	now, seq, err := s.opts.Contexts.Clear(ctx, k, c.actor)
	return answer{value: clearedAnswer{"cleared", now.SessionID, "Conversation context has been reset. Starting fresh."}, seq: seq}, err
}

// contextFor returns the key of the conversation context that a call concerns. It returns
// an error if the call has none.
func (s *Server) contextFor(ctx context.Context, c caller, a arguments) (contextstore.Key, error) {
	if s.opts.Contexts == nil {
		return contextstore.Key{}, errContextsDisabled
	}
	switch ref := a.text("logical_session_ref"); {
	case a.has("logical_session_ref") && ref == "":
		return contextstore.Key{}, ledger.Invalid("logical_session_ref", "logical_session_ref must not be empty; leave it out for the context of this connection")
	case events.ValidHash(ref):
		// A client that knows the id of a session may use the session. But the context also
		// holds the calls of other clients, which this client must not read.
		return contextstore.Key{}, ledger.Invalid("logical_session_ref", "logical_session_ref must be one that open_session gave this client, such as s0, not the id of a session")
	}
	logical, err := s.sessionOf(ctx, c, a)
	if err != nil {
		return contextstore.Key{}, err
	}
	k := c.contextKey(s.tenant, logical)
	if k.IsZero() {
		return k, contextstore.ErrNone
	}
	return k, nil
}

// contextKey returns the key of the conversation context of a call: of the logical session
// if logical is not empty, else of the session name, else of the connection. It is zero if
// the call has none of these.
func (c caller) contextKey(tenant, logical string) contextstore.Key {
	switch {
	case logical != "":
		return contextstore.Key{Tenant: tenant, Kind: events.ContextLogical, ID: logical}
	case c.session != "":
		return contextstore.Key{Tenant: tenant, Kind: events.ContextSession, ID: c.session, Principal: c.principal}
	case c.connection != "":
		return contextstore.Key{Tenant: tenant, Kind: events.ContextTransport, ID: c.connection}
	default:
		return contextstore.Key{}
	}
}

// contextResource returns the resource for the conversation context of a named session.
// Only connections with this session name can read the resource. For others it does not
// exist.
func (s *Server) contextResource() resource {
	read := func(ctx context.Context, name string) (projections.Context, error) {
		o, _ := ctx.Value(originKey{}).(origin)
		if s.opts.Contexts == nil || o.session == "" {
			return projections.Context{}, events.ErrNotFound
		}
		if name != o.session {
			s.foreignReadLog.Do(func() {
				s.logger.ErrorContext(ctx, "context isolation violation: a session asked for the context of another", "tenant", s.tenant,
					"session_sha256", events.Hash([]byte(o.session)), "asked_sha256", events.Hash([]byte(name)))
			})
			return projections.Context{}, events.ErrNotFound
		}
		id, _ := access.From(ctx)
		return s.opts.Contexts.Get(ctx, caller{session: name, principal: id.TokenUser()}.contextKey(s.tenant, ""), "resources/read")
	}
	return resource{
		name: "session_context", title: "Session context", scheme: "session://", suffix: "/context", mime: jsonType, skipContext: true,
		description: "The context of this connection's own session.",
		read: func(ctx context.Context, name string) (string, error) {
			c, err := read(ctx, name)
			return asJSON(c, err)
		},
		version: func(ctx context.Context, name string) (string, error) {
			c, err := read(ctx, name)
			return c.LastUpdatedAt, err
		},
	}
}

// withMember returns the JSON object body with one more member.
func withMember(body []byte, name string, v any) ([]byte, error) {
	raw, err := encode(v)
	if err != nil || len(body) < 2 || body[len(body)-1] != '}' {
		return body, err
	}
	key, err := json.Marshal(name)
	if err != nil {
		return body, err
	}
	head := body[: len(body)-1 : len(body)-1]
	if len(head) > 1 {
		head = append(head, ',')
	}
	return append(append(append(append(head, key...), ':'), raw...), '}'), nil
}
