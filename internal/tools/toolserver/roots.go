package toolserver

import (
	"context"
	"net/url"
	"path/filepath"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// capabilities are those a server is told of: roots where there are any. Servers
// have nothing else to ask of us.
func (c Config) capabilities() *sdk.ClientCapabilities {
	if len(c.Roots) == 0 {
		return &sdk.ClientCapabilities{}
	}
	return &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{}}
}

// declareRoots gives a client the roots that its server may ask for: by roots/list,
// or since 2026-07-28 in the result of a call.
func (c Config) declareRoots(client *sdk.Client) {
	if len(c.Roots) == 0 {
		return
	}
	list := make([]*sdk.Root, len(c.Roots))
	for i, dir := range c.Roots {
		list[i] = &sdk.Root{Name: filepath.Base(dir), URI: (&url.URL{Scheme: "file", Path: dir}).String()}
	}
	client.AddRoots(list...)
	// The library answers in the order of the URIs. In an answer of ours the working
	// directory comes first.
	client.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "roots/list" {
				return &sdk.ListRootsResult{Roots: list}, nil
			}
			return next(ctx, method, req)
		}
	})
}
