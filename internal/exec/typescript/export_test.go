package typescript

import "fmt"

// NotErasableError is returned for a construct that is not only types.
type NotErasableError struct{ *notErasable }

func (e *NotErasableError) Error() string {
	return fmt.Sprintf("%d:%d: %s cannot be erased", e.line, e.column, e.construct)
}

// Erase erases the types of a source. It returns a *NotErasableError for a construct that cannot be
// erased.
func Erase(source []byte) ([]byte, error) {
	t, err := parse(source)
	if err != nil {
		return nil, err
	}
	erased, stays, err := t.erase()
	switch {
	case err != nil:
		return nil, err
	case stays != nil:
		return nil, &NotErasableError{stays}
	}
	return erased, nil
}

// Errors of the parser.
var (
	ErrSyntax  = errSyntax
	ErrTooDeep = errTooDeep
	ErrNotText = errNotText
)
