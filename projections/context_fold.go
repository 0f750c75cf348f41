package projections

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"daybook/events"
)

// Bounds of a conversation context. At summarizeAt calls, all but the last keepCalls
// are replaced by a summary.
const (
	summarizeAt     = 15
	keepCalls       = 10
	maxSummaryBytes = 8 << 10
	maxResources    = 200
	maxPriorCalls   = 200
	// maxCallSummary limits the stored outcome of a call, in characters.
	maxCallSummary = 280
	// maxCodeExcerpt limits the stored code of a run, in characters.
	maxCodeExcerpt = 200
	// notableCalls is the number of results that a summary quotes.
	notableCalls = 3
)

// contextRow is a stored conversation context.
type contextRow struct {
	events.ContextRef
	createdAt, updatedAt, usedAt int64 // milliseconds since 1970 UTC
	running                      int
	seq                          uint64
	contextBody
	bytes int
	// isRemoved is true for a row to be removed; the next event creates the context
	// again. isStored is true if the table has a row of the context.
	isRemoved, isStored bool
}

// contextBody is the content of a conversation context. A reset clears it.
type contextBody struct {
	Preferences events.UserPreferences     `json:"preferences,omitzero"`
	Custom      map[string]json.RawMessage `json:"custom,omitempty"`
	Calls       []keptCall                 `json:"calls,omitempty"`
	Resources   []FetchedResource          `json:"resources,omitempty"`
	PriorCalls  []PriorCall                `json:"tried,omitempty"`
	Summary     string                     `json:"summary,omitempty"`
	WindowStart int                        `json:"window_start,omitempty"`
	// KeyIDs holds the content keys of the encrypted runs that the context lists.
	KeyIDs []string `json:"sealed,omitempty"`
	// NoteKeyIDs holds the content keys of the notes of the context, and ValuesKeyID that of
	// the edit that set Preferences and Custom, or is empty.
	NoteKeyIDs  []string `json:"notes_sealed,omitempty"`
	ValuesKeyID string   `json:"values_sealed,omitempty"`
}

// keptCall is a call as stored, with the hash that identifies it.
type keptCall struct {
	ToolCallRecord
	ArgsSHA256 string `json:"args_sha256"`
	// HostCall is the number of a host call of the run, or 0 for a call of the client.
	HostCall int `json:"host_call,omitempty"`
}

func (b *contextBody) isEmpty() bool {
	return b.Preferences == (events.UserPreferences{}) && len(b.Custom)+len(b.Calls)+len(b.Resources)+len(b.PriorCalls) == 0
}

// toState returns the row as a ContextState.
func (r *contextRow) toState() ContextState {
	c := Context{
		SchemaVersion: contextSchemaVersion, SessionID: r.SessionID,
		CreatedAt: formatMillis(r.createdAt), LastUpdatedAt: formatMillis(r.updatedAt),
		UserPreferences: r.Preferences, RecentToolCalls: make([]ToolCallRecord, len(r.Calls)),
		FetchedResources: append([]FetchedResource{}, r.Resources...), Custom: r.Custom,
		SummaryBeforeWindow: r.Summary, WindowStartIndex: r.WindowStart,
	}
	for i, call := range r.Calls {
		c.RecentToolCalls[i] = call.ToolCallRecord
	}
	if c.Custom == nil {
		c.Custom = map[string]json.RawMessage{}
	}
	return ContextState{
		ContextRef: r.ContextRef, Context: c, PriorCalls: r.PriorCalls, UsedAt: time.UnixMilli(r.usedAt).UTC(),
		Running: r.running, Empty: r.isEmpty(), Seq: r.seq, Bytes: r.bytes,
	}
}

// reset makes the context a new one.
func (r *contextRow) reset(at time.Time) {
	r.contextBody = contextBody{}
	r.createdAt, r.updatedAt = at.UnixMilli(), at.UnixMilli()
}

// forget erases runs, answers and resources from the context, some of which are
// shredded. It keeps the values that the client has set.
func (b *contextBody) forget() {
	*b = contextBody{Preferences: b.Preferences, Custom: b.Custom, ValuesKeyID: b.ValuesKeyID}
}

