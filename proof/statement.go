package proof

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Action is what a Statement changes.
type Action string

// The actions of statements.
const (
	// StartOrigin starts an origin. Key is its first signer.
	StartOrigin Action = "start"
	// IntroduceSigner lets Key sign checkpoints and statements of the origin.
	IntroduceSigner Action = "introduce"
	// RetireSigner ends that: checkpoints of Key with more than Size events do not count.
	RetireSigner Action = "retire"
	// AddRoot lets Key, which is kept offline, sign statements of the origin. It signs no
	// checkpoints.
	AddRoot Action = "root"
)

// Statement is a signed entry in the list of the signers of a ledger. The list has one entry per
// change, over all origins of the ledger. Each entry contains the hash of the entry before it, so
// that a signer that is retired cannot add entries behind the others' back.
type Statement struct {
	// Origin is the name of the origin that the statement is about.
	Origin string
	// Number is the index of the statement in the list, from 0.
	Number uint64
	// Previous is the Hash of the statement before it, or zero for the first one.
	Previous Hash
	Action   Action
	// Key is a verification key.
	Key string
	// Size is a number of events: with StartOrigin that of the last checkpoint of the predecessor
	// that still holds, or 0; with RetireSigner see there; otherwise that of the ledger when the
	// statement was made.
	Size uint64
	// Predecessor is the origin that ends with a StartOrigin, and Root the tree hash over its first
	// Size events. The first origin of a ledger has no predecessor.
	Predecessor string
	Root        Hash
	// Note is the signed note.
	Note []byte
	// by are the keys that signed it, of those that may sign it at its place of the list.
	by []string
}

// statementVersion is the first line of a statement.
const statementVersion = "daybook-signers-v1"

// text returns the signed part: a line each for the version, the origin, the number, the hash of the
// statement before, the action with its key, and the size. A successor has two more, with its
// predecessor and the tree hash.
func (s Statement) text() string {
	text := fmt.Sprintf("%s\n%s\n%d\n%s\n%s %s\n%d\n", statementVersion, s.Origin, s.Number, EncodeHash(s.Previous), s.Action, s.Key, s.Size)
	if s.Predecessor != "" {
		text += fmt.Sprintf("%s\n%s\n", s.Predecessor, EncodeHash(s.Root))
	}
	return text
}

// Hash returns the SHA-256 of the signed part, without the signatures.
func (s Statement) Hash() Hash { return sha256.Sum256([]byte(s.text())) }

// Sign returns the statement with its signed note.
func (s Statement) Sign(signer note.Signer) (Statement, error) {
	signed, err := note.Sign(&note.Note{Text: s.text()}, signer)
	if err != nil {
		return s, fmt.Errorf("sign a statement about the signers: %w", err)
	}
	s.Note = signed
	return s, nil
}

// ParseStatement parses a signed note. It does not verify the signatures.
func ParseStatement(signed []byte) (s Statement, err error) {
	fail := func(format string, args ...any) (Statement, error) {
		return Statement{}, fmt.Errorf("a statement about the signers: "+format, args...)
	}
	n, err := ParseNote(signed)
	if err != nil {
		return fail("%w", err)
	}
	lines := strings.Split(strings.TrimSuffix(n.Text, "\n"), "\n")
	if lines[0] != statementVersion {
		return fail("it does not start with %s", statementVersion)
	}
	if len(lines) != 6 && len(lines) != 8 {
		return fail("%d lines, want 6 or 8", len(lines))
	}
	s = Statement{Origin: lines[1], Note: signed}
	action, key, _ := strings.Cut(lines[4], " ")
	s.Action, s.Key = Action(action), key
	if s.Number, err = strconv.ParseUint(lines[2], 10, 32); err == nil {
		s.Size, err = strconv.ParseUint(lines[5], 10, 63)
	}
	if err == nil {
		s.Previous, err = DecodeHash(lines[3])
	}
	if len(lines) == 8 && err == nil {
		s.Predecessor = lines[6]
		s.Root, err = DecodeHash(lines[7])
	}
	if err != nil {
		return fail("%w", err)
	}
	switch s.Action {
	case StartOrigin, IntroduceSigner, RetireSigner, AddRoot:
	default:
		return fail("the action %.40q is unknown; read the list with a newer version", action)
	}
	if s.Origin == "" || len(lines) == 8 && (s.Action != StartOrigin || s.Predecessor == "" || s.Predecessor == s.Origin) {
		return fail("it contradicts itself")
	}
	name, err := VKeyName(key)
	if err != nil || canonicalVKey(key) != key {
		return fail("%.80q is not a verification key", key)
	}
	if strings.HasPrefix(s.Origin, RootKeyPrefix) {
		return fail("no origin is named %s, because root keys are named so", s.Origin)
	}
	if s.Action == AddRoot && !strings.HasPrefix(name, RootKeyPrefix) {
		return fail("the key is named %s, and the name of a root key begins with %s", name, RootKeyPrefix)
	}
	if s.Action != AddRoot && name != s.Origin {
		return fail("the key is named %s, and a signer of %s must be named so", name, s.Origin)
	}
	if s.text() != n.Text {
		return fail("a number is not written as its shortest form")
	}
	return s, nil
}

// ErrNotNext is returned by Signers.Add for a statement that does not continue the list.
var ErrNotNext = errors.New("it does not continue the list of signers")
