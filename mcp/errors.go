package mcp

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/projections"
)

// refuse returns the result of a call that failed: a message that a model can act on.
// Internal errors are logged and not shown.
func (s *Server) refuse(ctx context.Context, tool string, err error) *sdk.CallToolResult {
	message, ours := explain(ctx, err)
	if ours {
		s.logger.ErrorContext(ctx, "tool call", "tool", tool, "err", err)
	}
	return &sdk.CallToolResult{
		IsError: true,
		Content: []sdk.Content{&sdk.TextContent{Text: message}},
	}
}

// protocolError returns the JSON-RPC error for an error that a tool call would report in
// its result.
func (s *Server) protocolError(ctx context.Context, what string, err error) error {
	message, ours := explain(ctx, err)
	if ours {
		s.logger.ErrorContext(ctx, "request", "method", what, "err", err)
	}
	code := int64(jsonrpc.CodeInvalidParams)
	switch codeOf(err) {
	case ledger.CodeUnavailable, ledger.CodeInternal, ledger.CodeExhausted:
		code = jsonrpc.CodeInternalError
	}
	return &jsonrpc.Error{Code: code, Message: message}
}

// explain returns the message for an error. ours is true if the cause is internal, so that
// the caller logs the error. No other function has a table of messages by error code.
func explain(ctx context.Context, err error) (message string, ours bool) {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, errClosing) {
			return "The server is shutting down. Accepted requests stay recorded. Try again when a server runs again.", false
		}
		message := "The call was cancelled before it was done."
		if accepted, ok := errors.AsType[*acceptedError](err); ok {
			message += " The run was accepted as execution " + accepted.executionID + " and continues."
		}
		return message, false
	}
	if full, ok := errors.AsType[*budget.ExhaustedError](err); ok {
		return full.Error(), false
	}
	if busy, ok := errors.AsType[*reads.BusyError](err); ok {
		return busy.Error(), false
	}
	switch code := codeOf(err); code {
	case ledger.CodeInvalid, ledger.CodeTooLarge, ledger.CodeNotFound, ledger.CodeConflict, ledger.CodeGone:
		return err.Error(), false
	case ledger.CodeExhausted:
		if _, known := errors.AsType[*access.LimitError](err); known {
			return err.Error(), false // names the limit and the time of the next try
		}
		if known, ok := errors.AsType[*ledger.Error](err); ok && known.RetryAfter > 0 {
			return err.Error(), false // names the time of the next try
		}
		return err.Error() + " (over a quota: wait before trying again)", false
	case ledger.CodeUnavailable:
		if _, damaged := errors.AsType[*events.BlobDamagedError](err); damaged {
			return err.Error() + ". It is not served. Ask the operator to run `daybook status`.", false
		}
		_, known := errors.AsType[*ledger.Error](err)
		if known && !ledger.Temporary(err) {
			return err.Error(), true
		}
		if silent, hangs := errors.AsType[*events.NoAnswerError](err); hangs && !known {
			return silent.Error(), true
		}
		return err.Error() + " (temporary: try again in a few seconds; with the same idempotency_key run_js never runs twice)", true
	case ledger.CodeInternal:
		if errors.Is(err, events.ErrDamaged) {
			return "Stored data is damaged, and damaged data is never served. Ask the operator to run `daybook verify`.", true
		}
		return "The server failed with an internal error; its log has the details. The arguments are valid.", true
	default:
		return "The server failed with an internal error; its log has the details.", true
	}
}

// codeOf returns the code of an error of the write side or the read side.
func codeOf(err error) ledger.Code {
	switch {
	case errors.Is(err, projections.ErrBadQuery):
		return ledger.CodeInvalid
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return ledger.CodeUnavailable
	default:
		return ledger.CodeOf(err)
	}
}

func executionNotFound(id string) error {
	return &ledger.Error{
		Code: ledger.CodeNotFound, Field: "execution_id",
		Message: "Execution '" + ledger.Excerpt(id) + "' not found; take execution_id from run_js or list_executions",
	}
}
