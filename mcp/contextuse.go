package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/projections"
)

// contextUse is what one call takes from its conversation context and adds to it. Errors
// of the context are logged and never fail the call.
type contextUse struct {
	key       contextstore.Key
	startedAt time.Time
	prefs     events.UserPreferences
	prior     *priorRun
}

// priorRun reports an earlier equal call and its outcome.
type priorRun struct {
	Note        string        `json:"note"`
	CalledAt    string        `json:"called_at"`
	Times       int           `json:"times"`
	Summary     string        `json:"summary,omitempty"`
	Results     *int64        `json:"results,omitempty"`
	ExecutionID string        `json:"execution_id,omitempty"`
	Status      events.Status `json:"status,omitempty"`
	Result      *string       `json:"result,omitempty"`
	Error       *string       `json:"error,omitempty"`
	Heap        *string       `json:"heap,omitempty"`
	// Reused is true if the earlier run is the answer and no run was started.
	Reused bool `json:"reused,omitempty"`

	sha256 string
}

// Members of answers and keys of their _meta.
const (
	memberTried = "already_tried"
	metaFetched = "daybook/already_fetched"
	// maxTriedResult bounds the result of an earlier run in an answer, in bytes.
	maxTriedResult = 4 << 10
)

// isNoted reports whether calls of the tool are noted in conversation contexts: calls that
// change something, and searches, so that a repeated search can be reported. Other reads
// are not noted, because clients poll with them.
func (t tool) isNoted() bool { return !t.readOnly || t.reportsRepeats }

// beginContextUse prepares the use of the conversation context by a call: it applies the
// preferences and looks up an earlier equal call. It returns nil if the call uses no
// context, or if the context cannot be read.
func (s *Server) beginContextUse(ctx context.Context, c caller, t tool, a arguments) *contextUse {
	if s.opts.Contexts == nil || t.skipContext || t.submit != nil {
		return nil
	}
	u := &contextUse{key: c.contextKey(s.tenant, ""), startedAt: time.Now()}
	if u.key.IsZero() {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, contextWait)
	defer stop()
	var err error
	if u.prefs, err = s.opts.Contexts.Preferences(ctx, u.key, t.name); err != nil {
		s.contextFault(ctx, t.name, err)
		return nil
	}
	if limit, ok := t.property("limit"); ok && u.prefs.MaxResults > 0 && !a.has("limit") {
		a["limit"] = min(int64(u.prefs.MaxResults), limit.max)
	}
	if !t.reportsRepeats {
		return u
	}
	before, err := s.opts.Contexts.PriorCall(ctx, u.key, t.name, s.opts.Contexts.CallHash(t.name, a))
	if err != nil {
		s.contextFault(ctx, t.name, err)
	}
	if before != nil {
		u.prior = toPriorRun(before)
		if u.prior.Note = "already tried"; before.Results != nil {
			u.prior.Note = fmt.Sprintf("already tried, returned %d results", *before.Results)
		}
	}
	return u
}

// format returns the client's preferred text format; empty means JSON.
func (u *contextUse) format() string {
	if u == nil {
		return ""
	}
	return u.prefs.OutputFormat
}

func toPriorRun(t *projections.PriorCall) *priorRun {
	return &priorRun{
		CalledAt: t.CalledAt, Times: t.Times, Summary: t.Summary, Results: t.Results,
		ExecutionID: t.ExecutionID, Status: t.Status, sha256: t.ResultSHA256,
	}
}

func (t tool) property(name string) (property, bool) {
	for _, p := range t.input {
		if p.name == name {
			return p, true
		}
	}
	return property{}, false
}

// counted is an answer with a list.
type counted interface{ count() int }

func (h heapsAnswer) count() int   { return len(h.Results) }
func (e entriesAnswer) count() int { return len(e.Entries) }

