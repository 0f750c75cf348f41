package embed

import (
	"errors"
	"fmt"
)

// OptionError is returned by Start and Rebuild if an option has no valid form or its
// value cannot be used. It may wrap an error of the system, and a *FieldError for each
// field of Options that it is about. Without a FieldError its message names a flag.
type OptionError struct{ err error }

// Error returns the message.
func (e *OptionError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *OptionError) Unwrap() error { return e.err }

// asOption marks an error as one of an option, except ErrLocked: the owner may end.
func asOption(err error) error {
	if err == nil || errors.Is(err, ErrLocked) {
		return err
	}
	return &OptionError{err}
}

// FieldError is an error about a field of Options.
type FieldError struct {
	// Field is the name of the field, such as "DataDir" or "Access.OIDC.Issuer".
	Field string
	// Range is the broken rule if the value is out of range, and Value is that value as
	// text. For other errors Range is nil and Value is empty.
	Range *Range
	Value string

	verb string // between the name and the problem
	err  error
}

// Error returns the name of the field and the problem.
func (e *FieldError) Error() string { return e.Field + e.Problem() }

// Problem returns the message without the name of the field.
func (e *FieldError) Problem() string { return e.verb + e.err.Error() }

// Unwrap returns the problem.
func (e *FieldError) Unwrap() error { return e.err }

// ofField adds the name of the field that an error is about.
func ofField(field string, err error) error {
	if err == nil {
		return nil
	}
	return &FieldError{Field: field, verb: ": ", err: err}
}

// fieldIs returns the error of a field whose message starts with the value.
func fieldIs(field, format string, args ...any) error {
	return &FieldError{Field: field, verb: " is ", err: fmt.Errorf(format, args...)}
}

// outOfRange returns the error of a field whose value breaks a rule.
func outOfRange(field, verb, value string, rule Range) error {
	return &FieldError{Field: field, Range: &rule, Value: value, verb: verb, err: fmt.Errorf("%s: %v", value, rule)}
}
