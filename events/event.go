package events

import (
	"strconv"
	"time"
)

// Event is one recorded fact: an envelope around a payload.
type Event struct {
	// Seq is the position in the ledger. The store assigns it; before, it is 0.
	// Positions are global across volumes and never reused.
	Seq uint64
	// ID is globally unique (CloudEvents "id"). A writer MUST reuse it when it retries
	// an append.
	ID string
	// Type is the type and version. It always equals TypeOf(Data).
	Type Type
	// Tenant owns the event.
	Tenant string
	// Time is the time of the fact, in UTC, cut to milliseconds.
	Time time.Time
	// Traceparent is the W3C trace context of the request that caused the
	// event, or empty.
	Traceparent string
	// RecordVersion is the version of the record by which proofs cover the event. New sets
	// it to the constant RecordVersion, which 0 stands for too.
	RecordVersion int
	// EncryptWithKey is the id of the key under which the store encrypts the content; empty
	// stores the content unencrypted. It is not stored.
	EncryptWithKey string
	// RemovedBefore is the number of positions between the previous event read and this one that
	// were removed with their volumes. Removed is the position up to which volumes were
	// removed, where that matters for this event. Only ordered reads of the ledger set
	// them.
	RemovedBefore, Removed uint64
	// LostBefore is the number of positions between the previous event read and this one
	// that are recorded as lost, without those that RemovedBefore counts. Only ordered
	// reads of the ledger set it.
	LostBefore uint64
	// Data is the payload. It is *Unknown for a type that this version does not know.
	Data Data
}

// Data is the payload of an event. The set of implementations is closed: a pointer to a
// struct for each row of kinds, and *Unknown.
type Data interface{ fact() }

// Kept reports whether the event belongs to a removed volume. Events next to it may be
// missing.
func (e Event) Kept() bool { return e.Removed >= e.Seq && e.Seq > 0 }

// New returns an event with a new id for a payload. It cuts the time to milliseconds.
func New(tenant string, at time.Time, data Data) Event {
	return Event{
		ID:            NewID(at),
		Type:          TypeOf(data),
		Tenant:        tenant,
		Time:          at.UTC().Truncate(time.Millisecond),
		RecordVersion: RecordVersion,
		Data:          data,
	}
}

// recordVersion returns the value of the attribute, which is empty for version 1.
func (e Event) recordVersion() string {
	switch e.RecordVersion {
	case 0:
		return strconv.Itoa(RecordVersion)
	case 1:
		return ""
	default:
		return strconv.Itoa(e.RecordVersion)
	}
}

// About returns the CloudEvents "subject" attribute: the id or key of what the event is
// about, for example an execution, a heap or a session.
func (e Event) About() string { return kindOf(e.Data).about(e.Data) }

// Subject returns the NATS subject that the event belongs on, without its volume.
func (e Event) Subject() string { return kindOf(e.Data).subject(e.Data, e.Tenant, e.About()) }

// Unknown is the payload of an event of a type that this version does not know. Readers
// MUST keep and report it: projections count it, and the write side refuses to decide on
// a history that contains one.
type Unknown struct {
	// Type is the stored type.
	Type Type
	// StoredSubject is the subject that the event was read from, with its volume.
	StoredSubject string
	// Concerns is the stored CloudEvents "subject" attribute.
	Concerns string
	// Body is the stored payload.
	Body []byte
}

func (u *Unknown) subject(string) string {
	if subject, ok := WithoutVolume(u.StoredSubject); ok {
		return subject
	}
	return u.StoredSubject
}
