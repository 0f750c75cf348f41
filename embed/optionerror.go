package embed

import (
	"errors"
	"fmt"
)

// OptionError is returned by Start and Rebuild when an option does not have its form, or
// when its value cannot be used. It may wrap an error of the system. Its message
// begins with the field of Options, one line for each, behind the step that failed; or it
// names a flag.
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

// ofField names the field of Options that an error is about.
func ofField(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}
