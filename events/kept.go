package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// keptEvent is the stored form of a kept event of a removed volume: one line of JSON.
type keptEvent struct {
	Seq     uint64              `json:"seq"`
	Subject string              `json:"subject"`
	Header  map[string][]string `json:"header"`
	Body    []byte              `json:"body"`
}

// onDelivery lists headers that the NATS server adds on delivery. They are not stored.
var onDelivery = []string{
	"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Last-Sequence", "Nats-Num-Pending", "Nats-UpTo-Sequence", "Nats-Msg-Size", "Nats-Stream-Source",
}

// IsDeliveryHeader reports whether the NATS server adds a header on delivery. Such a header is not
// stored.
func IsDeliveryHeader(name string) bool { return slices.Contains(onDelivery, name) }

// EncodeKept encodes the kept events of removed volumes, as recorded and in the order of
// positions.
func EncodeKept(list []Stored) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, m := range list {
		header := maps.Clone(m.Header)
		maps.DeleteFunc(header, func(name string, _ []string) bool { return IsDeliveryHeader(name) })
		if err := enc.Encode(keptEvent{m.Seq, m.Subject, header, m.Body}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// DecodeKept decodes the output of EncodeKept. The error is not nil if a position
// exceeds last or is out of order.
func DecodeKept(raw []byte, last uint64) ([]Stored, error) {
	var list []Stored
	before := uint64(0)
	for len(raw) > 0 {
		line, rest, whole := bytes.Cut(raw, []byte{'\n'})
		if !whole {
			return nil, fmt.Errorf("the event after position %d is truncated", before)
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

// WithoutVolume removes the volume from a stored subject, or from a pattern of stored
// subjects. It returns false for any other text.
func WithoutVolume(subject string) (string, bool) {
	rest, ok := strings.CutPrefix(subject, "ledger.")
	if !ok {
		return "", false
	}
	number, rest, ok := strings.Cut(rest, ".")
	return rest, ok && number != "" && rest != ""
}
