package proof

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Checkpoint is a signed statement that the first Size events of a ledger have the tree hash Root.
type Checkpoint struct {
	// Origin is the name of the ledger.
	Origin string
	Size   uint64
	Root   Hash
	// Note is the signed note, as published.
	Note []byte
}

// MaxNoteBytes is the maximum length of a signed note in bytes.
const MaxNoteBytes = 64 << 10

// text returns the signed part (C2SP tlog-checkpoint).
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// Sign returns the checkpoint with its signed note.
func (c Checkpoint) Sign(signer note.Signer) (Checkpoint, error) {
	signed, err := note.Sign(&note.Note{Text: c.text()}, signer)
	if err != nil {
		return c, fmt.Errorf("sign a checkpoint: %w", err)
	}
	c.Note = signed
	return c, nil
}

// ParseCheckpoint parses a signed note. It verifies no signature. It ignores extension lines, which
// are the lines after the third of the text.
func ParseCheckpoint(signed []byte) (Checkpoint, error) {
	n, err := ParseNote(signed)
	if err != nil {
		return Checkpoint{}, err
	}
	return parseText(n.Text, signed)
}

// parseText parses the signed part.
func parseText(text string, signed []byte) (Checkpoint, error) {
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) != 4 || lines[0] == "" {
		return Checkpoint{}, errors.New("a checkpoint has three lines: origin, size and tree hash")
	}
	if extensions := "\n" + lines[3]; strings.Contains(extensions, "\n\n") {
		return Checkpoint{}, errors.New("a checkpoint has an empty extension line")
	}
	size, err := strconv.ParseUint(lines[1], 10, maxSizeBits)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return Checkpoint{}, fmt.Errorf("the size %.40q of a checkpoint is not a decimal number below 2^%d", lines[1], maxSizeBits)
	}
	root, err := DecodeHash(lines[2])
	if err != nil {
		return Checkpoint{}, fmt.Errorf("the tree hash of a checkpoint: %w", err)
	}
	return Checkpoint{Origin: lines[0], Size: size, Root: root, Note: signed}, nil
}

// DecodeHash decodes a hash from base64. It accepts only what EncodeHash returns.
func DecodeHash(s string) (h Hash, err error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != len(h) || len(s) != base64.StdEncoding.EncodedLen(len(h)) {
		return h, fmt.Errorf("%.64q is not the base64 of 32 bytes", s)
	}
	copy(h[:], raw)
	return h, nil
}

// EncodeHash returns a hash in base64.
func EncodeHash(h Hash) string { return base64.StdEncoding.EncodeToString(h[:]) }

// ErrUnknownKey is returned for a checkpoint without a signature of the given keys.
var ErrUnknownKey = errors.New("it is signed by none of the keys given")

// OpenCheckpoint parses a signed note and verifies it with the given verification keys, each in
// the form name+hash+base64. Only keys whose name is the origin of the checkpoint count. Signatures
// of other keys, for example of witnesses, are ignored; a wrong signature of one of the given keys is
// an error.
func OpenCheckpoint(signed []byte, keys ...string) (Checkpoint, error) {
	c, _, err := openCheckpoint(signed, keys)
	return c, err
}

// openCheckpoint is OpenCheckpoint. It also returns the keys that signed.
func openCheckpoint(signed []byte, keys []string) (c Checkpoint, by []string, err error) {
	n, err := ParseNote(signed)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	if c, err = parseText(n.Text, signed); err != nil {
		return Checkpoint{}, nil, err
	}
	known, err := verifiers(keys, c.Origin)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	return c.openBy(n, known)
}

// openBy verifies the signatures of a checkpoint, of which n is the note, with keys of its origin.
func (c Checkpoint) openBy(n Note, known []keyVerifier) (Checkpoint, []string, error) {
	by, err := n.signedBy(known)
	if err == nil && len(by) == 0 {
		err = ErrUnknownKey
	}
	if err != nil {
		return Checkpoint{}, nil, fmt.Errorf("checkpoint of %s at %d: %w", c.Origin, c.Size, err)
	}
	return c, by, nil
}

// keyVerifier is a verification key.
type keyVerifier struct {
	note.Verifier
	key string
}

func newKeyVerifier(key string) (keyVerifier, error) {
	v, err := note.NewVerifier(key)
	return keyVerifier{v, key}, err
}

// canonicalVKey returns a verification key in its only form, or the text itself if it is no key: the key
// hash can be written in other letters, and base64 with other bits at the end.
func canonicalVKey(key string) string {
	key = strings.TrimSpace(key)
	name, rest, _ := strings.Cut(key, "+")
	hash, encoded, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if _, invalid := note.NewVerifier(key); err != nil || invalid != nil {
		return key
	}
	return name + "+" + strings.ToLower(hash) + "+" + base64.StdEncoding.EncodeToString(raw)
}

// signedBy returns the keys that signed the note. It verifies all signatures of the keys, also several
// of one key; a wrong one is an error. Several keys can have the same name and hash.
func (n Note) signedBy(known []keyVerifier) (by []string, err error) {
	for _, s := range n.Signatures {
		named, right := false, false
		for _, v := range known {
			if v.KeyHash() != s.ID || v.Name() != s.Name {
				continue
			}
			named = true
			if !v.Verify([]byte(n.Text), s.Raw) {
				continue
			}
			right = true
			if !slices.Contains(by, v.key) {
				by = append(by, v.key)
			}
		}
		if named && !right {
			return nil, fmt.Errorf("the signature of the key %s+%08x is wrong", s.Name, s.ID)
		}
	}
	return by, nil
}

// verifiers returns the keys with the given name.
func verifiers(keys []string, name string) ([]keyVerifier, error) {
	var list []keyVerifier
	seen := map[string]bool{}
	for _, key := range keys {
		key = strings.TrimSpace(key)
		if seen[key] {
			continue
		}
		seen[key] = true
		if err := refuseSigningKey(key); err != nil {
			return nil, err
		}
		v, err := newKeyVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("%.80q is not a verification key; a key has the form name+hash+base64, as in the file vkey: %w", key, err)
		}
		if v.Name() == name {
			list = append(list, v)
		}
	}
	return list, nil
}

// ErrBadKey is returned for a text that is not a verification key, for example after a typing
// mistake.
var ErrBadKey = errors.New("not a verification key")

// refuseSigningKey returns an error if the text has a signing key. The error does not have the text: messages are
// logged and shown to others.
func refuseSigningKey(text string) error {
	if strings.Contains(text, "PRIVATE+KEY+") {
		return fmt.Errorf("%w: it is a signing key, which must stay secret: give its verification key, as in the file audit/vkey", ErrBadKey)
	}
	return nil
}

// CheckVKeys returns an error unless every key is well-formed and has the right checksum.
func CheckVKeys(keys []string) error {
	for _, key := range keys {
		if err := refuseSigningKey(key); err != nil {
			return err
		}
		if _, err := note.NewVerifier(strings.TrimSpace(key)); err != nil {
			return fmt.Errorf("%w: %.200q: a key has the form name+hash+base64, as in the file audit/vkey; copy it again", ErrBadKey, key)
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
