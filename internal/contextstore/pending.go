package contextstore

import (
	"encoding/json"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/redact"
)

// maxPending is the number of unrecorded notes from which a context is flushed at once,
// and which it keeps if they cannot be recorded.
const maxPending = 32

// pending holds the notes of a context that are not yet recorded.
type pending struct {
	calls     []events.NotedCall
	resources []events.NotedResource
	// touched is true if the time of the last use must be recorded even without notes.
	touched bool
	usedAt  time.Time
	// sessionID is the id that the context gets if the notes create it.
	sessionID string
	bytes     int64
	// tried is the event that was sent and may or may not be recorded, or nil. It holds
	// the first triedCalls calls and the first triedResources resources.
	tried                      *events.Event
	triedCalls, triedResources int
}

func (p *pending) empty() bool { return p.tried == nil && p.untried() == 0 && !p.touched }

func (p *pending) full() bool { return p.untried() >= maxPending }

// untried returns the number of notes that are in no event yet.
func (p *pending) untried() int {
	return len(p.calls) - p.triedCalls + len(p.resources) - p.triedResources
}

// call adds a call. If the call before has the same arguments, call counts it instead.
func (p *pending) call(c events.NotedCall) {
	if last := len(p.calls) - 1; last >= p.triedCalls && p.calls[last].ArgumentsSHA256 == c.ArgumentsSHA256 {
		c.Times = max(p.calls[last].Times, 1) + 1
		p.bytes += size(c) - size(p.calls[last])
		p.calls[last] = c
		return
	}
	p.calls = append(p.calls, c)
	p.bytes += size(c)
}

func (p *pending) resource(r events.NotedResource) {
	p.resources = append(p.resources, r)
	p.bytes += size(r)
}

// trim drops the oldest notes that are in no event while there are more than
// maxPending, which bounds the memory while nothing can be recorded. It returns how
// many it dropped.
func (p *pending) trim() (lost int) {
	for ; p.untried() > maxPending; lost++ {
		if at := p.triedCalls; len(p.calls)-at >= len(p.resources)-p.triedResources {
			p.bytes -= size(p.calls[at])
			p.calls = slices.Delete(p.calls, at, at+1)
		} else {
			at = p.triedResources
			p.bytes -= size(p.resources[at])
			p.resources = slices.Delete(p.resources, at, at+1)
		}
	}
	return lost
}

// try stores e as the event that holds all notes up to now.
func (p *pending) try(e events.Event) {
	p.tried, p.triedCalls, p.triedResources, p.touched = &e, len(p.calls), len(p.resources), false
}

// refused resets the state after an event that is certainly not recorded.
func (p *pending) refused() {
	p.tried, p.triedCalls, p.triedResources, p.touched = nil, 0, 0, true
}

// recorded drops the notes that the recorded event holds.
func (p *pending) recorded() {
	for _, c := range p.calls[:p.triedCalls] {
		p.bytes -= size(c)
	}
	for _, r := range p.resources[:p.triedResources] {
		p.bytes -= size(r)
	}
	p.calls, p.resources = slices.Clone(p.calls[p.triedCalls:]), slices.Clone(p.resources[p.triedResources:])
	p.tried, p.triedCalls, p.triedResources = nil, 0, 0
}

// done drops all notes.
func (p *pending) done() { *p = pending{sessionID: p.sessionID} }

func size(v any) int64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return redact.MaxBytes // plain data, partly JSON that was checked before
	}
	return int64(len(raw))
}
