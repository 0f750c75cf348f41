package acp

import (
	"context"
	"errors"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// refusal is the answer to a request that could not be honoured. What is our
// fault is logged here and told in general terms.
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
	c.server.opts.Logger.Error("a request of an ACP client", "error", err)
	return &sdk.RequestError{Code: codeInternal, Message: "the server could not do this; its log tells more"}
}

func invalid(message string) error {
	return &sdk.RequestError{Code: codeInvalidParams, Message: message}
}
