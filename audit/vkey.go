package audit

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// vkeyOf is the verification key that belongs to a signing key.
func vkeyOf(skey string) (string, error) {
	parts := strings.SplitN(skey, "+", 5) // PRIVATE+KEY+name+hash+key
	if len(parts) != 5 {
		return "", errors.New("malformed signing key")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return "", errors.New("the signing key is not of the kind Ed25519")
	}
	public := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	return note.NewEd25519VerifierKey(parts[2], public)
}

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
