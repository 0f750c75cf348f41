package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"daybook/httpapi"
)

// ErrNoServer is the error of a request that no Daybook server answered: nothing listens
// at the address, the connection broke, or the answer is not one of a Daybook server. The
// returned errors match ErrNoServer and wrap the cause. If the context is done, the error
// does not match ErrNoServer, because the server is not at fault.
var ErrNoServer = errors.New("no server answers")

// noServerError gives an error the class ErrNoServer and keeps its text.
type noServerError struct{ error }

func (e noServerError) Unwrap() error        { return e.error }
func (e noServerError) Is(target error) bool { return target == ErrNoServer }

// noServer returns err as ErrNoServer, or unchanged if ctx is done.
func noServer(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return noServerError{err}
}

// Error is an error that the server answered.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code is the class of the error; empty if the answer has none.
	Code string
	// Message is the text of the error.
	Message string
	// Field is the rejected part of the request; empty for none.
	Field string
	// Permanent is true for a limit that does not reset with time.
	Permanent bool
	// Location is the target of a redirect, which is never followed; empty for none.
	Location string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// IsTemporary reports whether the same request may succeed later.
func (e *Error) IsTemporary() bool {
	return !e.Permanent && (e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests)
}

// maxProblem is the maximum number of bytes that are read of an error.
const maxProblem = 64 << 10

// answerError returns the error that a server answered.
func answerError(resp *http.Response) *Error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	var p httpapi.Problem
	e := &Error{Status: resp.StatusCode, Message: strings.TrimSpace(string(raw)), Location: resp.Header.Get("Location")}
	if json.Unmarshal(raw, &p) == nil && p.Error+p.Detail != "" {
		e.Message = p.Error
		if e.Message == "" {
			e.Message = p.Detail
		}
	}
	e.Code, e.Field, e.Permanent = p.Code, p.Field, p.Permanent
	switch {
	case e.Location != "" && e.Status < http.StatusBadRequest:
		e.Message = "the server redirects to " + e.Location
	case e.Message == "":
		e.Message = "the server answered " + resp.Status
	}
	return e
}
