package events

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Size limits of the wire form, in bytes.
const (
	// MaxEventBytes limits the JSON body of an event. Longer text is stored as a blob
	// first, so that no required event can exceed the limit.
	MaxEventBytes = 512 << 10
	// InlineBytes is the longest source, result or error that is stored in an event.
	InlineBytes = 64 << 10
	// PreviewBytes is the longest preview of a text that is stored as a blob.
	PreviewBytes = 1 << 10
)

// Source is the CloudEvents "source" attribute of every event.
const Source = "daybook"

// Names of the message headers that carry CloudEvents attributes, by the NATS protocol
// binding in binary mode.
const (
	headerSpecVersion = "ce-specversion"
	headerID          = "ce-id"
	headerType        = "ce-type"
	headerSource      = "ce-source"
	headerSubject     = "ce-subject"
	headerTime        = "ce-time"
	headerTenant      = "ce-tenant"
	headerTraceparent = "ce-traceparent"
	headerContentType = "content-type"
	// headerRecordVersion is an extension attribute. Events of version 1 do not have it.
	headerRecordVersion = "ce-recordversion"
)

// RecordVersion is the version of the record of new events. The record is the text by which
// proofs cover an event. Of the headers, a record of version 2 covers the attributes and the
// content type. A record of version 1 covers those of the transport too.
const RecordVersion = 2

// timeFormat is RFC 3339 in UTC with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

// FormatTime formats a time as every interface shows it: RFC 3339 in UTC with
// milliseconds and the suffix "Z".
func FormatTime(t time.Time) string { return t.UTC().Format(timeFormat) }

// Instant is a time in the body of an event. Its JSON form is always UTC with three
// digits of milliseconds, so that equal times are equal bytes.
type Instant struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (i Instant) MarshalJSON() ([]byte, error) {
	return []byte(`"` + FormatTime(i.Time) + `"`), nil
}

// ErrTooLarge is returned if the body of an event exceeds MaxEventBytes.
var ErrTooLarge = errors.New("event body is larger than 512 KiB")

// Message is the wire form of an event.
type Message struct {
	Subject string
	Header  map[string][]string
	Body    []byte
}

// Stored is a message at its position in the ledger.
type Stored struct {
	// Seq is the position. Subject includes the volume.
	Seq     uint64
	Subject string
	Header  map[string][]string
	Body    []byte
	// RemovedBefore and Removed are those of Event.
	RemovedBefore, Removed uint64
}

// Message returns the message without its position. The slices and the map are shared.
func (m Stored) Message() Message {
	return Message{Subject: m.Subject, Header: m.Header, Body: m.Body}
}

// Kept reports whether the message belongs to a removed volume.
func (m Stored) Kept() bool { return m.Removed >= m.Seq && m.Seq > 0 }

