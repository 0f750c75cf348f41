package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/projections"
)

// Contexts reads and changes conversation contexts. *contextstore.Store implements it.
type Contexts interface {
	Ref(ctx context.Context, k contextstore.Key) (events.ContextRef, error)
	Get(ctx context.Context, k contextstore.Key, reader string) (projections.Context, error)
	Set(ctx context.Context, k contextstore.Key, p contextstore.Patch, actor events.Actor) (projections.Context, uint64, error)
	Clear(ctx context.Context, k contextstore.Key, actor events.Actor) (projections.Context, uint64, error)
}

func (a *api) contextRoutes(r *router) {
	const path = "/api/context"
	op := func(id, method, summary, description string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Tags: []string{tagSessions}, Summary: summary, Description: description}
	}
	errs := []int{http.StatusBadRequest, http.StatusNotFound}
	register(r, op("get-context", http.MethodGet, "Get the conversation context of a session",
		"Recent calls, resources, values and preferences of a named or logical session. The context is reset after 30 minutes without use."), errs, a.getContext)
	set := op("set-context", http.MethodPatch, "Set values in the conversation context of a session", "Members in the body replace the current ones; null removes a member. Other members do not change.")
	set.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: r.schema(reflect.TypeFor[contextPatch]())}}}
	register(r, set, append(errs, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType), a.setContext)
	delete(set.RequestBody.Content, "application/octet-stream")
	register(r, op("clear-context", http.MethodDelete, "Clear the conversation context of a session", "The recorded events stay in the ledger."), errs, a.clearContext)
}

// OneContext is embedded in the inputs of operations on one conversation context.
type OneContext struct {
	Session        string `query:"session" doc:"Session name."`
	LogicalSession string `query:"logical_session" doc:"Id of a logical session, instead of session."`
}

func (c OneContext) about() subject { return subject{"logical_session", "Session", c.LogicalSession} }

type contextInput struct{ OneContext }

type contextAnswer struct {
	Written
	Body contextBody
}

// contextBody documents a conversation context.
type contextBody struct{ projections.Context }

// Schema returns the schema of a conversation context.
func (contextBody) Schema(r huma.Registry) *huma.Schema {
	text, list := &huma.Schema{Type: huma.TypeString}, func(item *huma.Schema) *huma.Schema { return &huma.Schema{Type: huma.TypeArray, Items: item} }
	object := func(required []string, members map[string]*huma.Schema) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Properties: members, Required: required}
	}
	moment := &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	_ = r
	return object([]string{"schema_version", "session_id", "created_at", "last_updated_at", "user_preferences", "recent_tool_calls", "fetched_resources", "custom"}, map[string]*huma.Schema{
		"schema_version": {Type: huma.TypeInteger}, "session_id": text, "created_at": moment, "last_updated_at": moment,
		"user_preferences": preferencesSchema(),
		"recent_tool_calls": list(object([]string{"tool", "args", "called_at", "result_summary"}, map[string]*huma.Schema{
			"tool": text, "args": {Type: huma.TypeObject, AdditionalProperties: true}, "called_at": moment, "result_summary": text,
			"execution_id": text, "times": {Type: huma.TypeInteger},
		})),
		"fetched_resources": list(object([]string{"resource_id", "resource_type", "fetched_at", "content_hash", "summary"}, map[string]*huma.Schema{
			"resource_id": text, "resource_type": text, "fetched_at": moment, "content_hash": text, "summary": text,
		})),
		"custom":                {Type: huma.TypeObject, AdditionalProperties: true},
		"summary_before_window": text, "window_start_index": {Type: huma.TypeInteger}, "warnings": list(text),
	})
}

func preferencesSchema() *huma.Schema {
	low, high := 1.0, float64(contextstore.MaxMaxResults)
	return &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{
		"output_format": {Type: huma.TypeString, Enum: []any{"json", "markdown", "plain"}},
		"max_results":   {Type: huma.TypeInteger, Minimum: &low, Maximum: &high},
		"language":      {Type: huma.TypeString},
	}}
}

// contextPatch documents the body of a PATCH; decodeContextPatch decodes it.
type contextPatch struct{}

// Schema returns the schema of the patch.
func (contextPatch) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{
		"user_preferences": preferencesSchema(), "custom": {Type: huma.TypeObject, AdditionalProperties: true},
	}}
}

// tokenUser returns the user of the request's token; empty without tokens.
func tokenUser(ctx context.Context) string {
	id, _ := access.From(ctx)
	return id.TokenUser()
}

