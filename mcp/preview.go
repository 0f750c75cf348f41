package mcp

import (
	"context"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/projections"
)

// previewBytes is how much of a result is shown of a run in a session that keeps
// state: the model can look at the rest from the next run, or read the resource.
// Runs outside of such a session have their whole result shown, as documented.
const previewBytes = 16 << 10

// preview cuts a long result for a model's eyes, and returns a link to all of it.
// What is on record is not touched.
func preview(d projections.ExecutionDetail, a *executionAnswer) *sdk.ResourceLink {
	if d.LogicalSession == nil || d.Result == nil || len(*d.Result) <= previewBytes {
		return nil
	}
	cut := previewBytes
	for !utf8.RuneStart((*d.Result)[cut]) {
		cut--
	}
	short, size := (*d.Result)[:cut], int64(len(*d.Result))
	a.Result, a.ResultPreview = &short, true
	return &sdk.ResourceLink{
		URI: "execution://" + d.ExecutionID + "/result", Name: "result", Title: "Whole result",
		Description: "the value of the last expression, exactly", MIMEType: textType, Size: &size,
	}
}

// wholeResult reads the result of a run, every byte of it.
func (s *Server) wholeResult(ctx context.Context, id string) (string, error) {
	d, err := s.opts.Queries.Execution(ctx, s.tenant, id)
	switch {
	case err != nil:
		return "", err
	case d.Result == nil:
		return "", events.ErrNotFound
	default:
		return *d.Result, nil
	}
}
