package embed

import (
	"errors"
	"fmt"
)

// OptionError is returned by Start and Rebuild when an option does not have its form, or
// when its value cannot be used. It may wrap an error of the system, and a *FieldError for
// each field of Options that it is about. Without one its message names a flag.
type OptionError struct{ err error }

// Error returns the message of the error.
func (e *OptionError) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *OptionError) Unwrap() error { return e.err }

// asOption marks an error as one of an option. ErrLocked is none: the owner may end.
func asOption(err error) error {
	if err == nil || errors.Is(err, ErrLocked) {
		return err
	}
	return &OptionError{err}
}

// FieldError is an error about a field of Options.
type FieldError struct {
	// Field is the name of the field, such as "DataDir" or "OIDC.Issuer".
	Field string

	verb string // between the name and the problem
	err  error
}

// Error returns the name of the field and the problem.
func (e *FieldError) Error() string { return e.Field + e.Problem() }

// Problem returns the message behind the name of the field.
func (e *FieldError) Problem() string { return e.verb + e.err.Error() }

// Unwrap returns the problem.
func (e *FieldError) Unwrap() error { return e.err }

// ofField names the field of Options that an error is about.
func ofField(field string, err error) error {
	if err == nil {
		return nil
	}
	return &FieldError{field, ": ", err}
}

// fieldIs is the error of a field with a value that is named first.
func fieldIs(field, format string, args ...any) error {
	return &FieldError{field, " is ", fmt.Errorf(format, args...)}
}
