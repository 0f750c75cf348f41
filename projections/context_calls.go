package projections

import (
	"bytes"
	"encoding/json"
	"slices"

	"daybook/events"
	"daybook/internal/redact"
)

// HostToolPrefix begins the names that calls of scripts to MCP servers have in
// contexts; server and tool follow, with a dot between them.
const HostToolPrefix = "mcp."

const (
	// maxHostCalls is how many calls of one run a context tells of: a loop must not
	// drive out what the client itself did.
	maxHostCalls = 5
	// hostPending and hostUnanswered are what is told of calls without an answer,
	// while their run goes on and after it.
	hostPending    = "pending"
	hostUnanswered = "no answer on record"
)

// calledInContext notes a call of a run that was asked for in a context. Calls of
// runs whose content is encrypted are not told of.
func (a *applier) calledInContext(e *events.Event, d *events.HostCalled) error {
	r, told, err := a.contextOfRun(e.Tenant, d.ExecutionID)
	if err != nil || r == nil {
		return err
	}
	r.seq = e.Seq
	r.used(e.Time)
	if !told {
		return nil
	}
	r.dependent(d.ExecutionID)
	if events.SealedUnder(d) != "" {
		return nil
	}
	r.hostCalled(events.FormatTime(e.Time), d)
	r.updated(e.Time)
	return nil
}

// returnedInContext notes how it ended.
func (a *applier) returnedInContext(e *events.Event, d *events.HostReturned) error {
	r, told, err := a.contextOfRun(e.Tenant, d.ExecutionID)
	if err != nil || r == nil {
		return err
	}
	r.seq = e.Seq
	r.used(e.Time)
	if told && events.SealedUnder(d) == "" && r.hostReturned(d) {
		r.updated(e.Time)
	}
	return nil
}

// dependent notes that a run depends on more than its request: what it gave may
// be otherwise the next time.
func (b *contextBody) dependent(execution string) {
	for i := range b.Tried {
		if b.Tried[i].ExecutionID == execution {
			b.Tried[i].Reusable = false
			return
		}
	}
}

// hostCalled adds a call of a run. The same in a row is one, and of many only the
// last are kept.
func (b *contextBody) hostCalled(at string, d *events.HostCalled) {
	c := keptCall{ArgsSHA256: d.ArgumentsSHA256, HostCall: d.Number, ToolCallRecord: ToolCallRecord{
		Tool: HostToolPrefix + d.Server + "." + excerpt(d.Tool, redact.MaxChars), Args: hostArguments(d.Content.Value().Arguments),
		CalledAt: at, ResultSummary: hostPending, ExecutionID: d.ExecutionID,
	}}
	if last := len(b.Calls) - 1; last >= 0 && b.Calls[last].HostCall > 0 && b.Calls[last].ExecutionID == c.ExecutionID &&
		b.Calls[last].Tool == c.Tool && b.Calls[last].ArgsSHA256 == c.ArgsSHA256 {
		c.Times = max(b.Calls[last].Times, 1) + 1
		b.Calls[last] = c
		return
	}
	ofRun := func(have keptCall) bool { return have.HostCall > 0 && have.ExecutionID == c.ExecutionID }
	var have int
	for _, other := range b.Calls {
		if ofRun(other) {
			have++
		}
	}
	if have >= maxHostCalls {
		oldest := slices.IndexFunc(b.Calls, ofRun)
		b.Calls = slices.Delete(b.Calls, oldest, oldest+1)
	}
	b.call(c)
}

// hostReturned completes what is told of a call, if it still is.
func (b *contextBody) hostReturned(d *events.HostReturned) bool {
	i := slices.IndexFunc(b.Calls, func(c keptCall) bool { return c.ExecutionID == d.ExecutionID && c.HostCall == d.Number })
	if i < 0 {
		return false
	}
	summary := string(d.Outcome)
	if result := d.Content.Value().Result; result != nil {
		said := result.Text
		if result.Blob != nil {
			said = result.Blob.Preview
		}
		summary += ": " + said
	}
	b.Calls[i].ResultSummary = excerpt(summary, maxCallSummary)
	return true
}

// hostArguments is what is told of the arguments of a call. Long ones that are
// stored apart are not: a secret in them would not be known by its name.
func hostArguments(text *events.Body) map[string]json.RawMessage {
	if text == nil {
		return map[string]json.RawMessage{}
	}
	var args map[string]any
	dec := json.NewDecoder(bytes.NewReader([]byte(text.Text)))
	dec.UseNumber() // as they were, however many digits
	switch {
	case text.Blob != nil:
		return map[string]json.RawMessage{"arguments": redact.LeftOut(int(text.Blob.Size))}
	case dec.Decode(&args) != nil:
		return map[string]json.RawMessage{"arguments": redact.LeftOut(len(text.Text))}
	}
	return redact.Excerpt(redact.Names{}.Hide(args))
}
