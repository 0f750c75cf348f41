//nolint:staticcheck // logging is deprecated, but clients use it
package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// level returns the level of console output that a request asks for: with its own _meta
// in revisions without sessions, else with the level that the client has set for the
// connection.
func (o origin) level(meta sdk.Meta) func() sdk.LoggingLevel {
	_, sessionless := meta[sdk.MetaKeyProtocolVersion]
	return func() sdk.LoggingLevel {
		var level any = meta[sdk.MetaKeyLogLevel]
		if text, ok := level.(string); ok && sessionless {
			return sdk.LoggingLevel(text)
		}
		if o.logLevel == nil || sessionless {
			return ""
		}
		set, _ := o.logLevel.Load().(sdk.LoggingLevel)
		return set
	}
}

// rememberLevel stores the level that a client sets for a connection.
func rememberLevel(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		p, ok := req.GetParams().(*sdk.SetLoggingLevelParams)
		if o, known := ctx.Value(originKey{}).(origin); err == nil && ok && known && o.logLevel != nil {
			o.logLevel.Store(p.Level)
		}
		return res, err
	}
}
