package acp

import (
	"context"
	"errors"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// refusal returns the answer to a request that failed with err. It logs an internal
// error and does not show it to the client.
func (c *client) refusal(err error) *sdk.RequestError {
	if err == nil {
		return nil
	}
	if r, ok := errors.AsType[*sdk.RequestError](err); ok {
		return r
	}
	answer := func(code int, err error) *sdk.RequestError {
		return &sdk.RequestError{Code: code, Message: err.Error()}
	}
	switch {
	case errors.Is(err, projections.ErrBadQuery):
		return answer(codeInvalidParams, err)
	case errors.Is(err, events.ErrNotFound):
		return answer(codeNotFound, err)
	case errors.Is(err, context.Canceled):
		return sdk.NewRequestCancelled(nil)
	}
	switch ledger.CodeOf(err) {
	case ledger.CodeInvalid, ledger.CodeTooLarge:
		return answer(codeInvalidParams, err)
	case ledger.CodeNotFound, ledger.CodeGone:
		return answer(codeNotFound, err)
	case ledger.CodeConflict, ledger.CodeExhausted:
		return answer(codeInvalidRequest, err)
	case ledger.CodeUnavailable:
		return answer(codeInternal, err)
	case ledger.CodeInternal:
	}
	c.server.opts.Logger.Error("handle an ACP request", "error", err)
	return &sdk.RequestError{Code: codeInternal, Message: "internal error; the server's log has the details"}
}

func invalid(message string) error {
	return &sdk.RequestError{Code: codeInvalidParams, Message: message}
}
