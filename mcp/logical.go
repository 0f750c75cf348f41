package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/internal/tools/catalog"
	"daybook/ledger"
)

// LogicalCommands is the write side of logical sessions. *ledger.Ledger implements it.
type LogicalCommands interface {
	OpenSession(ctx context.Context, o ledger.Opening) (ledger.OpenResult, error)
	ExpandSession(ctx context.Context, t ledger.Expansion) (ledger.ExpansionResult, error)
	AssignRef(ctx context.Context, tenant, holder, session string) (ref string, seq uint64, err error)
	ResetSession(ctx context.Context, r ledger.Reset) (ledger.ResetResult, error)
	ResolveRef(ctx context.Context, tenant, holder, ref string) (session string, err error)
}

// Catalog lists the APIs that code of a tenant may use. *catalog.Catalog implements it.
type Catalog interface {
	Snapshot(ctx context.Context, tenant string) *catalog.Snapshot
}

const (
	// metaSession is the key in a result's _meta under which open_session reports the
	// session's continuity.
	metaSession = "daybook/session"
	// maxDiscovered bounds the entries in an answer.
	maxDiscovered = 50
)

var intentProperty = property{name: "intent", kind: text, required: true, description: "same text, same session"}

func (s *Server) logicalTools() []tool {
	return []tool{
		{
			name: "discover_tools", title: "Discover tools", readOnly: true, idempotent: true,
			description: "Find APIs for code, as seeds for open_session.",
			input:       []property{{name: "intent", kind: text, required: true, description: "the whole task"}, {name: "query", kind: text}},
			output:      objectSchema(listField("entries", objectSchema(typedField("id", "string"), typedField("summary", "string"))), typedField("total", "integer"), typedField("more", "boolean"), optionalField(typedField("notice", "string"))),
			call:        s.discover,
		},
		{
			name: "open_session", title: "Open session", idempotent: true,
			description: "Open or extend a session for run_js: each run continues from the last one. " +
				"Returns declarations of new seeds.",
			input: []property{
				intentProperty,
				{name: "seeds", kind: textList, required: true},
				{name: "registry_aliases", kind: textMap},
			},
			output: objectSchema(typedField("logical_session_ref", "string"), typedField("table", "string"), optionalField(typedField("notice", "string"))),
			call:   s.openSession,
		},
	}
}

type discoveredAnswer struct {
	Entries []discoveredEntry `json:"entries"`
	// Total is the number of matches. More is true if Entries holds only a part of them.
	Total int  `json:"total"`
	More  bool `json:"more"`
	// Notice lists the sources if nothing matches, or if the list is cut.
	Notice string `json:"notice,omitempty"`
}

type discoveredEntry struct {
	ID      string `json:"id"`
	Summary string `json:"summary"`
}

func (s *Server) discover(ctx context.Context, _ caller, a arguments) (answer, error) {
	if err := ledger.CheckIntent(a.text("intent")); err != nil {
		return answer{}, err
	}
	now := s.opts.Catalog.Snapshot(ctx, s.tenant)
	found := now.Search(a.text("intent"), a.text("query"), maxDiscovered)
	list := discoveredAnswer{Entries: []discoveredEntry{}, Total: found.Total, More: found.Total > len(found.Entries)}
	for _, e := range found.Entries {
		list.Entries = append(list.Entries, discoveredEntry{e.ID, e.Summary})
	}
	switch {
	case found.Total == 0:
		list.Notice = "Nothing matches. " + sourceList(now) + " Try other words, or take a source as a seed."
	case list.More:
		list.Notice = "Add a query to narrow the list. " + sourceList(now)
	}
	return answer{value: list}, nil
}

// sourceList lists the sources of the catalog, at most 20.
func sourceList(now *catalog.Snapshot) string {
	const most = 20
	list := now.Offers()
	var b strings.Builder
	b.WriteString("Sources: ")
	for i, o := range list[:min(len(list), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%d)", clip(o.Source), o.Entries)
	}
	if len(list) > most {
		fmt.Fprintf(&b, " and %d more", len(list)-most)
	}
	return b.String() + "."
}

// openedAnswer is the answer of open_session.
type openedAnswer struct {
	Ref    string `json:"logical_session_ref"`
	Table  string `json:"table"`
	Notice string `json:"notice,omitempty"`
}

// sessionMeta reports the continuity of a session: whether its state and its symbols are
// still those that the client knows.
type sessionMeta struct {
	Ref            string     `json:"logical_session_ref"`
	Continuity     continuity `json:"continuity"`
	DomainRevision int64      `json:"domain_revision"`
	// Relations maps the symbols in the answer to ids of catalog entries.
	Relations map[string]string `json:"relations,omitempty"`
}

type continuity struct {
	// StaleBindingRecovered is true if the state of the session was lost, so that the next
	// run starts from a fresh isolate.
	StaleBindingRecovered bool `json:"stale_binding_recovered"`
	// NewSymbolSpace is true if no earlier symbol is valid: in the first answer of a
	// session, and after its state, sources, engine or principal changed.
	// DiscardCachedSymbols always equals it; some clients look for that name.
	NewSymbolSpace       bool `json:"new_symbol_space"`
	DiscardCachedSymbols bool `json:"discard_cached_symbols"`
	// PreviousExecute is the lost state; nil if StaleBindingRecovered is false.
	PreviousExecute *previousExecute `json:"previous_execute,omitempty"`
}

