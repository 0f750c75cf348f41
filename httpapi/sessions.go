package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

func (a *api) sessionRoutes(r *router) {
	register(r, markHeavy(huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: "/api/sessions", Tags: []string{tagSessions},
		Summary:     "List sessions",
		Description: "Without kind: the sorted names of named sessions with entries, all of them or in pages. With kind: also items, the sessions of that kind or of all kinds, the last used first, in pages; each page has all names unless names is false.",
	}), []int{http.StatusBadRequest}, a.sessions)
	r.bounds(http.MethodGet, "/api/sessions", "limit", 1, projections.MaxListLimit, nil)
	register(r, markHeavy(huma.Operation{
		OperationID: "get-session", Method: http.MethodGet, Path: "/api/sessions/{name}", Tags: []string{tagSessions},
		Summary: "Get a session", Description: "A session of any kind. " + sessionText,
	}), []int{http.StatusNotFound, http.StatusConflict}, a.getSession)
	register(r, markHeavy(huma.Operation{
		OperationID: "list-session-entries", Method: http.MethodGet, Path: "/api/sessions/{name}/entries", Tags: []string{tagSessions},
		Summary: "Get the session log",
		Description: "One entry per ended run. In a named session they are in the order of their ends, in a logical or ACP session in the order of the turns, and index is the number of the turn minus one. " + sessionText +
			" For an unknown name, the log has no entries. The response is written while it is read: an error ends the connection.",
		Responses: map[string]*huma.Response{"200": {Description: "The log.", Content: map[string]*huma.MediaType{"application/json": mediaOf[sessionLog](r)}}},
	}), []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict}, a.entries)
	r.bounds(http.MethodGet, "/api/sessions/{name}/entries", "limit", 1, maxListLimit, nil)
	a.turnRoutes(r)
	a.resetRoutes(r)
}

// sessionText documents the texts that identify a session.
const sessionText = "name is the name of a named session, the id of any session, an intent, a ref such as s0, or a unique prefix of a name, intent, title or id. " +
	"An exact name takes precedence. If several sessions match, the response is 409 and lists up to five."

// session returns the session that a text identifies. If there are several, it returns
// a failure with status 409.
func (a *api) session(ctx context.Context, text string) (projections.Session, error) {
	s, err := readCurrent(ctx, a, func() (projections.Session, error) { return a.q.ResolveSession(ctx, requestOf(ctx).tenant, text) })
	if many, ok := errors.AsType[*projections.AmbiguousError](err); ok {
		return s, fail(http.StatusConflict, string(ledger.CodeConflict), "session", "%s", many)
	}
	return s, err
}

// sessionOf returns the sessions of an execution. It waits up to positionTimeout until the
// projections have applied the event at seq.
func (a *api) sessionOf(ctx context.Context, tenant string, seq uint64, execution string) ([]string, error) {
	waiting, stop := context.WithTimeout(ctx, positionTimeout)
	defer stop()
	if err := a.q.Wait(waiting, seq); err != nil {
		return nil, err
	}
	return a.q.SessionsOfExecution(ctx, tenant, execution)
}

// sessionFilter restricts a response to a session.
type sessionFilter struct {
	text  string // from the request; empty for all sessions
	known *projections.Session
}

// sessionFilter returns a filter for the session that a text identifies. An unknown
// session is not an error: it has no runs yet.
func (a *api) sessionFilter(ctx context.Context, text string) (sessionFilter, error) {
	if text == "" {
		return sessionFilter{}, nil
	}
	s, err := a.session(ctx, text)
	switch {
	case errors.Is(err, events.ErrNotFound):
		return sessionFilter{text: text}, nil
	case err != nil:
		return sessionFilter{}, err
	}
	return sessionFilter{text, &s}, nil
}

// selection returns the session for events.Selection.
func (f sessionFilter) selection() string {
	switch {
	case f.known == nil:
		return f.text
	case f.known.Kind == events.SessionLog:
		return *f.known.Name
	default:
		return f.known.SessionID
	}
}

