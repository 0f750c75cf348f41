package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/projections"
)

func (a *api) callRoutes(r *router) {
	register(r, heavy(huma.Operation{
		OperationID: "get-execution-calls", Method: http.MethodGet, Path: "/api/executions/{id}/calls", Tags: []string{tagExecutions},
		Summary:     "List the host calls of an execution",
		Description: "The calls of the script to tools of MCP servers, in order, with their results.",
	}), []int{http.StatusNotFound}, a.executionCalls)
}

type callsInput struct {
	Reading
	OneExecution
}

type callsAnswer struct {
	Body struct {
		Calls []projections.Call `json:"calls"`
	}
}

func (a *api) executionCalls(ctx context.Context, in *callsInput) (*callsAnswer, error) {
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	calls, err := found(ctx, a, func() ([]projections.Call, error) { return a.q.Calls(ctx, requestOf(ctx).tenant, in.ID) })
	if err != nil {
		return nil, err
	}
	out := new(callsAnswer)
	out.Body.Calls = calls
	return out, nil
}
