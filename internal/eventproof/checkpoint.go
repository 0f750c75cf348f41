package eventproof

import (
	"fmt"

	"daybook/events"
	"daybook/proof"
)

// IsCheckpoint reports whether a message is a checkpoint event, by its type header.
func IsCheckpoint(m events.Stored) bool {
	return HasType(m, events.TypeLedgerCheckpointed)
}

// CheckpointIn returns the checkpoint in an event that HoldsCheckpoint accepts. Its Note is nil if
// a volume was sealed without proofs. It does not verify the signature. The error is
// events.ErrDamaged if event and note differ.
func CheckpointIn(m events.Stored) (proof.Checkpoint, error) {
	e, err := events.Decode(m.Seq, m.Message())
	if err != nil {
		return proof.Checkpoint{}, fmt.Errorf("%w: %w", events.ErrDamaged, err)
	}
	var d events.ClosingCheckpoint
	switch data := e.Data.(type) {
	case *events.LedgerCheckpointed:
		d = events.ClosingCheckpoint{Origin: data.Origin, Size: data.Size, RootHash: data.RootHash, Note: data.Note}
	case *events.LedgerVolumeSealed:
		if data.Closing == nil {
			return proof.Checkpoint{}, nil
		}
		d = *data.Closing
	default:
		return proof.Checkpoint{}, fmt.Errorf("%w: event %d is %s", events.ErrDamaged, m.Seq, e.Type)
	}
	c, err := proof.ParseCheckpoint([]byte(d.Note))
	if err != nil {
		return c, fmt.Errorf("%w: event %d: %w", events.ErrDamaged, m.Seq, err)
	}
	if c.Origin != d.Origin || c.Size != d.Size || proof.EncodeHash(c.Root) != d.RootHash {
		return c, fmt.Errorf("%w: event %d differs from the checkpoint it holds", events.ErrDamaged, m.Seq)
	}
	return c, nil
}

// HoldsCheckpoint reports whether the event of a message may contain a checkpoint of the ledger.
func HoldsCheckpoint(m events.Stored) bool {
	return IsCheckpoint(m) || HasType(m, events.TypeLedgerVolumeSealed)
}

// HasType reports whether a message has the given event type, by its type header.
func HasType(m events.Stored, t events.Type) bool {
	return len(m.Header["ce-type"]) == 1 && events.HeaderValue(m.Header, "ce-type") == string(t)
}

// RecordOf returns a stored message as a record. It shares the headers and the body with m.
func RecordOf(m events.Stored) proof.Record {
	return proof.Record{Seq: m.Seq, Subject: m.Subject, Header: m.Header, Body: m.Body}
}

// StoredOf returns a record as a stored message. It shares the headers and the body with r.
func StoredOf(r proof.Record) events.Stored {
	return events.Stored{Seq: r.Seq, Subject: r.Subject, Header: r.Header, Body: r.Body}
}