// previousExecute is the heap that can no longer be restored, and the execution that
// produced it.
type previousExecute struct {
	Heap        string `json:"heap"`
	ExecutionID string `json:"execution_id,omitempty"`
}

func (s *Server) openSession(ctx context.Context, c caller, a arguments) (answer, error) {
	asked := catalog.Opening{
		Opening: ledger.Opening{Tenant: s.tenant, Intent: a.text("intent"), Actor: c.actor, Traceparent: c.traceparent},
		Seeds:   a.textList("seeds"), Aliases: a.textMap("registry_aliases"),
	}
	if slices.Contains(asked.Seeds, "") {
		return answer{}, ledger.Invalid("seeds", "seeds must not contain an empty text: take ids from discover_tools")
	}
	o, err := catalog.Open(ctx, s.opts.Catalog, s.opts.Commands, asked)
	if err != nil {
		return answer{}, seedsError(err)
	}
	ref, named, err := s.opts.Commands.AssignRef(ctx, s.tenant, c.holder(s.tenant), o.SessionID)
	if err != nil {
		return answer{}, err
	}
	return answer{
		value: openedAnswer{Ref: ref, Table: table(o), Notice: notice(o.Taught)},
		seq:   max(o.Recorded, named),
		meta:  sdk.Meta{metaSession: metaOf(ref, o.Taught)},
	}, nil
}

// seedsError returns the error of the tool for an error of catalog.Open. It changes only
// errors about seeds.
func seedsError(err error) error {
	var count *catalog.SeedsError
	var unknown *catalog.UnknownError
	switch {
	case errors.As(err, &count) && count.Count == 0:
		return ledger.Invalid("seeds", "seeds must not be empty: take ids from discover_tools, for example %q", catalog.BuiltinSource)
	case errors.As(err, &count):
		return ledger.Invalid("seeds", "seeds must be at most %d, not %d: name a whole source, such as %q", catalog.MaxSeeds, count.Count, catalog.BuiltinSource)
	case errors.As(err, &unknown):
		near := make([]string, len(unknown.Near))
		for i, n := range unknown.Near {
			near[i] = clip(n)
		}
		return ledger.Invalid("seeds", "seeds: %s does not exist; existing names: %s; find others with discover_tools", quote(unknown.Seed), strings.Join(near, ", "))
	default:
		return err
	}
}

// table returns the declarations that are new to the session, or one line if there are
// none.
func table(o catalog.OpenResult) string {
	all := o.Taught.All
	if len(o.Taught.Added) == 0 {
		return fmt.Sprintf("_Session unchanged (`%s`…`%s`). Use `run_js` with this logical_session_ref._", all[0].Symbol, all[len(all)-1].Symbol)
	}
	return "```ts\n" + o.Offered.Table(o.Added()) + "```"
}

// notice returns the sentence about a break in the continuity of a session (see
// ledger.ExpandSession), or an empty text if there was none.
func notice(t ledger.ExpansionResult) string {
	switch {
	case t.BreakReason == "" || !t.NewSymbolSpace:
		return ""
	case t.StateLost:
		return "The state of this session could not be restored (" + t.BreakReason + "): it starts from a fresh isolate, with no variable, function or class of before. " +
			"All symbols given out before are void; read the table again."
	default:
		return "All symbols given out before are void (" + t.BreakReason + "); read the table again. The state of this session is kept."
	}
}

func metaOf(ref string, t ledger.ExpansionResult) sessionMeta {
	m := sessionMeta{Ref: ref, DomainRevision: t.Revision, Continuity: continuity{
		StaleBindingRecovered: t.NewSymbolSpace && t.StateLost,
		NewSymbolSpace:        t.NewSymbolSpace,
		DiscardCachedSymbols:  t.NewSymbolSpace,
	}}
	if m.Continuity.StaleBindingRecovered {
		m.Continuity.PreviousExecute = &previousExecute{Heap: t.PreviousHeap, ExecutionID: t.PreviousExecution}
	}
	for _, e := range t.Added {
		if m.Relations == nil {
			m.Relations = map[string]string{}
		}
		m.Relations[e.Symbol] = e.ID
	}
	return m
}

// holder returns the key under which refs are assigned. It is derived from the session
// name if the connection has one, else from the id of the connection if there is one, else
// from the principal.
func (c caller) holder(tenant string) string {
	kind, value := "principal", c.actor.Principal
	switch {
	case c.session != "":
		kind, value = "name", c.session
	case c.connection != "":
		kind, value = "connection", c.connection
	}
	return events.Hash([]byte("daybook ref\x00" + tenant + "\x00" + kind + "\x00" + value))
}

// sessionOf returns the id of the logical session that a call names, or an empty text if
// it names none.
func (s *Server) sessionOf(ctx context.Context, c caller, a arguments) (string, error) {
	ref := a.text("logical_session_ref")
	if ref == "" || events.ValidHash(ref) {
		return ref, nil
	}
	id, err := s.opts.Commands.ResolveRef(ctx, s.tenant, c.holder(s.tenant), ref)
	if codeOf(err) == ledger.CodeNotFound {
		return "", &ledger.Error{Code: ledger.CodeNotFound, Field: "logical_session_ref", Message: fmt.Sprintf(
			"logical_session_ref %s was not assigned to this client; call open_session, which returns one", quote(ref))}
	}
	return id, err
}