// Encode returns the wire form of an event. The subject has no volume. The error is
// ErrTooLarge if the body exceeds MaxEventBytes. Attributes that Decode would refuse are an
// error too.
func Encode(e Event) (Message, error) {
	body, err := encodeBody(e.Data)
	if err != nil {
		return Message{}, fmt.Errorf("encode %s: %w", e.Type, err)
	}
	if len(body) > MaxEventBytes {
		return Message{}, fmt.Errorf("encode %s: %w (%d bytes)", e.Type, ErrTooLarge, len(body))
	}
	k := kindOf(e.Data)
	about := k.about(e.Data)
	values := make([]string, 0, 10) // one allocation for all headers
	h := make(map[string][]string, 10)
	var wrong string // the name of a header that Decode would refuse
	set := func(name, value string) {
		if !isAttributeValue(value) {
			wrong = name
		}
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set(headerSpecVersion, "1.0")
	set(headerID, e.ID)
	set(headerType, string(e.Type))
	set(headerSource, Source)
	set(headerSubject, about)
	set(headerTime, FormatTime(e.Time))
	set(headerTenant, e.Tenant)
	set(headerContentType, "application/json")
	if e.Traceparent != "" {
		set(headerTraceparent, e.Traceparent)
	}
	if version := e.recordVersion(); version != "" {
		set(headerRecordVersion, version)
	}
	if wrong != "" && e.RecordVersion != 1 || e.RecordVersion > RecordVersion {
		return Message{}, fmt.Errorf("encode %s: %s of record version %d cannot be %.80q", e.Type, cmp.Or(wrong, headerRecordVersion), cmp.Or(e.RecordVersion, RecordVersion), h[cmp.Or(wrong, headerRecordVersion)])
	}
	return Message{Subject: k.subject(e.Data, e.Tenant, about), Header: h, Body: body}, nil
}

func encodeBody(d Data) ([]byte, error) {
	if u, ok := d.(*Unknown); ok {
		return u.Body, nil
	}
	return json.Marshal(d)
}

// DecodeError is returned if a message is not a well-formed event of a known type.
type DecodeError struct {
	Seq     uint64
	Subject string
	Err     error
}

// Error returns the position, the subject and the cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode event %d on %s: %v", e.Seq, e.Subject, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// Decode reads the wire form of the event at position seq. A type that this version does
// not know decodes to Unknown. Any other deviation is a *DecodeError. Decode takes nothing
// from headers that the record of the event does not cover.
func Decode(seq uint64, m Message) (Event, error) {
	e, err := decode(seq, m)
	if err != nil {
		return Event{}, &DecodeError{Seq: seq, Subject: m.Subject, Err: err}
	}
	return e, nil
}

func decode(seq uint64, m Message) (Event, error) {
	version, err := recordVersionOf(m.Header)
	if err != nil {
		return Event{}, err
	}
	get := func(name string) string { return HeaderValue(m.Header, name) }
	if sv := get(headerSpecVersion); sv != "1.0" {
		return Event{}, fmt.Errorf("%s is %q, want 1.0", headerSpecVersion, sv)
	}
	e := Event{
		Seq: seq, ID: get(headerID), Type: Type(get(headerType)), Tenant: get(headerTenant), Traceparent: get(headerTraceparent),
		RecordVersion: version,
	}
	if e.ID == "" || e.Type == "" || e.Tenant == "" {
		return Event{}, errors.New("ce-id, ce-type or ce-tenant is missing")
	}
	at, err := time.Parse(time.RFC3339Nano, get(headerTime))
	if err != nil {
		return Event{}, fmt.Errorf("%s: %w", headerTime, err)
	}
	e.Time = at.UTC()
	k := kindsByType[e.Type]
	if k == nil {
		e.Data = &Unknown{Type: e.Type, StoredSubject: m.Subject, Concerns: get(headerSubject), Body: m.Body}
		return e, nil
	}
	if e.Data, err = k.unmarshalBody(m.Body); err != nil {
		return Event{}, fmt.Errorf("%s: %w", e.Type, err)
	}
	// Consumers route by the header and act on the body, so header and body must agree.
	if got, want := get(headerSubject), k.about(e.Data); got != want {
		return Event{}, fmt.Errorf("%s is %q, but the body is about %q", headerSubject, got, want)
	}
	return e, nil
}

// HeaderValue returns the first value of a header as the record of a message has it:
// without spaces and tabs at both ends. It returns "" if there is none.
func HeaderValue(header map[string][]string, name string) string {
	v := header[name]
	if len(v) == 0 {
		return ""
	}
	if n := len(v[0]); n == 0 || v[0][0] > ' ' && v[0][n-1] > ' ' {
		return v[0] // most values have none
	}
	return strings.Trim(v[0], " \t")
}

// recordVersionOf returns the version of the record of a message. The error is not nil for a later
// version, and for headers of version 2 that have no record. Package proof decides by the same rules.
func recordVersionOf(header map[string][]string) (int, error) {
	switch v, ok := header[headerRecordVersion]; {
	case !ok:
		return 1, nil
	case len(v) != 1:
		return 0, fmt.Errorf("the message is malformed: %s has %d values", headerRecordVersion, len(v))
	case v[0] != "2":
		return 0, fmt.Errorf("the record has version %.40q; a newer version of Daybook is needed to read it", v[0])
	}
	for name, values := range header {
		covered := isAttributeHeader(name)
		switch {
		case !covered && looksLikeAttributeHeader(name):
			return 0, fmt.Errorf("the message is malformed: %q is not the name of a header of an event, but is similar", name)
		case covered && (len(values) != 1 || !isAttributeValue(values[0])):
			return 0, fmt.Errorf("the message is malformed: %s is not one text without spaces at its ends", name)
		}
		for _, v := range values {
			if strings.IndexByte(v, '\n') >= 0 || strings.IndexByte(v, '\r') >= 0 {
				return 0, fmt.Errorf("the message is malformed: the header %s holds a line end", name)
			}
		}
	}
	return 2, nil
}

// isAttributeValue reports whether a header that the record covers may have a value.
func isAttributeValue(value string) bool {
	if !utf8.ValidString(value) || strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
		return false
	}
	n := len(value)
	return n == 0 || value[0] != ' ' && value[0] != '\t' && value[n-1] != ' ' && value[n-1] != '\t'
}

