package proof

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// NewKey returns a new Ed25519 signing key with a name, and its verification key.
func NewKey(name string) (skey, vkey string, err error) {
	if !validKeyName(name) {
		return "", "", badName(name)
	}
	if skey, vkey, err = note.GenerateKey(rand.Reader, name); err != nil {
		return "", "", fmt.Errorf("generate a signing key: %w", err)
	}
	return skey, vkey, nil
}

// ParseKey returns the signer of a signing key, and its verification key.
func ParseKey(skey string) (signer note.Signer, vkey string, err error) {
	if signer, err = note.NewSigner(skey); err != nil {
		return nil, "", err
	}
	parts := strings.SplitN(skey, "+", 5) // PRIVATE+KEY+name+hash+key
	if len(parts) != 5 {
		return nil, "", errors.New("malformed signing key")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return nil, "", errors.New("the signing key is not an Ed25519 key")
	}
	public := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	vkey, err = note.NewEd25519VerifierKey(parts[2], public)
	return signer, vkey, err
}