// endContextUse notes a call in its conversation context. It returns body, with a member
// added if an equal call returned the same answer before. Calls of tools without isNoted
// are not noted. Refused calls are not noted either: endContextUse is not called for them.
func (s *Server) endContextUse(ctx context.Context, u *contextUse, t tool, a arguments, ans answer, body []byte) []byte {
	if u == nil || !t.isNoted() {
		return body
	}
	call := contextstore.Call{
		Tool: t.name, Arguments: a, IsCommand: !t.readOnly, CalledAt: u.startedAt, Summary: summaryOf(ans, body), ResultSHA256: events.Hash(body),
		// The note of a recorded command is durable before the client gets the answer.
		Durable: ans.seq != 0,
	}
	if list, ok := ans.value.(counted); ok {
		n := int64(list.count())
		call.Results = &n
	}
	// The call took effect, also if the client has disconnected.
	noting, stop := context.WithTimeout(context.WithoutCancel(ctx), timeLeft(u.startedAt))
	defer stop()
	if err := s.opts.Contexts.Note(noting, u.key, call); err != nil {
		s.contextFault(ctx, t.name, err)
	}
	if u.prior == nil || u.prior.sha256 != call.ResultSHA256 {
		return body // the answer has changed since
	}
	extended, err := withMember(body, memberTried, u.prior)
	if err != nil {
		return body
	}
	return extended
}

// summaryOf returns a summary of an answer in one line.
func summaryOf(ans answer, body []byte) string {
	switch v := ans.value.(type) {
	case heapsAnswer:
		return plural(len(v.Results), "heap")
	case entriesAnswer:
		return plural(len(v.Entries), "entry", "entries")
	case projections.ExecutionPage:
		return plural(len(v.Executions), "execution")
	case fullAnswer:
		return summaryOf(answer{value: v.executionAnswer}, nil)
	case executionAnswer:
		said := "status " + string(v.Status)
		switch {
		case v.Result != nil:
			said += ", result " + *v.Result
		case v.Error != nil:
			said += ", error " + *v.Error
		}
		return oneLine(said)
	case okAnswer:
		if !v.OK {
			return oneLine(string(body))
		}
		return "done"
	default:
		return oneLine(string(body))
	}
}

func plural(n int, word string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + word
	case len(many) > 0:
		return fmt.Sprintf("%d %s", n, many[0])
	default:
		return fmt.Sprintf("%d %ss", n, word)
	}
}

