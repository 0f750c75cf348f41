package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// paramForms maps methods to the types of their params. Params that do not fit are
// refused here: the SDK's own error repeats them at full length, with names of Go types.
var paramForms = map[string]func() any{
	"initialize":               func() any { return new(sdk.InitializeParams) },
	"ping":                     func() any { return new(sdk.PingParams) },
	"server/discover":          func() any { return new(sdk.DiscoverParams) },
	"tools/list":               func() any { return new(sdk.ListToolsParams) },
	"tools/call":               func() any { return new(callParams) },
	"resources/list":           func() any { return new(sdk.ListResourcesParams) },
	"resources/templates/list": func() any { return new(sdk.ListResourceTemplatesParams) },
	"resources/read":           func() any { return new(sdk.ReadResourceParams) },
	"resources/subscribe":      func() any { return new(sdk.SubscribeParams) },
	"resources/unsubscribe":    func() any { return new(sdk.UnsubscribeParams) },
	"subscriptions/listen":     func() any { return new(sdk.SubscriptionsListenParams) },
	"prompts/list":             func() any { return new(sdk.ListPromptsParams) },
	"prompts/get":              func() any { return new(sdk.GetPromptParams) },
	"completion/complete":      func() any { return new(sdk.CompleteParams) },
	"logging/setLevel":         func() any { return new(sdk.SetLoggingLevelParams) }, //nolint:staticcheck // deprecated, but clients use it
	"tasks/get":                func() any { return new(taskParams) },
	"tasks/cancel":             func() any { return new(taskParams) },
	"tasks/update":             func() any { return new(taskParams) },
	"tasks/result":             func() any { return new(taskParams) },
	"tasks/list":               func() any { return new(taskParams) },
}

// needParams lists the methods that need params. Over HTTP, the SDK refuses a request
// without them in a response without the request's id.
var needParams = []string{"initialize", "tools/call", "resources/read", "resources/subscribe", "resources/unsubscribe",
	"subscriptions/listen", "prompts/get", "completion/complete", "logging/setLevel"}

// callParams are the params of tools/call, with a member that the SDK does not know.
type callParams struct {
	sdk.CallToolParamsRaw
	Task map[string]json.RawMessage `json:"task"`
}

// maxMethodBytes bounds the name of a method, in bytes, because errors repeat it.
const maxMethodBytes = 100

// maxDepth bounds the nesting of a message. The SDK accepts little more, and cannot
// answer a deeper request because it does not decode the id.
const maxDepth = 900

func tooDeep(message []byte) bool {
	if bytes.Count(message, []byte{'['})+bytes.Count(message, []byte{'{'}) <= maxDepth {
		return false
	}
	depth, inText := 0, false
	for i := 0; i < len(message); i++ {
		switch c := message[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// checkParams checks the form of a request's params. It returns the id and the error to
// answer with, or nil if there is none or the message is not a request. If knownOnly is
// set, it refuses unknown methods; otherwise the SDK answers them.
func checkParams(message []byte, knownOnly bool) (id json.RawMessage, problem *jsonrpc.Error) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	readable := json.Unmarshal(message, &m) == nil
	if !readable || len(m.ID) == 0 || m.ID[0] == '{' || m.ID[0] == '[' || isNull(m.ID) {
		return nil, nil
	}
	refuse := func(code int64, format string, args ...any) (json.RawMessage, *jsonrpc.Error) {
		return m.ID, &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}
	}
	form, known := paramForms[m.Method]
	switch {
	case tooDeep(message):
		return refuse(jsonrpc.CodeInvalidRequest, "the message nests deeper than %d levels; send such a value as a text", maxDepth)
	case len(m.Method) > maxMethodBytes:
		return refuse(jsonrpc.CodeMethodNotFound, "method not found: %s", quote(m.Method))
	case strings.HasPrefix(m.Method, "notifications/"):
		return refuse(jsonrpc.CodeInvalidRequest, "%s is a notification: send it without an id", quote(m.Method))
	case knownOnly && !known && m.Method != "": // a message without a method is a response
		return refuse(jsonrpc.CodeMethodNotFound, "method not found: %s", quote(m.Method))
	case (len(m.Params) == 0 || isNull(m.Params)) && slices.Contains(needParams, m.Method):
		return refuse(jsonrpc.CodeInvalidParams, "%s needs params: send an object with them", m.Method)
	case !known || len(m.Params) == 0 || isNull(m.Params):
		return nil, nil
	case m.Params[0] != '{':
		return refuse(jsonrpc.CodeInvalidParams, "the params of %s must be an object, not %s", m.Method, describe(m.Params))
	}
	err := json.Unmarshal(m.Params, form())
	if err == nil {
		return nil, nil
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || wrong.Field == "" {
		return refuse(jsonrpc.CodeInvalidParams, "the params of %s do not have the form that the protocol gives them", m.Method)
	}
	return refuse(jsonrpc.CodeInvalidParams, "the params of %s are wrong: %s must be %s", m.Method, clip(wrong.Field), jsonKind(wrong.Type))
}

// jsonKind returns the JSON type that a Go type decodes, with its article.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct, reflect.Pointer, reflect.Interface:
		return "an object"
	default:
		return "a number"
	}
}

// metaRefused is the key in _meta that carries the error for a refused request through
// the SDK's transports to answerRefusals.
const metaRefused = "daybook/refused"

// refusalMessage returns a request that answerRefusals answers with problem. It is a
// ping, which is allowed at any time.
func refusalMessage(id json.RawMessage, problem *jsonrpc.Error) ([]byte, error) {
	carried := object{{"code", problem.Code}, {"message", problem.Message}}
	if problem.Data != nil {
		carried = append(carried, member{"data", problem.Data})
	}
	return encode(object{{"jsonrpc", "2.0"}, {"id", id}, {"method", "ping"},
		{"params", object{{"_meta", object{{metaRefused, carried}}}}}})
}

// answerRefusals answers the requests of refusalMessage. A client that sends such a
// request gets the error that it contains.
func answerRefusals(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		p, ok := req.GetParams().(*sdk.PingParams)
		if !ok || p == nil {
			return next(ctx, method, req)
		}
		carried, ok := p.Meta[metaRefused].(map[string]any)
		if !ok {
			return next(ctx, method, req)
		}
		code, _ := carried["code"].(float64)
		message, _ := carried["message"].(string)
		problem := &jsonrpc.Error{Code: int64(code), Message: message}
		if data, ok := carried["data"].(map[string]any); ok {
			var err error
			if problem.Data, err = json.Marshal(data); err != nil {
				return nil, err
			}
		}
		if problem.Code == jsonrpc.CodeMethodNotFound {
			return nil, carriedError{problem}
		}
		return nil, problem
	}
}

// refuseSecondInitialize refuses initialize in an initialized session. The SDK's own
// answer has no code.
func refuseSecondInitialize(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		ss, ok := req.GetSession().(*sdk.ServerSession)
		if method == "initialize" && ok && ss.InitializeParams() != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this session is initialized already; open another connection for another session"}
		}
		return next(ctx, method, req)
	}
}

// carriedError is the answer to a request that the SDK takes for a ping. It MUST NOT
// match the SDK's error with the same code: the SDK replaces the message of such an
// error by one that names the ping.
type carriedError struct{ problem *jsonrpc.Error }

// Error returns the message for the client.
func (e carriedError) Error() string { return e.problem.Message }

// As gives the SDK the code and the data of the answer.
func (e carriedError) As(target any) bool {
	problem, ok := target.(**jsonrpc.Error)
	if ok {
		*problem = e.problem
	}
	return ok
}
