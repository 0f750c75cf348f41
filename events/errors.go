package events

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of the stores of events and blobs. Callers match them without knowing the
// store.
var (
	// ErrNotFound is returned if a subject, execution, heap or blob was never recorded.
	ErrNotFound = errors.New("not found")
	// ErrConflict is returned by an append if the expected position is no longer the
	// last on the subject: another writer was first. Nothing was stored.
	ErrConflict = errors.New("another event was recorded first")
	// ErrRemoved is returned if a blob or event was deleted on purpose. The ledger
	// records the reason.
	ErrRemoved = errors.New("removed")
	// ErrShredded is returned if content is needed whose key does not exist or was
	// destroyed.
	ErrShredded = errors.New("the content key does not exist or was destroyed")
	// ErrDamaged is returned if stored bytes do not match their hash, or the positions
	// of the ledger have a gap.
	ErrDamaged = errors.New("stored data is damaged")
)

// UnwritableError is returned if nothing can be stored until the operator repairs the
// storage, for example a full disk. Stored data stays readable.
type UnwritableError struct {
	// What names the data that cannot be written: "the ledger".
	What string
	// Reason is the cause and the remedy.
	Reason string
	// Passes reports whether writes resume automatically after the repair.
	Passes bool
}

// Error returns what cannot be written and the reason.
func (e *UnwritableError) Error() string { return e.What + " cannot be written: " + e.Reason }

// NoAnswerError is returned if the NATS server that stores the ledger does not answer a
// request. It matches context.DeadlineExceeded.
type NoAnswerError struct {
	// Server is the HOST:PORT of the server, without credentials. Several are separated
	// by commas.
	Server string
	// Unreachable is true if there is no connection to the server.
	Unreachable bool
	// NotSent is true if no append was sent.
	NotSent bool
}

// Error names the server.
func (e *NoAnswerError) Error() string {
	recorded := ""
	if e.NotSent {
		recorded = "; nothing was recorded"
	}
	if e.Unreachable {
		return "the NATS server at " + e.Server + " cannot be reached" + recorded + "; try again once it is back"
	}
	return "the NATS server at " + e.Server + " does not answer" + recorded + "; try again once it does"
}

// Is reports whether target is context.DeadlineExceeded.
func (e *NoAnswerError) Is(target error) bool { return target == context.DeadlineExceeded }

// RemovedError reports recorded content that was deleted on purpose, and the event that
// records it. It matches ErrRemoved.
type RemovedError struct {
	// What names the content and how it was deleted: "heap 3f… was collected".
	What string
	// Seq is the position of that event, At its time.
	Seq uint64
	At  time.Time
}

// Error names the content, the event and its time.
func (e *RemovedError) Error() string {
	return fmt.Sprintf("%s on %s by event %d", e.What, FormatTime(e.At), e.Seq)
}

// Is reports whether target is ErrRemoved.
func (e *RemovedError) Is(target error) bool { return target == ErrRemoved }

// Collected returns the error of a collected heap. seq and at are those of the event
// that records it.
func Collected(heap string, seq uint64, at time.Time) *RemovedError {
	return &RemovedError{What: "heap " + heap + " was collected", Seq: seq, At: at}
}

// LostError reports a blob that was lost with damage that the operator accepted. It
// matches ErrRemoved.
type LostError struct {
	// What names the blob.
	What string
	// Seq is the position of the event that records the loss.
	Seq uint64
}

// Error names the blob and the event.
func (e *LostError) Error() string {
	return fmt.Sprintf("%s was lost: event %d records that its blob was damaged", e.What, e.Seq)
}

// Is reports whether target is ErrRemoved.
func (e *LostError) Is(target error) bool { return target == ErrRemoved }

// BlobDamagedError is returned if the bytes of a stored heap or text are missing or
// wrong. Only reads of this blob fail. It matches ErrDamaged.
type BlobDamagedError struct {
	Blob LostBlob
	// Why describes the damage.
	Why string
}

// Error names the blob and describes the damage.
func (e *BlobDamagedError) Error() string {
	return fmt.Sprintf("%s %s is damaged in the blob store: %s", e.Blob.Kind, e.Blob.SHA256, e.Why)
}

// Is reports whether target is ErrDamaged.
func (e *BlobDamagedError) Is(target error) bool { return target == ErrDamaged }