// forgetValues erases the values that the client has set, which are shredded.
func (b *contextBody) forgetValues() {
	b.Preferences, b.Custom, b.ValuesKeyID = events.UserPreferences{}, nil, ""
}

// addNoteKey adds the content key of a note.
func (b *contextBody) addNoteKey(key string) {
	if key != "" && !slices.Contains(b.NoteKeyIDs, key) {
		b.NoteKeyIDs = append(b.NoteKeyIDs, key)
	}
}

// addKey adds the content key of a run that the context lists.
func (b *contextBody) addKey(key string) {
	if key != "" && !slices.Contains(b.KeyIDs, key) {
		b.KeyIDs = append(b.KeyIDs, key)
	}
}

// touch records a use of the context.
func (r *contextRow) touch(at time.Time) { r.usedAt = max(r.usedAt, at.UnixMilli()) }

// touchUpdated records a change of the context.
func (r *contextRow) touchUpdated(at time.Time) {
	r.touch(at)
	r.updatedAt = max(r.updatedAt, at.UnixMilli())
}

// addCall adds a call, and summarizes the oldest ones if there are many. Calls are
// ordered by their time: notes are recorded in batches, and therefore after runs that
// were requested later.
func (b *contextBody) addCall(c keptCall) {
	at := len(b.Calls)
	for at > 0 && b.Calls[at-1].CalledAt > c.CalledAt { // all times have the same form
		at--
	}
	if last := at - 1; last >= 0 && c.ExecutionID == "" && b.Calls[last].ExecutionID == "" && b.Calls[last].ArgsSHA256 == c.ArgsSHA256 {
		c.Times = max(b.Calls[last].Times, 1) + max(c.Times, 1)
		b.Calls[last] = c
		return
	}
	b.Calls = slices.Insert(b.Calls, at, c)
	if len(b.Calls) < summarizeAt {
		return
	}
	old := b.Calls[:len(b.Calls)-keepCalls]
	b.WindowStart += len(old)
	b.Summary = joinSummaries(b.Summary, sumUp(old), b.WindowStart)
	b.Calls = slices.Clone(b.Calls[len(old):])
}

// sumUp summarizes calls in some lines.
func sumUp(calls []keptCall) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Summary of %d earlier tool calls (%s to %s):", len(calls), calls[0].CalledAt, calls[len(calls)-1].CalledAt)
	var tools []string
	times := map[string]int{}
	for _, c := range calls {
		if times[c.Tool] == 0 {
			tools = append(tools, c.Tool)
		}
		times[c.Tool] += max(c.Times, 1)
	}
	for _, tool := range tools {
		plural := "s"
		if times[tool] == 1 {
			plural = ""
		}
		fmt.Fprintf(&b, "\n  - %s: called %d time%s", tool, times[tool], plural)
	}
	notable := 0
	for _, c := range calls {
		if c.ResultSummary != "" && notable < notableCalls {
			fmt.Fprintf(&b, "\n  - %s result: %s", c.Tool, c.ResultSummary)
			notable++
		}
	}
	return b.String()
}

// joinSummaries appends a summary to earlier ones. If the result is too long, the
// oldest summaries are replaced by a count.
func joinSummaries(before, next string, calls int) string {
	var parts []string
	if before != "" {
		parts = strings.Split(before, "\n\n")
	}
	isCounted := len(parts) > 0 && strings.HasPrefix(parts[0], countedPrefix)
	if isCounted {
		parts = parts[1:]
	}
	parts = append(parts, next)
	for {
		all := strings.Join(parts, "\n\n")
		if isCounted {
			all = fmt.Sprintf(countedPrefix+"%d earlier tool calls only the last are told here.\n\n", calls) + all
		}
		if len(all) <= maxSummaryBytes || len(parts) == 1 {
			return all
		}
		parts, isCounted = parts[1:], true
	}
}

// countedPrefix is the prefix of the line that replaces omitted summaries.
const countedPrefix = "Of "

