package cli

import "io"

// ReadEvents reads a server-sent event stream into fn, for fuzzing.
func ReadEvents(r io.Reader, fn func(id, name, data string)) error {
	_, err := readEvents(r, func(e sseEvent) (bool, error) {
		fn(e.id, e.name, e.data)
		return false, nil
	})
	return err
}
