//nolint:staticcheck // the suite tests deprecated features
package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// stateKey is the key that authenticates state which the client sends back.
type stateKey []byte

func newStateKey() stateKey {
	key := make(stateKey, 32)
	_, _ = rand.Read(key) // crashes the program if it fails
	return key
}

func (s stateKey) sign(state string) string {
	h := hmac.New(sha256.New, s)
	h.Write([]byte(state))
	return state + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (s stateKey) verify(sealed string) (string, error) {
	i := strings.LastIndexByte(sealed, '.')
	if i < 0 || !hmac.Equal([]byte(s.sign(sealed[:i])), []byte(sealed)) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "this server did not issue the requestState"}
	}
	return sealed[:i], nil
}

// elicitation returns a request to the user for one value.
func elicitation(message, name, kind string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: message, RequestedSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:{"type":%q}},"required":[%q]}`, name, kind, name))}
}

// userValues returns the values that the user entered, or nil if there are none.
func userValues(in sdk.InputResponseMap, key string) map[string]any {
	if res, ok := in[key].(*sdk.ElicitResult); ok && res != nil && res.Action == "accept" {
		return res.Content
	}
	return nil
}

func userText(in sdk.InputResponseMap, key, name string) string {
	s, _ := userValues(in, key)[name].(string)
	return s
}

// modelText returns the text that the client's model generated.
func modelText(in sdk.InputResponseMap, key string) (string, bool) {
	switch res := in[key].(type) {
	case *sdk.CreateMessageResult:
		t, ok := res.Content.(*sdk.TextContent)
		return fmt.Sprint(t), ok
	case *sdk.CreateMessageWithToolsResult:
		for _, c := range res.Content {
			if t, ok := c.(*sdk.TextContent); ok {
				return t.Text, true
			}
		}
	}
	return "", false
}

func inputRequired(in sdk.InputRequestMap, state string) *sdk.CallToolResult {
	return &sdk.CallToolResult{InputRequests: in, RequestState: state}
}

// inputTools returns the tools that answer by asking for input first.
func (f *fixtures) inputTools() []fixture {
	const prefix = "test_input_required_result_"
	askName := elicitation("What is your name?", "name", "string")
	roots := &sdk.ListRootsParams{}
	tool := func(name, about string, call func(in sdk.InputResponseMap, state string) *sdk.CallToolResult) fixture {
		return fixture{name: prefix + name, about: about, call: func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			state := ""
			if req.Params.RequestState != "" {
				var err error
				if state, err = f.key.verify(req.Params.RequestState); err != nil {
					return nil, err
				}
			}
			return call(req.Params.InputResponses, state), nil
		}}
	}
	return []fixture{
		tool("elicitation", "Asks the user for a name", func(in sdk.InputResponseMap, _ string) *sdk.CallToolResult {
			if name := userText(in, "user_name", "name"); name != "" {
				return textResult("Hello, " + name + "!")
			}
			return inputRequired(sdk.InputRequestMap{"user_name": askName}, "")
		}),
		tool("sampling", "Asks the client's model", func(in sdk.InputResponseMap, _ string) *sdk.CallToolResult {
			if s, ok := modelText(in, "capital_question"); ok {
				return textResult("Sampling response: " + s)
			}
			return inputRequired(sdk.InputRequestMap{"capital_question": sampling("What is the capital of France?")}, "")
		}),
		tool("list_roots", "Asks for the client's roots", func(in sdk.InputResponseMap, _ string) *sdk.CallToolResult {
			if res, ok := in["client_roots"].(*sdk.ListRootsResult); ok && res != nil {
				return textResult(fmt.Sprintf("%d roots", len(res.Roots)))
			}
			return inputRequired(sdk.InputRequestMap{"client_roots": roots}, "")
		}),
		tool("request_state", "Asks for a confirmation, with state", func(in sdk.InputResponseMap, state string) *sdk.CallToolResult {
			if userValues(in, "confirm") != nil && state == "confirming" {
				return textResult("state-ok: the state came back")
			}
			return inputRequired(sdk.InputRequestMap{"confirm": elicitation("Please confirm", "ok", "boolean")}, f.key.sign("confirming"))
		}),
		tool("tampered_state", "Asks for a confirmation, with state that must not change", func(in sdk.InputResponseMap, state string) *sdk.CallToolResult {
			if userValues(in, "confirm") != nil && state == "sealed" {
				return textResult("state-ok: the state came back")
			}
			return inputRequired(sdk.InputRequestMap{"confirm": elicitation("Please confirm", "ok", "boolean")}, f.key.sign("sealed"))
		}),
		tool("multiple_inputs", "Asks for three things at once", func(in sdk.InputResponseMap, _ string) *sdk.CallToolResult {
			name := userText(in, "user_name", "name")
			greeting, greeted := modelText(in, "greeting")
			list, listed := in["client_roots"].(*sdk.ListRootsResult)
			if name != "" && greeted && listed && list != nil {
				return textResult(fmt.Sprintf("%s %s, %d roots", greeting, name, len(list.Roots)))
			}
			return inputRequired(sdk.InputRequestMap{"user_name": askName, "greeting": sampling("Generate a greeting"), "client_roots": roots}, f.key.sign("several"))
		}),
		tool("multi_round", "Asks twice", func(in sdk.InputResponseMap, state string) *sdk.CallToolResult {
			name, second := strings.CutPrefix(state, "name=")
			switch {
			case second:
				return textResult(fmt.Sprintf("%s likes %s", name, userText(in, "step2", "color")))
			case state == "first":
				return inputRequired(sdk.InputRequestMap{"step2": elicitation("What is your favorite color?", "color", "string")}, f.key.sign("name="+userText(in, "step1", "name")))
			default:
				return inputRequired(sdk.InputRequestMap{"step1": askName}, f.key.sign("first"))
			}
		}),
		{name: prefix + "capabilities", about: "Asks for what the client can give", call: func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			caps, in := req.ClientCapabilities(), sdk.InputRequestMap{}
			if caps != nil && caps.Elicitation != nil {
				in["user_name"] = askName
			}
			if caps != nil && caps.Sampling != nil {
				in["greeting"] = sampling("Generate a greeting")
			}
			if caps != nil && caps.RootsV2 != nil {
				in["client_roots"] = roots
			}
			if len(in) == 0 || len(req.Params.InputResponses) > 0 {
				return textResult("nothing to ask"), nil
			}
			return inputRequired(in, ""), nil
		}},
	}
}

func askForContext(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
	if s := userText(req.Params.InputResponses, "user_context", "context"); s != "" {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: text("Context: " + s)}}}, nil
	}
	return &sdk.GetPromptResult{InputRequests: sdk.InputRequestMap{"user_context": elicitation("What is the context?", "context", "string")}}, nil
}
