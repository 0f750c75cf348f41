package eventproof

import (
	"daybook/events"
	"daybook/proof"
)

// RecordOf returns a stored message as a record. It shares the headers and the body with m.
func RecordOf(m events.Stored) proof.Record {
	return proof.Record{Seq: m.Seq, Subject: m.Subject, Header: m.Header, Body: m.Body}
}

// StoredOf returns a record as a stored message. It shares the headers and the body with r.
func StoredOf(r proof.Record) events.Stored {
	return events.Stored{Seq: r.Seq, Subject: r.Subject, Header: r.Header, Body: r.Body}
}
