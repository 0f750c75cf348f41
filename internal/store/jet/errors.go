package jet

import (
	"errors"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// cannotRead is the answer of the server if it cannot read the newest message on a
// subject. No other answer without a message means damage.
const cannotRead = "Message Not Found"

// ErrHidden is returned for a request for the newest messages of subjects if the server
// counts one of them but cannot read it.
var ErrHidden = errors.New("the newest message cannot be read")

// ErrRejected is returned for a message that was not stored as requested.
var ErrRejected = errors.New("refused")

// duplicateInFlight is the answer of a cluster to a second try of a message while the
// first one is not yet committed.
const duplicateInFlight natsjs.ErrorCode = 10158

// IsConflict reports whether the server refused a message because of its expected
// position. Replicated streams use a code of their own.
func IsConflict(err error) bool {
	var ae *natsjs.APIError
	return errors.As(err, &ae) &&
		(ae.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequence || ae.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequenceConstant)
}

// IsRejected reports whether the server or the client refused a message, or another
// stream stored it: it is not stored as requested, and another try would fail too.
func IsRejected(err error) bool {
	var ae *natsjs.APIError
	if errors.As(err, &ae) {
		return ae.ErrorCode != duplicateInFlight && ae.Code < 500
	}
	return errors.Is(err, ErrRejected) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrConnectionDraining)
}

// IsSealedError reports whether the server refused a message because the stream is
// sealed.
func IsSealedError(err error) bool {
	var ae *natsjs.APIError
	return errors.As(err, &ae) && ae.ErrorCode == streamSealed
}

// streamSealed is the error code for a write to a sealed stream.
const streamSealed natsjs.ErrorCode = 10109

// isOffline reports whether the server does not open a stream because a file of the stream or of a
// consumer requires another version of the server. A changed bit can cause that.
func isOffline(err error) bool {
	var ae *natsjs.APIError
	return errors.As(err, &ae) && ae.ErrorCode == streamOffline
}

// streamOffline is the error code for a request to a stream that the server has not opened.
const streamOffline natsjs.ErrorCode = 10194

// IsStreamGone reports whether the stream of a request does not exist.
func IsStreamGone(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, natsjs.ErrStreamNotFound)
}

// IsUnwritable reports whether err is an *events.UnwritableError.
func IsUnwritable(err error) bool {
	_, ok := errors.AsType[*events.UnwritableError](err)
	return ok
}
