package mcp

import (
	"context"
	"slices"
	"strings"

	"daybook/ledger"
	"daybook/projections"
)

// entryFields are the members of a session entry in their order. The first five are the
// default.
var entryFields = []string{"index", "input_heap", "output_heap", "code", "timestamp", "execution_id", "status"}

const defaultEntryFields = 5

// sessionNameMissing is the error in the only entry that a connection without a session
// name gets.
const sessionNameMissing = "no session name for this connection: send the header X-MCP-Session-Id on initialize (over stdio: start with --session-id)"

func (s *Server) sessionTools() []tool {
	return []tool{
		{
			name: "list_sessions", title: "List sessions", heavy: true, readOnly: true, idempotent: true,
			description: "List named sessions.",
			output:      objectSchema(listField("sessions", object{{"type", "string"}})),
			call:        s.listSessions,
		},
		{
			name: "list_session_snapshots", title: "List session log", heavy: true, readOnly: true, idempotent: true,
			description: "List this session's ended runs, oldest first; continue from the last non-null output_heap.",
			input:       []property{{name: "fields", kind: text, description: "comma-separated, of an entry"}},
			output: objectSchema(listField("entries", objectSchema(optionalField(typedField("index", "integer")), optionalField(nullableField("input_heap", "string")),
				optionalField(nullableField("output_heap", "string")), optionalField(typedField("code", "string")), optionalField(typedField("timestamp", "string")),
				optionalField(typedField("execution_id", "string")), optionalField(statusField()), optionalField(typedField("error", "string"))))),
			call: s.listEntries,
		},
	}
}

type sessionsAnswer struct {
	Sessions []string `json:"sessions"`
}

func (s *Server) listSessions(ctx context.Context, _ caller, _ arguments) (answer, error) {
	names, _, err := s.opts.Queries.SessionNames(ctx, s.tenant, 0, "")
	if err != nil {
		return answer{}, err
	}
	if names == nil {
		names = []string{}
	}
	return answer{value: sessionsAnswer{Sessions: names}}, nil
}

type entriesAnswer struct {
	Entries []object `json:"entries"`
}

func (s *Server) listEntries(ctx context.Context, c caller, a arguments) (answer, error) {
	fields, err := chooseFields(a)
	if err != nil {
		return answer{}, err
	}
	if c.session == "" {
		return answer{value: entriesAnswer{Entries: []object{{{"error", sessionNameMissing}}}}}, nil
	}
	entries, err := s.opts.Queries.Entries(ctx, s.tenant, c.session)
	if err != nil {
		return answer{}, err
	}
	return answer{value: entriesAnswer{Entries: showEntries(entries, fields)}}, nil
}

func showEntries(entries []projections.Entry, fields []string) []object {
	shown := make([]object, 0, len(entries))
	for _, e := range entries {
		o := make(object, 0, len(fields))
		for _, f := range fields {
			o = append(o, member{f, entryField(e, f)})
		}
		shown = append(shown, o)
	}
	return shown
}

// chooseFields returns the requested members, in the order of entryFields.
func chooseFields(a arguments) ([]string, error) {
	if !a.has("fields") {
		return entryFields[:defaultEntryFields], nil
	}
	asked := map[string]bool{}
	for f := range strings.SplitSeq(a.text("fields"), ",") {
		f = strings.TrimSpace(f)
		if !slices.Contains(entryFields, f) {
			return nil, ledger.Invalid("fields", "fields has no field %s; choose from %s, or leave fields out for the first five",
				quote(f), strings.Join(entryFields, ", "))
		}
		asked[f] = true
	}
	return slices.DeleteFunc(slices.Clone(entryFields), func(f string) bool { return !asked[f] }), nil
}

func entryField(e projections.Entry, name string) any {
	switch name {
	case "index":
		return e.Index
	case "input_heap":
		return e.InputHeap
	case "output_heap":
		return e.OutputHeap
	case "code":
		return e.Code
	case "timestamp":
		return e.Timestamp
	case "execution_id":
		return e.ExecutionID
	default:
		return e.Status
	}
}