// oneLine returns a text in one line, cut to 1 KiB.
func oneLine(s string) string {
	const most = 1 << 10 // the context cuts it again
	if len(s) > most {
		n := most
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return collapse(s)
}

// runContext sets the conversation context of a submission. It returns an earlier equal
// run in that conversation context, or nil.
func (s *Server) runContext(ctx context.Context, c caller, sub *ledger.Submission) *priorRun {
	if s.opts.Contexts == nil {
		return nil
	}
	k := c.contextKey(s.tenant, sub.LogicalSession)
	if k.IsZero() {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, contextWait)
	defer stop()
	ref, err := s.opts.Contexts.Ref(ctx, k)
	if err != nil {
		s.contextFault(ctx, "run_js", err)
		return nil
	}
	sub.Context = &ref
	if sub.LogicalSession != "" {
		return nil // every turn starts from another heap
	}
	before, err := s.opts.Contexts.PriorCall(ctx, k, "run_js", ledger.RequestSHA256(*sub))
	if err != nil {
		s.contextFault(ctx, "run_js", err)
	}
	if before == nil || before.ExecutionID == "" {
		return nil
	}
	t := toPriorRun(before)
	t.Note = "already tried: the same code on the same heap"
	// Runs without a heap that started before the server had modules do not depend on any, but
	// an equal run may now.
	getsModules := sub.Heap == ledger.HeapNone && len(s.opts.WASMModules) > 0
	t.Reused = before.Reusable && !getsModules // the earlier run can be reused; submitRun decides whether it is
	s.addOutcome(ctx, t)
	return t
}

// noteReuse notes a call that was answered with an earlier run. Other calls of run_js need
// no note, because the recorded request shows them.
func (s *Server) noteReuse(ctx context.Context, c caller, a arguments, before *priorRun) {
	err := s.opts.Contexts.Note(context.WithoutCancel(ctx), c.contextKey(s.tenant, ""), contextstore.Call{
		Tool: "run_js", Arguments: a, CalledAt: time.Now(), Summary: "answered with execution " + before.ExecutionID, Durable: true,
	})
	if err != nil {
		s.contextFault(ctx, "run_js", err)
	}
}

// addOutcome adds the recorded outcome of an earlier run.
func (s *Server) addOutcome(ctx context.Context, t *priorRun) {
	d, err := s.execution(ctx, t.ExecutionID)
	if err != nil {
		if !errors.Is(err, events.ErrNotFound) {
			s.contextFault(ctx, "run_js", err)
		}
		return
	}
	t.Status, t.Heap, t.Summary = d.Status, d.Heap, ""
	t.Result, t.Error = beginningOf(d.Result), beginningOf(d.Error)
}

func beginningOf(s *string) *string {
	if s == nil || len(*s) <= maxTriedResult {
		return s
	}
	n := maxTriedResult
	for n > 0 && !utf8.RuneStart((*s)[n]) {
		n--
	}
	short := (*s)[:n] + "… (get_execution has all of it)"
	return &short
}

// contextFault logs that a conversation context could not be used. The call continues.
func (s *Server) contextFault(ctx context.Context, tool string, err error) {
	if ctx.Err() == nil {
		s.logger.WarnContext(ctx, "conversation context", "tool", tool, "err", err)
	}
}

// fetchedMeta reports that a resource was read before.
type fetchedMeta struct {
	Note       string `json:"note"`
	DocumentID string `json:"document_id"`
	FetchedAt  string `json:"fetched_at"`
	Summary    string `json:"summary"`
	// Unchanged is nil if the context holds no hash of the earlier content.
	Unchanged *bool `json:"unchanged,omitempty"`
}

// noteRead notes a read resource in the conversation context of the connection. It returns
// the report of an earlier read, or nil.
func (s *Server) noteRead(ctx context.Context, r resource, uri, text string) *fetchedMeta {
	if s.opts.Contexts == nil || r.skipContext {
		return nil
	}
	o, _ := ctx.Value(originKey{}).(origin)
	id, _ := access.From(ctx)
	k := caller{session: o.session, connection: o.connection, principal: id.TokenUser()}.contextKey(s.tenant, "")
	if k.IsZero() {
		return nil
	}
	before, err := s.opts.Contexts.PriorRead(ctx, k, "resources/read", uri)
	if err == nil && !isRecentReread(before, text) {
		err = s.opts.Contexts.NoteResource(context.WithoutCancel(ctx), k, contextstore.Resource{ID: uri, Type: r.contextType(), Content: text, FetchedAt: time.Now()})
	}
	if err != nil {
		s.contextFault(ctx, "resources/read", err)
	}
	if before == nil {
		return nil
	}
	meta := &fetchedMeta{Note: "document_already_fetched_this_session", DocumentID: uri, FetchedAt: before.FetchedAt, Summary: before.Summary}
	if before.ContentHash != "" {
		meta.Unchanged = new(before.ContentHash == events.Hash([]byte(text)))
	}
	return meta
}

// rereadInterval is the minimum time between two notes of the same content of a
// resource.
const rereadInterval = time.Minute

// isRecentReread reports whether a resource with the same content was read within
// rereadInterval, so that the context needs no further note.
func isRecentReread(before *projections.FetchedResource, text string) bool {
	if before == nil || before.ContentHash != "" && before.ContentHash != events.Hash([]byte(text)) {
		return false
	}
	at, err := time.Parse(time.RFC3339, before.FetchedAt)
	return err == nil && time.Since(at) < rereadInterval
}

// contextType returns the type of a resource in contexts.
func (r resource) contextType() string {
	if r.mime == jsonType && r.scheme != "session://" {
		return "database_row"
	}
	return "document"
}
