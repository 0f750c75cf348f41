package mcp

import (
	"context"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/projections"
)

// previewBytes bounds the result and the error in an answer. The client can read the
// rest as a resource, or use the value in the next run.
const previewBytes = 16 << 10

// preview cuts a long result and a long error in an answer, and returns links to the
// complete texts. The recorded texts are unchanged.
func preview(a *executionAnswer) (links []*sdk.ResourceLink) {
	cut := func(text **string, cut *bool, link sdk.ResourceLink) {
		size, beginning := a.cutTexts[link.Name]
		switch {
		case *text == nil || !beginning && len(**text) <= previewBytes:
			return
		case !beginning:
			size = int64(len(**text))
		}
		link.URI = "execution://" + a.ExecutionID + "/" + link.Name
		link.MIMEType, link.Size = textType, new(size)
		if len(**text) > previewBytes {
			*text = new((**text)[:runeStart(**text, previewBytes)])
		}
		*cut = true
		links = append(links, &link)
	}
	cut(&a.Result, &a.ResultPreview, sdk.ResourceLink{Name: "result", Title: "Whole result", Description: "The recorded value of the last expression, whole."})
	cut(&a.Error, &a.ErrorPreview, sdk.ResourceLink{Name: "error", Title: "Whole error", Description: "The recorded error of the run, whole."})
	return links
}

// runeStart returns the last offset up to at where a character starts. at MUST be less
// than the length of the text.
func runeStart(text string, at int) int {
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// fullResult reads the complete result of a run.
func (s *Server) fullResult(ctx context.Context, id string) (string, error) {
	return s.opts.Queries.ExecutionText(ctx, s.tenant, id, projections.TextResult)
}

// fullError reads the complete error of a run.
func (s *Server) fullError(ctx context.Context, id string) (string, error) {
	return s.opts.Queries.ExecutionText(ctx, s.tenant, id, projections.TextError)
}
