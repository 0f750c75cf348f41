package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxInitialize bounds the params of initialize without icons, in bytes of JSON: a
	// session keeps them.
	maxInitialize = 16 << 10
	// maxProgressToken bounds a progress token, in bytes: each notification repeats it.
	maxProgressToken = 1 << 10
)

// limitSession limits what a request leaves in memory: the params of initialize, its
// progress token, and the number of requests of a session in progress.
func limitSession(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if p, ok := req.GetParams().(*sdk.InitializeParams); ok && p != nil {
			if p.ClientInfo != nil {
				p.ClientInfo.Icons = nil // the server uses no icons
			}
			raw, err := json.Marshal(p)
			if err != nil {
				return nil, invalidParams("the params of initialize cannot be encoded")
			}
			if len(raw) > maxInitialize {
				return nil, invalidParams("the params of initialize have %d bytes without icons; the limit is %d", len(raw), maxInitialize)
			}
		}
		if n := len(progressToken(req.GetParams())); n > maxProgressToken {
			return nil, invalidParams("the progress token has %d bytes; the limit is %d", n, maxProgressToken)
		}
		o, _ := ctx.Value(originKey{}).(origin)
		done, ok := o.transportSession.beginCall()
		if !ok {
			return nil, &jsonrpc.Error{Code: codeLimited, Message: fmt.Sprintf("the session has %d requests in progress; wait for answers, or cancel requests", maxCalls)}
		}
		defer done()
		return next(ctx, method, req)
	}
}

// progressToken returns the progress token of a request if it is a text, else an empty
// text.
func progressToken(p sdk.Params) string {
	if v := reflect.ValueOf(p); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return "" // the request has no params
	}
	token, _ := p.GetMeta()["progressToken"].(string)
	return token
}
