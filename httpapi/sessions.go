package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

func (a *api) sessionRoutes(r *router) {
	register(r, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: "/api/sessions", Tags: []string{tagSessions},
		Summary: "List sessions", Description: "The names of sessions with entries, sorted.",
	}, nil, a.sessions)
	register(r, huma.Operation{
		OperationID: "list-session-entries", Method: http.MethodGet, Path: "/api/sessions/{name}/entries", Tags: []string{tagSessions},
		Summary: "Read the log of a session", Description: "One entry per ended run, in the order in which they ended.",
	}, []int{http.StatusBadRequest, http.StatusNotFound}, a.entries)
}

type sessionsInput struct{ Reading }

type sessionsAnswer struct{ Body sessionList }

type sessionList struct {
	Sessions []string `json:"sessions"`
}

func (a *api) sessions(ctx context.Context, in *sessionsInput) (*sessionsAnswer, error) {
	if err := a.fresh(ctx, in.Reading); err != nil {
		return nil, err
	}
	names, err := a.q.Sessions(ctx, requestOf(ctx).tenant)
	out := &sessionsAnswer{}
	out.Body.Sessions = append([]string{}, names...)
	return out, err
}

// entry is a session entry, or the part of it that was asked for.
type entry struct {
	Index       *int64         `json:"index,omitempty" doc:"Counts the entries from 0."`
	ExecutionID *string        `json:"execution_id,omitempty"`
	Status      *events.Status `json:"status,omitempty"`
	InputHeap   **string       `json:"input_heap,omitempty" doc:"The heap really restored; null for a fresh isolate."`
	OutputHeap  **string       `json:"output_heap,omitempty" doc:"The heap the run left behind; null when it left none."`
	Code        *string        `json:"code,omitempty"`
	Timestamp   *string        `json:"timestamp,omitempty" doc:"When the run ended."`
}

// entryFields fill an entry, by the name of each field.
var entryFields = map[string]func(*entry, *projections.Entry){
	"index":        func(e *entry, from *projections.Entry) { e.Index = &from.Index },
	"execution_id": func(e *entry, from *projections.Entry) { e.ExecutionID = &from.ExecutionID },
	"status":       func(e *entry, from *projections.Entry) { e.Status = &from.Status },
	"input_heap":   func(e *entry, from *projections.Entry) { e.InputHeap = &from.InputHeap },
	"output_heap":  func(e *entry, from *projections.Entry) { e.OutputHeap = &from.OutputHeap },
	"code":         func(e *entry, from *projections.Entry) { e.Code = &from.Code },
	"timestamp":    func(e *entry, from *projections.Entry) { e.Timestamp = &from.Timestamp },
}

type entriesInput struct {
	Reading
	Name   string `path:"name" doc:"Session name."`
	Fields string `query:"fields" doc:"Only these fields, separated by commas: index, execution_id, status, input_heap, output_heap, code, timestamp."`
}

func (in entriesInput) about() subject { return subject{"session", "Session", in.Name} }

type entriesAnswer struct{ Body sessionLog }

type sessionLog struct {
	Entries []entry `json:"entries"`
}

func (a *api) entries(ctx context.Context, in *entriesInput) (*entriesAnswer, error) {
	fields, f := fieldNames(in.Fields)
	if f != nil {
		return nil, f
	}
	if err := a.fresh(ctx, in.Reading); err != nil {
		return nil, err
	}
	list, err := found(ctx, a, func() ([]projections.Entry, error) { return a.q.Entries(ctx, requestOf(ctx).tenant, in.Name) })
	if err != nil {
		return nil, err
	}
	out := &entriesAnswer{}
	out.Body.Entries = make([]entry, len(list))
	for i := range list {
		for _, name := range fields {
			entryFields[name](&out.Body.Entries[i], &list[i])
		}
	}
	return out, nil
}

func fieldNames(list string) ([]string, *failure) {
	known := make([]string, 0, len(entryFields))
	for name := range entryFields {
		known = append(known, name)
	}
	slices.Sort(known)
	names := splitKeys(list)
	if len(names) == 0 {
		return known, nil
	}
	for _, name := range names {
		if _, ok := entryFields[name]; !ok {
			return nil, invalid("fields", `fields: there is no field "%s"; the fields are %s`, ledger.Excerpt(name), strings.Join(known, ", "))
		}
	}
	return names, nil
}
