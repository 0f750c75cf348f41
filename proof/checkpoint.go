package proof

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
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

// ParseCheckpoint parses a signed note. It does not verify the signatures. It ignores lines after
// the third of the text.
func ParseCheckpoint(signed []byte) (Checkpoint, error) {
	if len(signed) > MaxNoteBytes {
		return Checkpoint{}, fmt.Errorf("a checkpoint of %d bytes is longer than 64 KiB", len(signed))
	}
	text, _, ok := bytes.Cut(signed, []byte("\n\n"))
	if !ok {
		return Checkpoint{}, errors.New("it is not a signed note: no empty line before the signatures")
	}
	return parseText(string(text)+"\n", signed)
}

// parseText parses the signed part.
func parseText(text string, signed []byte) (Checkpoint, error) {
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) != 4 || lines[0] == "" {
		return Checkpoint{}, errors.New("a checkpoint has three lines: origin, size and tree hash")
	}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return Checkpoint{}, fmt.Errorf("the size %q of a checkpoint is not a decimal number", lines[1])
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
// the form name+hash+base64. Only keys whose name is the origin of the checkpoint count.
func OpenCheckpoint(signed []byte, keys ...string) (Checkpoint, error) {
	c, err := ParseCheckpoint(signed)
	if err != nil {
		return Checkpoint{}, err
	}
	known, err := verifiers(keys, c.Origin)
	if err != nil {
		return Checkpoint{}, err
	}
	n, err := note.Open(signed, known)
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unverified):
		return Checkpoint{}, fmt.Errorf("checkpoint of %s at %d: %w", c.Origin, c.Size, ErrUnknownKey)
	case err != nil:
		return Checkpoint{}, fmt.Errorf("checkpoint of %s at %d: %w", c.Origin, c.Size, err)
	}
	return parseText(n.Text, signed)
}

// verifiers returns the keys with the given name.
func verifiers(keys []string, name string) (note.Verifiers, error) {
	var list []note.Verifier
	seen := map[string]bool{}
	for _, key := range keys {
		key = strings.TrimSpace(key)
		if seen[key] {
			continue
		}
		seen[key] = true
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("%.80q is not a verification key; a key has the form name+hash+base64, as in the file vkey: %w", key, err)
		}
		if v.Name() == name {
			list = append(list, v)
		}
	}
	return note.VerifierList(list...), nil
}

// ErrBadKey is returned for a text that is not a verification key, for example after a typing
// mistake.
var ErrBadKey = errors.New("not a verification key")

// CheckVKeys returns an error unless every key is well-formed and has the right checksum.
func CheckVKeys(keys []string) error {
	for _, key := range keys {
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
