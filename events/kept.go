package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// keptEvent is an event that is kept of a removed volume, as it is written: a line
// of JSON.
type keptEvent struct {
	Seq     uint64              `json:"seq"`
	Subject string              `json:"subject"`
	Header  map[string][]string `json:"header"`
	Body    []byte              `json:"body"`
}

// onDelivery are headers that the server adds to what it delivers: they are not
// stored.
var onDelivery = []string{
	"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Last-Sequence", "Nats-Num-Pending", "Nats-UpTo-Sequence", "Nats-Msg-Size", "Nats-Stream-Source",
}

// EncodeKept writes what is kept of removed volumes: events in the order of their
// positions, as they were stored.
func EncodeKept(list []Stored) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, m := range list {
		header := maps.Clone(m.Header)
		maps.DeleteFunc(header, func(name string, _ []string) bool { return slices.Contains(onDelivery, name) })
		if err := enc.Encode(keptEvent{m.Seq, m.Subject, header, m.Body}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// DecodeKept reads what EncodeKept wrote. A position beyond last, or out of order,
// is an error.
func DecodeKept(raw []byte, last uint64) ([]Stored, error) {
	var list []Stored
	before := uint64(0)
	for len(raw) > 0 {
		line, rest, whole := bytes.Cut(raw, []byte{'\n'})
		if !whole {
			return nil, fmt.Errorf("the event after position %d is cut off", before)
		}
		var k keptEvent
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&k); err != nil {
			return nil, fmt.Errorf("the event after position %d: %w", before, err)
		}
		if k.Seq <= before || k.Seq > last {
			return nil, fmt.Errorf("position %d follows %d, and %d is the last", k.Seq, before, last)
		}
		if _, ok := WithoutVolume(k.Subject); !ok {
			return nil, fmt.Errorf("position %d: %q is not a subject of the ledger", k.Seq, k.Subject)
		}
		list = append(list, Stored{Seq: k.Seq, Subject: k.Subject, Header: k.Header, Body: k.Body, Removed: last})
		before, raw = k.Seq, rest
	}
	return list, nil
}

// WithoutVolume cuts the volume from a subject of the ledger, or from a pattern of
// such subjects; false for any other text.
func WithoutVolume(subject string) (string, bool) {
	rest, ok := strings.CutPrefix(subject, "ledger.")
	if !ok {
		return "", false
	}
	number, rest, ok := strings.Cut(rest, ".")
	return rest, ok && number != "" && rest != ""
}
