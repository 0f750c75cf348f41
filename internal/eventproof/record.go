package eventproof

import (
	"daybook/events"
	"daybook/proof"
)

// RecordOf is a stored message as proofs take it.
func RecordOf(m events.Stored) proof.Record {
	return proof.Record{Seq: m.Seq, Subject: m.Subject, Header: m.Header, Body: m.Body}
}

// StoredOf is a record as a reader of the ledger delivers it.
func StoredOf(r proof.Record) events.Stored {
	return events.Stored{Seq: r.Seq, Subject: r.Subject, Header: r.Header, Body: r.Body}
}