// isAttributeHeader reports whether a header has an attribute of CloudEvents, or the content type.
func isAttributeHeader(name string) bool {
	attribute, ok := strings.CutPrefix(name, "ce-")
	if !ok || attribute == "" {
		return name == headerContentType
	}
	for i := range len(attribute) {
		if c := attribute[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// looksLikeAttributeHeader reports whether a reader that ignores the case of names, or spaces
// around them, could take a name for one that isAttributeHeader accepts.
func looksLikeAttributeHeader(name string) bool {
	name = strings.TrimFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
	return len(name) >= 3 && strings.EqualFold(name[:3], "ce-") || strings.EqualFold(name, headerContentType)
}

// CloudEvent is an event in CloudEvents 1.0 structured mode: one JSON object, as all
// interfaces but NATS show it.
type CloudEvent struct {
	SpecVersion string `json:"specversion" doc:"Always 1.0."`
	ID          string `json:"id" doc:"Globally unique."`
	Source      string `json:"source" doc:"Always daybook."`
	Type        string `json:"type" doc:"Kind and version." example:"daybook.execution.completed.v1"`
	Subject     string `json:"subject" doc:"What the event concerns: an execution id, heap key or session id."`
	Time        string `json:"time" format:"date-time" doc:"When the fact was established."`
	// Sequence is text because JavaScript numbers are exact only to 2^53.
	Sequence        string          `json:"sequence" doc:"Position in the ledger, a decimal number."`
	Tenant          string          `json:"tenant" doc:"Who owns the event."`
	Traceparent     string          `json:"traceparent,omitempty" doc:"W3C trace context of the request that caused it."`
	RecordVersion   string          `json:"recordversion,omitempty" doc:"Version of the record that proofs cover; absent for version 1." example:"2"`
	Replayed        bool            `json:"replayed,omitempty" doc:"True when a replay delivers the event again."`
	DataContentType string          `json:"datacontenttype" doc:"Always application/json."`
	Data            json.RawMessage `json:"data" doc:"The payload; its schema depends on the type."`
}

// Structured returns the structured form of a stored event, also of one of an unknown
// type.
func Structured(e Event) (CloudEvent, error) {
	m, err := Encode(e)
	if err != nil {
		return CloudEvent{}, err
	}
	return CloudEvent{
		SpecVersion: "1.0", ID: e.ID, Source: Source, Type: string(e.Type), Subject: e.About(),
		Time: FormatTime(e.Time), Sequence: strconv.FormatUint(e.Seq, 10), Tenant: e.Tenant,
		Traceparent: e.Traceparent, RecordVersion: e.recordVersion(), DataContentType: "application/json", Data: m.Body,
	}, nil
}
