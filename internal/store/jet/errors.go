package jet

import (
	"errors"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// cannotRead is what the server says when the newest message of a subject cannot be read.
// Whatever else it says of a request that has no answer is no damage.
const cannotRead = "Message Not Found"

// ErrHidden is the error of a request for the newest message of subjects, one of which the
// server has and cannot read.
var ErrHidden = errors.New("the newest message cannot be read")

// ErrRejected is the error of a message that was not stored as it was meant to be.
var ErrRejected = errors.New("refused")

// duplicateInFlight is the answer of a cluster to a second try while the first
// is still being agreed upon.
const duplicateInFlight natsjs.ErrorCode = 10158

// IsConflict reports whether the server refused because of the expected
// position. Streams with several copies use a code of their own.
func IsConflict(err error) bool {
	var ae *natsjs.APIError
	return errors.As(err, &ae) &&
		(ae.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequence || ae.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequenceConstant)
}

// IsRejected reports whether the server, or the client, said no: the message is
// surely not stored, and trying again would not help.
func IsRejected(err error) bool {
	var ae *natsjs.APIError
	if errors.As(err, &ae) {
		return ae.ErrorCode != duplicateInFlight && ae.Code < 500
	}
	return errors.Is(err, ErrRejected) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrConnectionDraining)
}

// IsSealedError reports whether the server refused because the stream is sealed.
func IsSealedError(err error) bool {
	var ae *natsjs.APIError
	return errors.As(err, &ae) && ae.ErrorCode == streamSealed
}

// streamSealed is the server's code for a write to a sealed stream.
const streamSealed natsjs.ErrorCode = 10109

// IsStreamGone reports whether there was no stream to answer.
func IsStreamGone(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, natsjs.ErrStreamNotFound)
}

// IsUnwritable reports whether an error is a *events.UnwritableError.
func IsUnwritable(err error) bool {
	_, ok := errors.AsType[*events.UnwritableError](err)
	return ok
}
