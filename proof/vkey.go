package proof

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// ErrBadKey is returned for a text that is given as a verification key and is
// none, for example because a character of it is mistyped.
var ErrBadKey = errors.New("not a verification key")

// CheckVKeys checks the form of verification keys, and the sum that each carries.
func CheckVKeys(keys []string) error {
	for _, key := range keys {
		if _, err := note.NewVerifier(strings.TrimSpace(key)); err != nil {
			return fmt.Errorf("%w: %.200q: one is name+hash+base64, as in the file audit/vkey; copy it again", ErrBadKey, key)
		}
	}
	return nil
}

// VKeyName is the name in a verification key, which is the origin of the checkpoints that
// it verifies.
func VKeyName(key string) (string, error) {
	v, err := note.NewVerifier(key)
	if err != nil {
		return "", err
	}
	return v.Name(), nil
}
