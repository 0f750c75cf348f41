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

// caller identifies the client of a call and its session name.
type caller struct {
	session     string
	actor       events.Actor
	traceparent string
	// principal is the user of the caller's token; empty without tokens.
	principal string
	// connection is the id of the connection; empty if the connection ends with the request.
	connection string
	// delivery identifies a call that a link can deliver again to a later server.
	delivery link.Delivery
	// listener receives notifications about the run that the call waits for.
	listener listener
	// earlier receives an earlier run that is equal to the one that the call requests.
	earlier *earlierRun
}

// earlierRun holds an earlier equal run. It is set when a run is submitted.
type earlierRun struct{ before *priorRun }

// transportStdio is the recorded transport of clients of ServeStdio.
const transportStdio = "mcp-stdio"

// origin holds the properties of a connection. The SDK derives the contexts of all calls
// on a connection from the context of the request that opened it. So the values in that
// context hold for the whole connection. In revisions with transport sessions, that is
// from initialize on; in the others, it is one request. Headers of later requests of a
// session change nothing.
type origin struct {
	transport string
	session   string
	address   string
	// connection is the id of a connection that outlasts one request. The server creates it,
	// unless WithConnection has set it.
	connection string
	// identity is the caller that opened the connection. A request with a token of its own
	// has the identity of that token.
	identity access.Identity
	// transportSession counts the session against its limits; nil if the connection does not
	// count.
	transportSession *transportSession
	// logLevel is the level that the client has set for the connection.
	logLevel *atomic.Value // of sdk.LoggingLevel
}

type originKey struct{}

type connectionKey struct{}

// WithConnection returns a context for ServeStdio with the id of a connection that
// outlives one server. The next server that gets the same id continues with the
// conversation context and the refs of the client. id has 64 hex characters, from
// events.NewSessionID; any other value is ignored. It is a secret of the two ends of the
// link.
func WithConnection(ctx context.Context, id string) context.Context {
	if !events.ValidHash(id) {
		return ctx
	}
	return context.WithValue(ctx, connectionKey{}, id)
}

// connectionOf returns the id that WithConnection put into ctx, or an empty text.
func connectionOf(ctx context.Context) string {
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
		c.actor.Address = a // of this request, which may differ from that of the session
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

// setDelivery sets the headers that pass a call's link.Delivery to its tool. They are
// not read from requests over HTTP.
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

// actorOf returns the actor of a request, without the client's name.
func actorOf(ctx context.Context) events.Actor {
	o, _ := ctx.Value(originKey{}).(origin)
	id, _ := access.From(ctx)
	return events.Actor{Principal: id.Principal, Transport: o.transport, Address: o.address}
}

// clientName returns the name and version that a client states, in the request or for
// the connection.
func clientName(ss *sdk.ServerSession, meta sdk.Meta) string {
	if name, version, ok := plainClientInfo(meta); ok {
		if version == "" {
			return name
		}
		return name + "/" + version
	}
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

// plainClientInfo returns the name and version in the _meta of a request, if all members of
// the client's description are texts. The SDK encodes and decodes the description, with a
// buffer of 32 KiB, to give the same.
func plainClientInfo(meta sdk.Meta) (name, version string, ok bool) {
	info, ok := meta[sdk.MetaKeyClientInfo].(map[string]any)
	for member, v := range info {
		text, isText := v.(string)
		switch {
		case !isText || member == "icons":
			return "", "", false
		case member == "name":
			name = text
		case member == "version":
			version = text
		}
	}
	return name, version, ok
}
