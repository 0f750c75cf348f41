package events

import (
	"time"
)

// Event is one recorded fact: an envelope around a payload.
type Event struct {
	// Seq is the position in the ledger, assigned when the event is stored;
	// 0 before. Positions are global across volumes and never reused.
	Seq uint64
	// ID is unique for ever (CloudEvents "id"). Writers that retry an append
	// reuse it.
	ID string
	// Type is the kind and version. It always equals TypeOf(Data).
	Type Type
	// Tenant owns the event.
	Tenant string
	// Time is when the fact was established, UTC, to the millisecond.
	Time time.Time
	// Traceparent is the W3C trace context of the request that caused the
	// event, or empty.
	Traceparent string
	// SealUnder names the key that the content is encrypted under when the event is
	// stored; empty stores it as it is. It is not part of what is stored.
	SealUnder string
	// Skips is how many positions between this event and the one read before it are
	// missing because their volumes were removed; Removed is up to which position
	// volumes were, where that has to do with it. Only who reads the ledger in order
	// is told.
	Skips, Removed uint64
	// Lost is how many positions between this event and the one read before it are
	// on record as lost, not counting Skips. Likewise.
	Lost uint64
	// Data is the payload; Unknown for a type this version does not know.
	Data Data
}

// Data is the payload of an event. The set of implementations is closed: one
// struct for each type, and Unknown.
type Data interface{ fact() }

// Kept reports whether the event is of a volume that was removed: events around it
// may be missing.
func (e Event) Kept() bool { return e.Removed >= e.Seq && e.Seq > 0 }

// New wraps a payload in an envelope with a fresh id and the given time, cut
// to milliseconds.
func New(tenant string, at time.Time, data Data) Event {
	return Event{
		ID:     NewID(at),
		Type:   TypeOf(data),
		Tenant: tenant,
		Time:   at.UTC().Truncate(time.Millisecond),
		Data:   data,
	}
}

// About is what the event concerns: an execution id, a heap hash or a session
// id.
func (e Event) About() string { return kindOf(e.Data).about(e.Data) }

// Subject is the subject the event belongs on, without its volume.
func (e Event) Subject() string { return kindOf(e.Data).subject(e.Data, e.Tenant, e.About()) }

// Unknown is the payload of an event written by a newer version. It is kept
// and reported, never dropped: projections count it, and the write side
// refuses to decide on a history that contains one.
type Unknown struct {
	// Type is the type string as stored.
	Type Type
	// StoredSubject is the subject the event was read from, with its volume.
	StoredSubject string
	// Concerns is the CloudEvents "subject" attribute as stored.
	Concerns string
	// Body is the payload as stored.
	Body []byte
}

func (u *Unknown) subject(string) string {
	if subject, ok := WithoutVolume(u.StoredSubject); ok {
		return subject
	}
	return u.StoredSubject
}