// contextKey returns the key of the conversation context that a request names by its session.
func (a *api) contextKey(ctx context.Context, c OneContext) (contextstore.Key, error) {
	tenant := requestOf(ctx).tenant
	switch {
	case a.contexts == nil:
		return contextstore.Key{}, absent("this server keeps no conversation contexts")
	case c.Session != "" && c.LogicalSession != "":
		return contextstore.Key{}, invalid("session", "session and logical_session name two contexts; give one of them")
	case c.LogicalSession != "":
		if _, err := a.q.LogicalSession(ctx, tenant, c.LogicalSession); err != nil {
			return contextstore.Key{}, err
		}
		return contextstore.Key{Tenant: tenant, Kind: events.ContextLogical, ID: c.LogicalSession}, nil
	case c.Session != "":
		return contextstore.Key{Tenant: tenant, Kind: events.ContextSession, ID: c.Session, Principal: tokenUser(ctx)}, ledger.CheckSession(c.Session)
	default:
		return contextstore.Key{}, invalid("session", "session is missing: give the name of a session, or the id of a logical session as logical_session")
	}
}

func (a *api) getContext(ctx context.Context, in *contextInput) (*contextAnswer, error) {
	k, err := a.contextKey(ctx, in.OneContext)
	if err != nil {
		return nil, err
	}
	c, err := a.contexts.Get(contextstore.WithoutTrace(ctx), k, "GET /api/context")
	if err != nil {
		return nil, err
	}
	return &contextAnswer{Body: contextBody{c}}, nil
}

type setContextInput struct {
	OneContext
	RawBody []byte
}

func (a *api) setContext(ctx context.Context, in *setContextInput) (*contextAnswer, error) {
	if f := requireJSON(requestOf(ctx), in.RawBody, `curl -X PATCH -H 'Content-Type: application/json' --data '{"custom":{"KEY":"VALUE"}}' ...`); f != nil {
		return nil, f
	}
	p, f := decodeContextPatch(in.RawBody)
	if f != nil {
		return nil, f
	}
	k, err := a.contextKey(ctx, in.OneContext)
	if err != nil {
		return nil, err
	}
	c, seq, err := a.contexts.Set(ctx, k, p, requestOf(ctx).actor)
	if err != nil {
		return nil, err
	}
	return &contextAnswer{Written: a.noteWrite(seq), Body: contextBody{c}}, nil
}

func decodeContextPatch(raw []byte) (contextstore.Patch, *failure) {
	var p contextstore.Patch
	f := decodeObject(raw, map[string]member{"user_preferences": anyMap(&p.UserPreferences), "custom": anyMap(&p.Custom)})
	if f == nil && p.UserPreferences == nil && p.Custom == nil {
		f = mistyped("custom", "the body sets nothing: give user_preferences, custom or both")
	}
	return p, f
}

// anyMap decodes an object whose members may have any type.
func anyMap(into *map[string]json.RawMessage) member {
	return func(where string, raw []byte) *failure {
		*into = map[string]json.RawMessage{}
		return eachMember(where, raw, func(name string, v []byte) *failure {
			(*into)[name] = bytes.Clone(v)
			return nil
		})
	}
}

type clearedContext struct {
	Written
	Body clearedBody
}

type clearedBody struct {
	Status    string `json:"status" doc:"Always cleared."`
	SessionID string `json:"session_id" doc:"Id of the context; clearing does not change it."`
	Message   string `json:"message"`
}

func (a *api) clearContext(ctx context.Context, in *contextInput) (*clearedContext, error) {
	k, err := a.contextKey(ctx, in.OneContext)
	if err != nil {
		return nil, err
	}
	c, seq, err := a.contexts.Clear(ctx, k, requestOf(ctx).actor)
	if err != nil {
		return nil, err
	}
	return &clearedContext{Written: a.noteWrite(seq), Body: clearedBody{"cleared", c.SessionID, "Conversation context has been reset. Starting fresh."}}, nil
}

// addToContext adds a submission to the conversation context of its session. If the
// conversation context cannot be read, addToContext logs the error, and the run is recorded
// without the conversation context.
func (a *api) addToContext(ctx context.Context, s *ledger.Submission) {
	if a.contexts == nil {
		return
	}
	k := contextstore.Key{Tenant: s.Tenant, Kind: events.ContextSession, ID: s.Session, Principal: tokenUser(ctx)}
	if s.LogicalSession != "" {
		k.Kind, k.ID = events.ContextLogical, s.LogicalSession
	}
	if k.IsZero() || k.Kind == events.ContextSession && ledger.CheckSession(k.ID) != nil || k.Kind == events.ContextLogical && !events.ValidHash(k.ID) {
		return
	}
	ref, err := a.contexts.Ref(ctx, k)
	if err != nil {
		a.logFailure(ctx, "conversation context not read", err)
		return
	}
	s.Context = &ref
}
