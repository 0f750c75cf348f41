package contextstore

import (
	"encoding/json"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/redact"
)

// maxPending is the number of unrecorded notes of a context from which they are
// flushed immediately. If they cannot be recorded, the newest maxPending of them are kept.
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
	// inFlight is the event that was sent and may or may not be recorded, or nil. It holds
	// the first inFlightCalls calls and the first inFlightResources resources.
	inFlight *events.Event
	// releaseKey allows a shred to destroy the key of the event in flight.
	releaseKey                       func()
	inFlightCalls, inFlightResources int
}

func (p *pending) isEmpty() bool { return p.inFlight == nil && p.unsentCount() == 0 && !p.touched }

func (p *pending) isFull() bool { return p.unsentCount() >= maxPending }

// unsentCount returns the number of notes that are in no event yet.
func (p *pending) unsentCount() int {
	return len(p.calls) - p.inFlightCalls + len(p.resources) - p.inFlightResources
}

// addCall adds a call. It merges consecutive calls of one tool with the same
// arguments.
func (p *pending) addCall(c events.NotedCall) {
	if last := len(p.calls) - 1; last >= p.inFlightCalls && p.calls[last].ArgumentsSHA256 == c.ArgumentsSHA256 {
		c.Times = max(p.calls[last].Times, 1) + 1
		p.bytes += size(c) - size(p.calls[last])
		p.calls[last] = c
		return
	}
	p.calls = append(p.calls, c)
	p.bytes += size(c)
}

func (p *pending) addResource(r events.NotedResource) {
	p.resources = append(p.resources, r)
	p.bytes += size(r)
}

// trim drops the oldest notes that are in no event until at most maxPending are left. This
// limits the memory while nothing can be recorded. It returns the number of dropped notes.
func (p *pending) trim() (lost int) {
	for ; p.unsentCount() > maxPending; lost++ {
		if at := p.inFlightCalls; len(p.calls)-at >= len(p.resources)-p.inFlightResources {
			p.bytes -= size(p.calls[at])
			p.calls = slices.Delete(p.calls, at, at+1)
		} else {
			at = p.inFlightResources
			p.bytes -= size(p.resources[at])
			p.resources = slices.Delete(p.resources, at, at+1)
		}
	}
	return lost
}

// setInFlight stores e as the event that holds all notes up to now. releaseKey is called
// once the event is recorded or given up.
func (p *pending) setInFlight(e events.Event, releaseKey func()) {
	p.inFlight, p.releaseKey = &e, releaseKey
	p.inFlightCalls, p.inFlightResources, p.touched = len(p.calls), len(p.resources), false
}

// resetInFlight makes the notes of the event in flight unsent again, after the event
// was certainly not recorded.
func (p *pending) resetInFlight() {
	p.endInFlight()
	p.touched = true
}

func (p *pending) endInFlight() {
	if p.releaseKey != nil {
		p.releaseKey()
	}
	p.inFlight, p.releaseKey, p.inFlightCalls, p.inFlightResources = nil, nil, 0, 0
}

// dropRecorded drops the notes that the recorded event holds.
func (p *pending) dropRecorded() {
	for _, c := range p.calls[:p.inFlightCalls] {
		p.bytes -= size(c)
	}
	for _, r := range p.resources[:p.inFlightResources] {
		p.bytes -= size(r)
	}
	p.calls, p.resources = slices.Clone(p.calls[p.inFlightCalls:]), slices.Clone(p.resources[p.inFlightResources:])
	p.endInFlight()
}

// dropAll drops all notes.
func (p *pending) dropAll() {
	p.endInFlight()
	*p = pending{sessionID: p.sessionID}
}

func size(v any) int64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return redact.MaxBytes // cannot happen: the JSON in it was checked before
	}
	return int64(len(raw))
}
