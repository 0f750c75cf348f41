package projections

import (
	"bytes"
	"encoding/json"
	"slices"

	"daybook/events"
	"daybook/internal/redact"
)

// HostToolPrefix is the prefix of the tool names of host calls in conversation
// contexts. Server and tool follow, separated by a dot.
const HostToolPrefix = "mcp."

const (
	// maxHostCalls is the number of host calls of one run that a conversation context
	// lists: a loop must not displace the client's own calls.
	maxHostCalls = 5
	// hostPending and hostUnanswered are the summaries of host calls without an answer,
	// while the run is in progress and after it.
	hostPending    = "pending"
	hostUnanswered = "no answer on record"
)

// noteCallInContext adds a host call of a run that belongs to a conversation context.
// Host calls of encrypted runs are not listed.
func (a *applier) noteCallInContext(e *events.Event, d *events.HostCalled) error {
	r, isCurrent, err := a.loadContextOfRun(e.Tenant, d.ExecutionID)
	if err != nil || r == nil {
		return err
	}
	r.seq = e.Seq
	r.touch(e.Time)
	if !isCurrent {
		return nil
	}
	r.markNotReusable(d.ExecutionID)
	if events.ContentKeyID(d) != "" {
		return nil
	}
	r.addHostCall(events.FormatTime(e.Time), d)
	r.touchUpdated(e.Time)
	return nil
}

// noteReturnInContext adds the result of a host call.
func (a *applier) noteReturnInContext(e *events.Event, d *events.HostReturned) error {
	r, isCurrent, err := a.loadContextOfRun(e.Tenant, d.ExecutionID)
	if err != nil || r == nil {
		return err
	}
	r.seq = e.Seq
	r.touch(e.Time)
	if isCurrent && events.ContentKeyID(d) == "" && r.applyHostReturn(d) {
		r.touchUpdated(e.Time)
	}
	return nil
}

// noteModulesInContext marks a run whose result depends on the admitted packages, or on the
// WebAssembly modules of the server. Both may be others the next time. A package that was not
// admitted may be admitted by then.
func (a *applier) noteModulesInContext(e *events.Event, execution string) error {
	r, isCurrent, err := a.loadContextOfRun(e.Tenant, execution)
	if err != nil || r == nil {
		return err
	}
	r.seq = e.Seq
	r.touch(e.Time)
	if isCurrent {
		r.markNotReusable(execution)
	}
	return nil
}

// markNotReusable marks a run as dependent on more than its request: its result may
// differ the next time.
func (b *contextBody) markNotReusable(execution string) {
	for i := range b.PriorCalls {
		if b.PriorCalls[i].ExecutionID == execution {
			b.PriorCalls[i].Reusable = false
			return
		}
	}
}

// addHostCall adds a host call of a run. Equal calls in a row are merged. Only the last
// maxHostCalls calls of a run are kept.
func (b *contextBody) addHostCall(at string, d *events.HostCalled) {
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
	b.addCall(c)
}

// applyHostReturn sets the result of a host call. It reports whether the call is still
// listed.
func (b *contextBody) applyHostReturn(d *events.HostReturned) bool {
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

// hostArguments returns the arguments of a host call as listed. Long arguments in a
// blob are omitted: a secret in them could not be detected by its name.
func hostArguments(text *events.Body) map[string]json.RawMessage {
	if text == nil {
		return map[string]json.RawMessage{}
	}
	var args map[string]any
	dec := json.NewDecoder(bytes.NewReader([]byte(text.Text)))
	dec.UseNumber() // keeps all digits of numbers
	switch {
	case text.Blob != nil:
		return map[string]json.RawMessage{"arguments": redact.LeftOut(int(text.Blob.Size))}
	case dec.Decode(&args) != nil:
		return map[string]json.RawMessage{"arguments": redact.LeftOut(len(text.Text))}
	}
	return redact.Excerpt(redact.Names{}.Hide(args))
}
