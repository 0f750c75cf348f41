package mcp

import (
	"context"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// logLevels are the levels of the protocol.
var logLevels = []sdk.LoggingLevel{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} //nolint:staticcheck // deprecated, but clients use it

// refuseUnknownNames refuses requests with unknown tools, prompts, levels and cursors, and
// says what to send instead. With Fixtures, it leaves unknown tools and prompts to the
// SDK, because the test suites register their own.
func (s *Server) refuseUnknownNames(tools map[string]tool) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if p, ok := req.GetParams().(*sdk.SetLoggingLevelParams); ok && !slices.Contains(logLevels, p.Level) { //nolint:staticcheck // see logLevels
				return nil, invalidParams("level must be one of debug, info, notice, warning, error, critical, alert and emergency, not %s", quote(string(p.Level)))
			}
			if s.opts.Fixtures == nil {
				switch p := req.GetParams().(type) {
				case *sdk.CallToolParamsRaw:
					if _, ok := tools[p.Name]; !ok {
						return nil, invalidParams("there is no tool named %s; tools/list names those there are", quote(p.Name))
					}
				case *sdk.GetPromptParams:
					return nil, invalidParams("there is no prompt named %s; this server has none", quote(p.Name))
				case *sdk.CompleteParams:
					return nil, methodNotFound(method)
				}
			}
			res, err := next(ctx, method, req)
			if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok && rpc.Code == jsonrpc.CodeInvalidParams && cursorOf(req.GetParams()) != "" {
				return nil, invalidParams("cursor %s was not returned by %s; omit it to start at the beginning", quote(cursorOf(req.GetParams())), method)
			}
			return res, err
		}
	}
}

// cursorOf returns the cursor of a request for a list that the SDK holds.
func cursorOf(p sdk.Params) string {
	switch p := p.(type) {
	case *sdk.ListToolsParams:
		return p.Cursor
	case *sdk.ListResourcesParams:
		return p.Cursor
	case *sdk.ListResourceTemplatesParams:
		return p.Cursor
	case *sdk.ListPromptsParams:
		return p.Cursor
	default:
		return ""
	}
}
