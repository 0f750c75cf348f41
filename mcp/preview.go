package mcp

import (
	"context"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
)

// previewBytes is how much of a result or an error an answer shows. The client
// reads the rest as a resource, or looks at the value in the next run.
const previewBytes = 16 << 10

// preview cuts a long result and a long error, and returns links to all of them.
// The recorded texts are not changed.
func preview(a *executionAnswer) (links []*sdk.ResourceLink) {
	cut := func(text **string, cut *bool, link sdk.ResourceLink) {
		if *text == nil || len(**text) <= previewBytes {
			return
		}
		link.URI = "execution://" + a.ExecutionID + "/" + link.Name
		link.MIMEType, link.Size = textType, new(int64(len(**text)))
		*text, *cut = new((**text)[:runeStart(**text, previewBytes)]), true
		links = append(links, &link)
	}
	cut(&a.Result, &a.ResultPreview, sdk.ResourceLink{Name: "result", Title: "Whole result", Description: "The recorded value of the last expression, whole."})
	cut(&a.Error, &a.ErrorPreview, sdk.ResourceLink{Name: "error", Title: "Whole error", Description: "The recorded error of the run, whole."})
	return links
}

// runeStart is the last offset up to at where a character begins. at must be
// inside the text.
func runeStart(text string, at int) int {
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// wholeResult reads the result of a run, every byte of it.
func (s *Server) wholeResult(ctx context.Context, id string) (string, error) {
	d, err := s.opts.Queries.Execution(ctx, s.tenant, id)
	return textOrNone(d.Result, err)
}

// wholeError does so with its error.
func (s *Server) wholeError(ctx context.Context, id string) (string, error) {
	d, err := s.opts.Queries.Execution(ctx, s.tenant, id)
	return textOrNone(d.Error, err)
}

func textOrNone(text *string, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case text == nil:
		return "", events.ErrNotFound
	default:
		return *text, nil
	}
}
