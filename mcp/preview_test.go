package mcp_test

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/mcp"
	"daybook/projections"
)

// The answer for a result that exceeds one answer has its beginning and a link to all of
// it.
func TestResultLargerThanAnAnswer(t *testing.T) {
	t.Parallel()
	all := strings.Repeat("x", 5000)
	book := &fakeStack{execution: func(id string) (projections.ExecutionDetail, error) {
		d := projections.ExecutionDetail{Execution: projections.Execution{ExecutionID: id, Status: events.StatusCompleted, Result: &all}}
		return d, &budget.ExhaustedError{Need: 5000, Answer: 5000, Share: 1000}
	}}
	url := serveHTTP(t, book.serve(t, mcp.Options{}))
	ss := client(t, url, "", "2025-11-25", nil)
	res, err := ss.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_execution", Arguments: map[string]any{"execution_id": "one"}})
	if err != nil || res.IsError {
		t.Fatalf("%v, %+v", err, res)
	}
	if text := res.Content[0].(*sdk.TextContent).Text; !strings.Contains(text, `"result":"x"`) || !strings.Contains(text, `"result_preview":true`) {
		t.Errorf("the answer is %s", text)
	}
	link, ok := res.Content[len(res.Content)-1].(*sdk.ResourceLink)
	if !ok || link.URI != "execution://one/result" || link.Size == nil || *link.Size != 5000 {
		t.Fatalf("the link is %+v", res.Content[len(res.Content)-1])
	}
	whole, err := ss.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: link.URI})
	if err != nil || whole.Contents[0].Text != all {
		t.Errorf("the link leads to %v, %v", whole, err)
	}
}
