package client

import (
	"context"
	"encoding/json"
	"net/http"

	"daybook/projections"
)

// Context is the conversation context of a session.
type Context = projections.Context

// ContextOf identifies a conversation context, by the name of a session or the id of a
// logical one.
type ContextOf struct{ Session, LogicalSession string }

func (o ContextOf) path() string {
	return "/api/context" + query("session", o.Session, "logical_session", o.LogicalSession)
}

// Context returns a conversation context.
func (c *Client) Context(ctx context.Context, of ContextOf) (Answer[Context], error) {
	return call[Context](ctx, c, http.MethodGet, of.path(), nil)
}

// ContextPatch changes a conversation context. A nil value removes a member.
type ContextPatch struct {
	UserPreferences map[string]any `json:"user_preferences,omitempty"`
	Custom          map[string]any `json:"custom,omitempty"`
}

// SetContext changes a conversation context and returns it.
func (c *Client) SetContext(ctx context.Context, of ContextOf, p ContextPatch) (Answer[Context], error) {
	return call[Context](ctx, c, http.MethodPatch, of.path(), p)
}

// ClearContext clears a conversation context. The answer is a message.
func (c *Client) ClearContext(ctx context.Context, of ContextOf) (Answer[json.RawMessage], error) {
	return call[json.RawMessage](ctx, c, http.MethodDelete, of.path(), nil)
}
