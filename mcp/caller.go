package mcp

import (
	"context"
	"net/http"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/internal/link"
	"daybook/internal/web/access"
)

// caller is who calls a tool, and under which session name.
type caller struct {
	session     string
	actor       events.Actor
	traceparent string
	// principal is the user of the caller's token, empty without tokens.
	principal string
	// connection is the id of the connection, empty where there is none that lasts.
	connection string
	// delivery identifies the call where a link may bring it to several servers.
	delivery link.Delivery
	// listener is what it wants to hear of a run that it waits for.
	listener listener
	// earlier is what a run that it asks for is told of one before.
	earlier *earlierRun
}

// earlierRun is filled when a run is submitted.
type earlierRun struct{ before *priorRun }

// transportStdio is the transport of clients on a pair of streams.
const transportStdio = "mcp-stdio"

// origin is what a connection was opened with. The SDK makes the context of
// the request that opens a connection the parent of all calls on it, so that
// what is put there once holds for the connection: from initialize on with
// revisions that know transport sessions, for one request with those that do
// not. A header on a later request of a session changes nothing.
type origin struct {
	transport string
	session   string
	address   string
	// connection is an id for a connection that outlasts a request, minted here.
	connection string
	// identity is who opened the connection. Requests with a token of their own
	// are their own token's.
	identity access.Identity
	// transportSession is what the session takes of the number there may be; nil where it does
	// not count.
	transportSession *transportSession
	// logLevel is what the client has set for the connection.
	logLevel *atomic.Value // of sdk.LoggingLevel
}

type originKey struct{}

type connectionKey struct{}

// WithConnection makes ctx that of a connection which outlives the server it is
// served by, for ServeStdio: the client then finds in the next what it had in
// this one. id has 64 hex characters, from events.NewSessionID; another is
// ignored. It is a secret of the two ends.
func WithConnection(ctx context.Context, id string) context.Context {
	if !events.ValidHash(id) {
		return ctx
	}
	return context.WithValue(ctx, connectionKey{}, id)
}

// ConnectionOf is the id that WithConnection put into ctx, or empty.
func ConnectionOf(ctx context.Context) string {
	id, _ := ctx.Value(connectionKey{}).(string)
	return id
}

func withOrigin(ctx context.Context, o origin) context.Context {
	o.logLevel = new(atomic.Value)
	return context.WithValue(ctx, originKey{}, o)
}

func (s *Server) callerOf(ctx context.Context, req *sdk.CallToolRequest) caller {
	o, _ := ctx.Value(originKey{}).(origin)
	c := caller{session: o.session, connection: o.connection, actor: actorOf(ctx), earlier: new(earlierRun)}
	id, _ := access.From(ctx)
	c.principal = id.TokenUser()
	c.actor.Client = clientName(req.Session, req.Params.Meta)
	var h http.Header
	if req.Extra != nil {
		h = req.Extra.Header
	}
	if a := h.Get(addressHeader); a != "" {
		c.actor.Address = a // of this request, which may not be where the session began
	}
	c.delivery = deliveryTo(ctx, req.Extra)
	c.listener = listener{session: req.Session, token: req.Params.GetProgressToken(), level: o.level(req.Params.Meta)}
	// Trace context travels in _meta, or in the header of an HTTP request.
	c.traceparent, _ = req.Params.Meta["traceparent"].(string)
	if c.traceparent == "" {
		c.traceparent = h.Get("Traceparent")
	}
	return c
}

// setDelivery has a header carry a call's link.Delivery to its tool. Of requests that
// come over HTTP it is not read.
func setDelivery(h http.Header, d link.Delivery) {
	h.Set("Daybook-Delivery", d.Key)
	if d.Again {
		h.Set("Daybook-Delivered-Before", "1")
	}
}

func deliveryTo(ctx context.Context, extra *sdk.RequestExtra) link.Delivery {
	o, _ := ctx.Value(originKey{}).(origin)
	if o.transport != transportStdio || extra == nil {
		return link.Delivery{}
	}
	h := extra.Header
	return link.Delivery{Key: h.Get("Daybook-Delivery"), Again: h.Get("Daybook-Delivered-Before") != ""}
}

// actorOf is who is behind a request, but for what the client calls itself.
func actorOf(ctx context.Context) events.Actor {
	o, _ := ctx.Value(originKey{}).(origin)
	id, _ := access.From(ctx)
	return events.Actor{Principal: id.Principal, Transport: o.transport, Address: o.address}
}

// clientName is what a client calls itself, in a request or for the whole
// connection.
func clientName(ss *sdk.ServerSession, meta sdk.Meta) string {
	info := (&sdk.ServerRequest[*taskParams]{Session: ss, Params: &taskParams{ParamsBase: sdk.ParamsBase{Meta: meta}}}).ClientInfo()
	switch {
	case info == nil:
		return ""
	case info.Version == "":
		return info.Name
	default:
		return info.Name + "/" + info.Version
	}
}