// addResource adds a resource, or replaces an earlier version of it.
func (b *contextBody) addResource(r FetchedResource) {
	b.Resources = slices.DeleteFunc(b.Resources, func(have FetchedResource) bool { return have.ResourceID == r.ResourceID })
	b.Resources = append(b.Resources, r)
	if excess := len(b.Resources) - maxResources; excess > 0 {
		b.Resources = slices.Clone(b.Resources[excess:])
	}
}

// addPriorCall adds a call to the prior calls.
func (b *contextBody) addPriorCall(t PriorCall) {
	t.Times = max(t.Times, 1)
	if i := slices.IndexFunc(b.PriorCalls, func(have PriorCall) bool { return have.ArgsSHA256 == t.ArgsSHA256 }); i >= 0 {
		t.Times += b.PriorCalls[i].Times
		b.PriorCalls = slices.Delete(b.PriorCalls, i, i+1)
	}
	b.PriorCalls = append(b.PriorCalls, t)
	if excess := len(b.PriorCalls) - maxPriorCalls; excess > 0 {
		b.PriorCalls = slices.Clone(b.PriorCalls[excess:])
	}
}

// addRequest adds the call that submitted a run.
func (b *contextBody) addRequest(e *events.Event, d *events.ExecutionRequested) {
	content := d.Content.Value()
	source := content.Source.Text
	if content.Source.Blob != nil {
		source = content.Source.Blob.Preview
	}
	args := map[string]json.RawMessage{"code": quoteJSON(excerpt(source, maxCodeExcerpt))}
	if d.Heap != "" {
		args["heap"] = quoteJSON(d.Heap)
	}
	at := events.FormatTime(e.Time)
	const summary = "running"
	b.addCall(keptCall{ArgsSHA256: d.RequestSHA256, ToolCallRecord: ToolCallRecord{
		Tool: runTool, Args: args, CalledAt: at, ResultSummary: summary, ExecutionID: d.ExecutionID,
	}})
	if d.Turn != nil {
		return // its start differs from turn to turn
	}
	b.addPriorCall(PriorCall{
		ArgsSHA256: d.RequestSHA256, Tool: runTool, CalledAt: at, Summary: summary, ExecutionID: d.ExecutionID, Status: events.StatusRunning,
		Reusable: content.Tags == nil && len(d.Warnings) == 0,
	})
}

// runTool is the tool that submits runs, for any submitter.
const runTool = "run_js"

// applyEnd sets the outcome of a run.
func (b *contextBody) applyEnd(status events.Status, d *events.Ending) {
	summary := summarizeOutcome(status, d)
	for i := range b.Calls {
		switch c := &b.Calls[i]; {
		case c.ExecutionID != d.ExecutionID:
		case c.HostCall == 0:
			c.ResultSummary = summary
		case c.ResultSummary == hostPending:
			c.ResultSummary = hostUnanswered
		}
	}
	for i := range b.PriorCalls {
		if b.PriorCalls[i].ExecutionID == d.ExecutionID {
			t := &b.PriorCalls[i]
			t.Summary, t.Status = summary, status
			// A run that ended for another reason may end differently the next time.
			t.Reusable = t.Reusable && (status == events.StatusCompleted || status == events.StatusFailed && d.Reason == reasonException)
			break
		}
	}
}

// reasonException is the reason of a run whose script threw.
const reasonException = "exception"

func summarizeOutcome(status events.Status, d *events.Ending) string {
	content := d.Content.Value()
	text := content.Result
	if status != events.StatusCompleted {
		text = content.Error
	}
	if text == nil {
		return string(status)
	}
	said := text.Text
	if text.Blob != nil {
		said = text.Blob.Preview
	}
	return excerpt(string(status)+": "+said, maxCallSummary)
}

// excerpt returns the beginning of a text in one line.
func excerpt(s string, limit int) string {
	const margin = 4 // bytes of the longest character
	if len(s) > limit*margin*2 {
		s = s[:limit*margin*2]
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

func quoteJSON(s string) json.RawMessage { return json.RawMessage(asJSON(s)) }
