package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/mcp"
)

// scheme is the scheme of the resources' URIs.
const scheme = "test://"

func mount(s *sdk.Server) {
	f := &fixtures{server: s, key: newStateKey()}
	for _, group := range [][]fixture{f.contentTools(), f.streamingTools(), f.wireTools(), f.inputTools()} {
		for _, t := range group {
			f.add(t)
		}
	}
	f.addPrompts()
	f.addResources()
}

// complete answers every request for completions with an empty list.
func complete(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}, nil
}

type fixtures struct {
	server *sdk.Server
	key    stateKey
}

// fixture is a tool that the suite expects.
type fixture struct {
	name, about string
	schema      string // of the arguments; "" accepts any object
	call        sdk.ToolHandler
}

func (f *fixtures) add(t fixture) {
	if t.schema == "" {
		t.schema = `{"type":"object"}`
	}
	f.server.AddTool(&sdk.Tool{Name: t.name, Description: t.about, InputSchema: json.RawMessage(t.schema)}, t.call)
}

// constantAnswer returns a handler that always returns the same content.
func constantAnswer(content ...sdk.Content) sdk.ToolHandler {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: content}, nil
	}
}

func text(s string) *sdk.TextContent { return &sdk.TextContent{Text: s} }

func textResult(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{text(s)}}
}

// argument returns a string argument of a call, or "".
func argument(req *sdk.CallToolRequest, name string) string {
	var args map[string]any
	if json.Unmarshal(req.Params.Arguments, &args) != nil {
		return ""
	}
	s, _ := args[name].(string)
	return s
}

// scripts returns the tools that the suite calls as tasks. Each call runs a script.
func scripts() []mcp.Script {
	return []mcp.Script{
		{
			Name: "slow_compute", About: "Takes some seconds", Texts: []string{"label"}, Integers: []string{"seconds"},
			Code: func(text func(string) string, integer func(string) int64) string {
				return fmt.Sprintf("await new Promise(done => setTimeout(done, %d)); %s", integer("seconds")*1000, strconv.QuoteToASCII(text("label")))
			},
		},
		{
			Name: "failing_job", About: "Throws, and has to be called as a task", TaskOnly: true,
			Code: func(func(string) string, func(string) int64) string {
				return `throw new Error("this job fails on purpose")`
			},
		},
	}
}
