package contextstore

import (
	"encoding/json"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/redact"
)

// Bounds of what waits to be recorded of one context.
const maxPending = 32

// pending is what was noted in a context and is not on record yet.
type pending struct {
	calls     []events.NotedCall
	resources []events.NotedResource
	// touched is true when the use alone is to be recorded.
	touched bool
	usedAt  time.Time
	// sessionID is what the context is to be known by if this begins it.
	sessionID string
	bytes     int64
	// tried is an event of which it is unknown whether it is recorded, or nil. It holds
	// the first triedCalls and triedResources.
	tried                      *events.Event
	triedCalls, triedResources int
}

func (p *pending) empty() bool { return p.tried == nil && p.untried() == 0 && !p.touched }

func (p *pending) full() bool { return p.untried() >= maxPending }

// untried is how many notes no event holds yet.
func (p *pending) untried() int {
	return len(p.calls) - p.triedCalls + len(p.resources) - p.triedResources
}

// call adds a call; one like the one before is counted.
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

// trim forgets the oldest that no event holds while there is too much: what cannot be
// recorded for long must not fill the memory.
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

// try notes the event that holds all notes from now on.
func (p *pending) try(e events.Event) {
	p.tried, p.triedCalls, p.triedResources, p.touched = &e, len(p.calls), len(p.resources), false
}

// refused notes that the event tried is surely not recorded.
func (p *pending) refused() {
	p.tried, p.triedCalls, p.triedResources, p.touched = nil, 0, 0, true
}

// recorded forgets what the event holds that is recorded now.
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

// done forgets everything.
func (p *pending) done() { *p = pending{sessionID: p.sessionID} }

func size(v any) int64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return redact.MaxBytes // plain data, some of it JSON that was checked
	}
	return int64(len(raw))
}
