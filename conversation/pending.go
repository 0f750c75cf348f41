package conversation

import (
	"encoding/json"
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
}

func (p *pending) empty() bool { return len(p.calls)+len(p.resources) == 0 && !p.touched }

func (p *pending) full() bool { return len(p.calls)+len(p.resources) >= maxPending }

// call adds a call; one like the one before is counted.
func (p *pending) call(c events.NotedCall) {
	if last := len(p.calls) - 1; last >= 0 && p.calls[last].ArgumentsSHA256 == c.ArgumentsSHA256 {
		c.Times = max(p.calls[last].Times, 1) + 1
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

// trim forgets the oldest while there is too much: what cannot be recorded for
// long must not fill the memory.
func (p *pending) trim() (lost int) {
	for len(p.calls)+len(p.resources) > maxPending {
		lost++
		if len(p.calls) >= len(p.resources) {
			p.bytes -= size(p.calls[0])
			p.calls = p.calls[1:]
		} else {
			p.bytes -= size(p.resources[0])
			p.resources = p.resources[1:]
		}
	}
	return lost
}

// done forgets what is on record now.
func (p *pending) done() { *p = pending{sessionID: p.sessionID} }

func size(v any) int64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return redact.MaxBytes // plain data, some of it JSON that was checked
	}
	return int64(len(raw))
}
