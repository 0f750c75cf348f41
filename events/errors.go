package events

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that whatever stores events or blobs answers with, so that callers
// need not know what it is.
var (
	// ErrNotFound is returned for a subject, execution, heap or blob that was
	// never recorded.
	ErrNotFound = errors.New("not found")
	// ErrConflict is returned by an append whose expected position is no longer
	// the last on its subject: somebody else wrote first. Nothing was stored.
	ErrConflict = errors.New("another event was recorded first")
	// ErrRemoved is returned for a blob that was stored and then removed on
	// purpose. What the ledger says of it tells why.
	ErrRemoved = errors.New("removed")
	// ErrShredded is returned where content is needed whose key is not there, or
	// was destroyed.
	ErrShredded = errors.New("its key is not there, or was destroyed")
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
	// Passes says that writes are taken again by themselves once that is done.
	Passes bool
}

// Error names what cannot be written and the reason.
func (e *UnwritableError) Error() string { return e.What + " cannot be written: " + e.Reason }

// NoAnswerError is returned when the NATS server that stores the ledger does not answer
// a request. It is a context.DeadlineExceeded.
type NoAnswerError struct {
	// Server is the HOST:PORT of the server, without credentials. Several are separated
	// by commas.
	Server string
	// Unreachable is true without a connection to the server.
	Unreachable bool
	// NotSent is true when it is certain that nothing was sent to be recorded.
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

// RemovedError tells of something on record whose content was removed on
// purpose, and by which event. It is an ErrRemoved.
type RemovedError struct {
	// What was removed and how: "heap 3f… was collected".
	What string
	// Seq is the position of the event that says so, At its time.
	Seq uint64
	At  time.Time
}

// Error names the event and its time.
func (e *RemovedError) Error() string {
	return fmt.Sprintf("%s on %s by event %d", e.What, FormatTime(e.At), e.Seq)
}

// Is reports that it is an ErrRemoved.
func (e *RemovedError) Is(target error) bool { return target == ErrRemoved }

// Collected is the error of a heap that an event says is kept no longer.
func Collected(heap string, seq uint64, at time.Time) *RemovedError {
	return &RemovedError{What: "heap " + heap + " was collected", Seq: seq, At: at}
}

// LostError reports a blob that was lost with damage which the operator accepted.
// It is an ErrRemoved.
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

// BlobDamagedError is returned for a heap or text that is stored and whose bytes
// are missing or wrong. Only reads of this blob fail. It is an ErrDamaged.
type BlobDamagedError struct {
	Blob LostBlob
	// Why says what is wrong.
	Why string
}

// Error names the blob and what is wrong.
func (e *BlobDamagedError) Error() string {
	return fmt.Sprintf("%s %s is damaged in the blob store: %s", e.Blob.Kind, e.Blob.SHA256, e.Why)
}

// Is reports whether target is ErrDamaged.
func (e *BlobDamagedError) Is(target error) bool { return target == ErrDamaged }
