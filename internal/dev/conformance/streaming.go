//nolint:staticcheck // the suite tests deprecated features
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// step is the time between two notifications that the suite expects.
const step = 50 * time.Millisecond

// streamingTools returns the tools that send messages before they answer.
func (f *fixtures) streamingTools() []fixture {
	return []fixture{
		{name: "test_tool_with_logging", about: "Logs while it runs", call: func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			for _, message := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
				if err := logLine(ctx, req, message); err != nil {
					return nil, err
				}
				time.Sleep(step)
			}
			return textResult("Tool with logging executed successfully"), nil
		}},
		{name: "test_logging_tool", about: "Logs one message", call: func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return textResult("logged"), logLine(ctx, req, "test_logging_tool executed")
		}},
		{name: "test_tool_with_progress", about: "Reports progress while it runs", call: func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			token := req.Params.GetProgressToken()
			for _, done := range []float64{0, 50, 100} {
				if token != nil {
					if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100}); err != nil {
						return nil, err
					}
				}
				time.Sleep(step)
			}
			return textResult(fmt.Sprint(token)), nil
		}},
		{name: "test_sampling", about: "Asks the client's model", call: func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			res, err := req.Session.CreateMessage(ctx, sampling(argument(req, "prompt")))
			if err != nil {
				return nil, fmt.Errorf("ask the client's model: %w", err)
			}
			t, _ := res.Content.(*sdk.TextContent)
			if t == nil {
				t = text("no text")
			}
			return textResult("LLM response: " + t.Text), nil
		}},
		{name: "test_elicitation", about: "Asks the user", call: func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return elicit(ctx, req, argument(req, "message"), `{"type":"object","properties":{"username":{"type":"string"},"email":{"type":"string"}},"required":["username","email"]}`)
		}},
		{name: "test_elicitation_sep1034_defaults", about: "Asks the user, proposing answers", call: func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return elicit(ctx, req, "Check the proposed answers", `{"type":"object","properties":{
				"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
				"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`)
		}},
		{name: "test_elicitation_sep1330_enums", about: "Asks the user to choose", call: func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return elicit(ctx, req, "Choose", `{"type":"object","properties":{
				"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
				"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
				"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
				"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
				"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`)
		}},
	}
}

func logLine(ctx context.Context, req *sdk.CallToolRequest, message string) error {
	return req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: message})
}

func sampling(prompt string) *sdk.CreateMessageParams {
	return &sdk.CreateMessageParams{MaxTokens: 100, Messages: []*sdk.SamplingMessage{{Role: "user", Content: text(prompt)}}}
}

func elicit(ctx context.Context, req *sdk.CallToolRequest, message, schema string) (*sdk.CallToolResult, error) {
	res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)})
	if err != nil {
		return nil, fmt.Errorf("ask the user: %w", err)
	}
	content, err := json.Marshal(res.Content)
	if err != nil {
		return nil, err
	}
	return textResult(fmt.Sprintf("User response: action=%s, content=%s", res.Action, content)), nil
}

// wireTools returns the tools that test schemas, headers, streams and notifications.
func (f *fixtures) wireTools() []fixture {
	return []fixture{
		{name: "json_schema_2020_12_tool", about: "Has a schema with every keyword", schema: everyKeyword, call: constantAnswer(text("called"))},
		{name: "test_x_mcp_header", about: "Has an argument that travels in a header as well", call: constantAnswer(text("called")),
			schema: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`},
		{name: "test_reconnection", about: "Closes the stream before it answers", call: func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if req.Extra != nil && req.Extra.CloseSSEStream != nil {
				req.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
			}
			time.Sleep(2 * step) // the client reconnects meanwhile
			return textResult("Reconnection test completed successfully"), nil
		}},
		{name: "test_streaming_elicitation", about: "Sends nothing but its answer", call: constantAnswer(text("no requests on this stream"))},
		{name: "test_missing_capability", about: "Needs a client with sampling", call: func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if c := req.ClientCapabilities(); c != nil && c.Sampling != nil {
				return textResult("the client has sampling"), nil
			}
			return nil, &jsonrpc.Error{
				Code: sdk.CodeMissingRequiredClientCapabilities, Message: "this tool needs a client that declares sampling",
				Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`),
			}
		}},
		{name: "test_trigger_tool_change", about: "Changes the list of tools", call: func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			f.add(fixture{name: "test_came_later", about: "Was added while the server ran", call: constantAnswer(text("called"))})
			return textResult("the list of tools has changed"), nil
		}},
		{name: "test_trigger_prompt_change", about: "Changes the list of prompts", call: func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			f.server.AddPrompt(&sdk.Prompt{Name: "test_came_later", Description: "Was added while the server ran"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
				return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: text("got")}}}, nil
			})
			return textResult("the list of prompts has changed"), nil
		}},
	}
}

const everyKeyword = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
	"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
	"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
	"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
	"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
	"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`
