package events

import (
	"encoding/json"
	"strconv"
)

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
		Traceparent: e.Traceparent, DataContentType: "application/json", Data: m.Body,
	}, nil
}
