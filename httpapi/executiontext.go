package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/ledger"
	"daybook/projections"
)

// executionTexts are the texts of an execution that may be too large for one response.
var executionTexts = []string{projections.TextCode, projections.TextResult, projections.TextError, textFiles}

// textFiles is the name of the text that has the files of an execution. It is in no response
// with the execution.
const textFiles = "files"

func (a *api) executionTextRoutes(r *router) {
	register(r, markHeavy(huma.Operation{
		OperationID: "get-execution-text", Method: http.MethodGet, Path: "/api/executions/{id}/texts/{text}", Tags: []string{tagExecutions},
		Summary:     "Get the code, result, error or files of an execution as plain text",
		Description: "Also returns a text that is too large for the response with the execution. That response has the beginning of the text and names it in cut_texts. The files that were submitted with the code are one JSON object of their texts by path. A Range header selects a part.",
		Responses: map[string]*huma.Response{
			"200": {Description: "The text.", Content: map[string]*huma.MediaType{typeText: {Schema: &huma.Schema{Type: huma.TypeString}}}},
			"206": {Description: "The part that Range selects.", Content: map[string]*huma.MediaType{typeText: {Schema: &huma.Schema{Type: huma.TypeString}}}},
		},
	}), []int{http.StatusBadRequest, http.StatusNotFound, http.StatusGone}, a.executionText)
}

type textInput struct {
	Reading
	OneExecution
	Text string `path:"text" doc:"code, result, error or files."`
}

func (a *api) executionText(ctx context.Context, in *textInput) (*streamed, error) {
	if !slices.Contains(executionTexts, in.Text) {
		return nil, fail(http.StatusNotFound, "not_found", "text", "an execution has no text of that name; the names are %s", strings.Join(executionTexts, ", "))
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	if account := budget.From(ctx); account != nil {
		ctx = budget.With(ctx, account.WithFactor(1)) // the text is sent without encoding
	}
	tenant := requestOf(ctx).tenant
	text, err := readCurrent(ctx, a, func() (string, error) {
		if in.Text != textFiles {
			return a.q.ExecutionText(ctx, tenant, in.ID, in.Text)
		}
		files, err := a.cmd.Files(ctx, tenant, in.ID, func(size int64) error { return budget.Take(ctx, int(size)) })
		return string(files), err
	})
	if errors.Is(err, events.ErrNotFound) {
		if d, unknown := a.q.ExecutionPreview(ctx, tenant, in.ID); unknown == nil {
			err = fail(http.StatusNotFound, string(ledger.CodeNotFound), "text", "execution '%.80s' has no %s; its status is %s", in.ID, in.Text, d.Status)
		}
	}
	if err != nil {
		return nil, err
	}
	return stream(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeText)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	}), nil
}

// execution reads an execution. If it is too large for one response, it returns the
// beginning of each long text, and a warning that names the request for the whole text.
func (a *api) execution(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error) {
	d, err := a.q.Execution(ctx, tenant, id)
	full, exhausted := errors.AsType[*budget.ExhaustedError](err)
	if !exhausted || !full.IsPermanent() {
		return d, err
	}
	if d, err = a.q.ExecutionPreview(ctx, tenant, id); err != nil {
		return d, err
	}
	for _, name := range executionTexts {
		size, cut := d.CutTexts[name]
		if !cut {
			continue
		}
		d.Warnings = append(d.Warnings, fmt.Sprintf("this response has only the beginning of the %s: all %d bytes do not fit into one response of this server; GET /api/executions/%s/texts/%s returns them, and daybook exec text %s %s prints them", name, size, id, name, id, name))
	}
	return d, nil
}
