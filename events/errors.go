package events

import "errors"

// Errors that whatever stores events or blobs answers with, so that callers
// need not know what it is.
var (
	// ErrNotFound is returned for a subject, execution, heap or blob that was
	// never recorded.
	ErrNotFound = errors.New("not found")
	// ErrConflict is returned by an append whose expected position is no longer
	// the last on its subject: somebody else wrote first. Nothing was stored.
	ErrConflict = errors.New("another event was recorded first")
	// ErrDamaged is returned when stored bytes do not match their hash, or the
	// ledger's positions have a gap.
	ErrDamaged = errors.New("stored data is damaged")
)

// UnwritableError is returned when nothing more can be stored until somebody
// sees to the storage, such as a full disk. What is stored can be read.
type UnwritableError struct {
	// What cannot be written: "the ledger".
	What string
	// Reason says what is wrong and what to do.
	Reason string
}

// Error names what cannot be written and the reason.
func (e *UnwritableError) Error() string { return e.What + " cannot be written: " + e.Reason }
