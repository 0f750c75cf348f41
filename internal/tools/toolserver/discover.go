package toolserver

import (
	"context"
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// errNoDiscovery ends the wait for the answer to server/discover.
var errNoDiscovery = errors.New("no answer to server/discover")

// boundDiscovery bounds the first request of a connection. Servers of revisions before
// 2026-07-28 do not know server/discover, and some ignore it instead of refusing it. When
// the request fails the SDK sends initialize.
func boundDiscovery(wait time.Duration) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method != "server/discover" {
				return next(ctx, method, req)
			}
			ctx, stop := context.WithTimeoutCause(ctx, wait, errNoDiscovery)
			defer stop()
			return next(ctx, method, req)
		}
	}
}
