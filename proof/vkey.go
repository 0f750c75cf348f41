package proof

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// ErrBadKey is returned for a text that is not a verification key, for example after a typing
// mistake.
var ErrBadKey = errors.New("not a verification key")

// CheckVKeys returns an error unless every key is well-formed and has the right checksum.
func CheckVKeys(keys []string) error {
	for _, key := range keys {
		if _, err := note.NewVerifier(strings.TrimSpace(key)); err != nil {
			return fmt.Errorf("%w: %.200q: one is name+hash+base64, as in the file audit/vkey; copy it again", ErrBadKey, key)
		}
	}
	return nil
}

// VKeyName returns the name in a verification key. It is the origin of the checkpoints that the
// key verifies.
func VKeyName(key string) (string, error) {
	v, err := note.NewVerifier(key)
	if err != nil {
		return "", err
	}
	return v.Name(), nil
}
