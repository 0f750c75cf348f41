package audit

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
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
