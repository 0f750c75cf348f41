package mcp

import (
	"context"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
)

// caller is who calls a tool, and under which session name.
type caller struct {
	session     string
	actor       events.Actor
	traceparent string
	// progress tells a client that asked for it how long it has been waiting;
	// nil when it did not ask.
	progress func(ctx context.Context, waited time.Duration)
}

// origin is what a connection was opened with. The SDK makes the context of
// the request that opens a connection the parent of all calls on it, so that
// what is put there once holds for the connection: from initialize on with
// revisions that know transport sessions, for one request with those that do
// not. A header on a later request of a session changes nothing.
type origin struct {
	transport string
	session   string
	address   string
}

type originKey struct{}

func withOrigin(ctx context.Context, o origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

func (s *Server) callerOf(ctx context.Context, req *sdk.CallToolRequest) caller {
	o, _ := ctx.Value(originKey{}).(origin)
	c := caller{
		session: o.session,
		actor:   events.Actor{Principal: "anonymous", Transport: o.transport, Address: o.address},
	}
	if info := req.ClientInfo(); info != nil {
		c.actor.Client = info.Name
		if info.Version != "" {
			c.actor.Client += "/" + info.Version
		}
	}
	var h http.Header
	if req.Extra != nil {
		h = req.Extra.Header
	}
	if a := h.Get(addressHeader); a != "" {
		c.actor.Address = a // of this request, which may not be where the session began
	}
	if token := req.Params.GetProgressToken(); token != nil {
		c.progress = func(ctx context.Context, waited time.Duration) {
			// A client that cannot be told is found out when it is answered.
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: token, Progress: waited.Seconds(), Message: "running",
			})
		}
	}
	// Trace context travels in _meta, or in the header of an HTTP request.
	c.traceparent, _ = req.Params.Meta["traceparent"].(string)
	if c.traceparent == "" {
		c.traceparent = h.Get("Traceparent")
	}
	return c
}