// restrict adds the session to a filter of executions.
func (f sessionFilter) restrict(to *projections.ExecutionFilter) {
	if f.known != nil && f.known.Kind != events.SessionLog {
		to.LogicalSession = f.known.SessionID
		return
	}
	to.Session = f.selection()
}

type sessionsInput struct {
	Reading
	Kind   string         `query:"kind" enum:"all,named,logical,acp" doc:"Kind of the sessions in items; without it there are no items."`
	Names  optional[bool] `query:"names" doc:"With kind: false leaves the names out of sessions. Default: true."`
	Limit  optional[int]  `query:"limit" doc:"Maximum number of items, or of names without kind. Default: 100 items, all names."`
	Cursor string         `query:"cursor" doc:"next_cursor of the previous page."`
}

type sessionsAnswer struct{ Body sessionList }

type sessionList struct {
	Sessions   []string               `json:"sessions" doc:"Names of named sessions with entries, sorted."`
	Items      *[]projections.Session `json:"items,omitempty" doc:"Sessions of the requested kind, the last used first."`
	NextCursor string                 `json:"next_cursor,omitempty" doc:"Cursor of the next page; absent on the last one."`
}

func (a *api) sessions(ctx context.Context, in *sessionsInput) (*sessionsAnswer, error) {
	f := projections.SessionFilter{Cursor: in.Cursor}
	switch {
	case in.Kind == "" && in.Names.Set:
		return nil, invalid("kind", "names needs kind: all, named, logical or acp")
	case in.Kind != "" && !slices.Contains([]string{"all", "named", "logical", "acp"}, in.Kind):
		return nil, invalid("kind", `kind must be all, named, logical or acp, not "%s"`, ledger.Excerpt(in.Kind))
	case in.Kind != "all":
		f.Kind = events.SessionKind(in.Kind)
	}
	if in.Limit.Set {
		if f := checkRange("limit", in.Limit.Value, 1, projections.MaxListLimit); f != nil {
			return nil, f
		}
		f.Limit = in.Limit.Value
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	tenant, out := requestOf(ctx).tenant, &sessionsAnswer{}
	out.Body.Sessions = []string{}
	var err error
	if in.Kind == "" {
		out.Body.Sessions, out.Body.NextCursor, err = a.q.SessionNames(ctx, tenant, in.Limit.or(0), in.Cursor)
		return out, err
	}
	if in.Names.or(true) {
		if out.Body.Sessions, _, err = a.q.SessionNames(ctx, tenant, 0, ""); err != nil {
			return nil, err
		}
	}
	page, err := a.q.SessionList(ctx, tenant, f)
	out.Body.Items, out.Body.NextCursor = &page.Items, page.NextCursor
	return out, err
}

// OneSession is embedded in the inputs of operations on one session.
type OneSession struct {
	Name string `path:"name" doc:"Name, id, intent, ref, or a unique prefix."`
}

func (in OneSession) about() subject { return subject{"session", "Session", in.Name} }

type getSessionInput struct {
	Reading
	OneSession
}

type getSessionAnswer struct{ Body projections.Session }

func (a *api) getSession(ctx context.Context, in *getSessionInput) (*getSessionAnswer, error) {
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	s, err := a.session(ctx, in.Name)
	return &getSessionAnswer{s}, err
}

// entry is a session entry, reduced to the requested fields.
type entry struct {
	Index       *int64         `json:"index,omitempty" doc:"Index of the entry, from 0."`
	ExecutionID *string        `json:"execution_id,omitempty"`
	Status      *events.Status `json:"status,omitempty"`
	InputHeap   **string       `json:"input_heap,omitempty" doc:"The heap that was restored; null for a fresh isolate."`
	OutputHeap  **string       `json:"output_heap,omitempty" doc:"The heap that the run left; null if it left none."`
	Code        *string        `json:"code,omitempty"`
	Timestamp   *string        `json:"timestamp,omitempty" doc:"Time when the run ended."`
	Artifacts   int64          `json:"artifacts,omitempty" doc:"Number of artifacts that the run created; absent if there is none."`
}

// entryFields has the functions that set the fields of an entry, by name.
var entryFields = map[string]func(*entry, *projections.Entry){
	"index":        func(e *entry, from *projections.Entry) { e.Index = &from.Index },
	"execution_id": func(e *entry, from *projections.Entry) { e.ExecutionID = &from.ExecutionID },
	"status":       func(e *entry, from *projections.Entry) { e.Status = &from.Status },
	"input_heap":   func(e *entry, from *projections.Entry) { e.InputHeap = &from.InputHeap },
	"output_heap":  func(e *entry, from *projections.Entry) { e.OutputHeap = &from.OutputHeap },
	"code":         func(e *entry, from *projections.Entry) { e.Code = &from.Code },
	"timestamp":    func(e *entry, from *projections.Entry) { e.Timestamp = &from.Timestamp },
	"artifacts":    func(e *entry, from *projections.Entry) { e.Artifacts = from.Artifacts },
}

type entriesInput struct {
	Reading
	OneSession
	Limit  optional[int] `query:"limit" doc:"Maximum number of entries."`
	Cursor string        `query:"cursor" doc:"next_cursor of the previous page."`
	Fields string        `query:"fields" doc:"Only these fields, separated by commas: index, execution_id, status, input_heap, output_heap, code, timestamp, artifacts."`
}

// sessionLog documents the response, which is written in pieces.
type sessionLog struct {
	Entries    []entry              `json:"entries"`
	Session    *projections.Session `json:"session,omitempty" doc:"The session that name identifies; absent if there is none."`
	NextCursor string               `json:"next_cursor,omitempty"`
}

func (a *api) entries(ctx context.Context, in *entriesInput) (*streamed, error) {
	fields, f := fieldNames(in.Fields)
	if f != nil {
		return nil, f
	}
	limit, from, f := in.page()
	if f != nil {
		return nil, f
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	s, err := a.session(ctx, in.Name)
	if errors.Is(err, events.ErrNotFound) {
		return stream(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, sessionLog{Entries: []entry{}}) }), nil
	}
	if err != nil {
		return nil, err
	}
	return stream(func(w http.ResponseWriter, r *http.Request) {
		list := startArray(w, r)
		list.prefix = `{"entries":[`
		var next string
		err := a.q.ForEachEntry(ctx, requestOf(ctx).tenant, s, from, func(from projections.Entry) error {
			if limit == 0 {
				next = `,"next_cursor":"` + strconv.FormatInt(from.Index, 10) + `"`
				return errPageComplete
			}
			limit--
			var e entry
			for _, name := range fields {
				entryFields[name](&e, &from)
			}
			return list.add(e)
		})
		if err == nil || errors.Is(err, errPageComplete) {
			// ForEachEntry waits for the entries of ended runs. These entries change the session,
			// so the session is read again.
			if s, err = a.session(ctx, s.SessionID); err == nil {
				var raw bytes.Buffer
				err = encoder(&raw).Encode(s)
				list.suffix = `],"session":` + strings.TrimSuffix(raw.String(), "\n") + next + "}\n"
			}
		}
		a.endArray(ctx, list, err)
	}), nil
}

// page returns the maximum number of entries, negative without one, and the index of the first.
func (in *entriesInput) page() (limit int, from int64, f *failure) {
	limit = -1
	if in.Limit.Set {
		if f := checkRange("limit", in.Limit.Value, 1, maxListLimit); f != nil {
			return 0, 0, f
		}
		limit = in.Limit.Value
	}
	if in.Cursor != "" {
		n, err := strconv.ParseInt(in.Cursor, 10, 64)
		if err != nil || n < 0 {
			return 0, 0, invalid("cursor", `cursor must be the next_cursor of a page, not "%s"`, ledger.Excerpt(in.Cursor))
		}
		from = n
	}
	return limit, from, nil
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
