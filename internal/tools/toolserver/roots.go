package toolserver

import (
	"context"
	"net/url"
	"path/filepath"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// capabilities returns the client capabilities that are declared to a server: roots, if
// there are any, and no others.
func (c Config) capabilities() *sdk.ClientCapabilities {
	if len(c.Roots) == 0 {
		return &sdk.ClientCapabilities{}
	}
	return &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{}}
}

// declareRoots sets the roots that a server may ask for: with roots/list, or since
// 2026-07-28 in the result of a call.
func (c Config) declareRoots(client *sdk.Client) {
	if len(c.Roots) == 0 {
		return
	}
	list := make([]*sdk.Root, len(c.Roots))
	for i, dir := range c.Roots {
		list[i] = &sdk.Root{Name: filepath.Base(dir), URI: (&url.URL{Scheme: "file", Path: dir}).String()}
	}
	client.AddRoots(list...)
	// The library answers in the order of the URIs. This answer keeps the order of Roots,
	// with the working directory first.
	client.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "roots/list" {
				return &sdk.ListRootsResult{Roots: list}, nil
			}
			return next(ctx, method, req)
		}
	})
}
