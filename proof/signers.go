package proof

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Signers is the list of the statements of a ledger about its signers, in their order. The zero value
// is the empty list, that of a ledger that was made before there were statements. A Signers is
// not safe for concurrent use.
type Signers struct {
	list []Statement
	// bytes is the length of Bytes.
	bytes int
	// signers are the keys that may sign for the current origin, and roots its root keys.
	signers, roots []keyVerifier
}

// maxSignersBytes is the maximum length of a list as text: some thousands of statements.
const maxSignersBytes = 4 << 20

// ParseSigners parses the form of a list that Bytes writes. The error is for a list that is not
// consistent: see Add.
func ParseSigners(raw []byte) (*Signers, error) {
	if len(raw) > maxSignersBytes {
		return nil, errLongSigners
	}
	s := &Signers{}
	for len(raw) > 0 {
		signed, rest, ok := CutNote(raw)
		if !ok {
			return nil, fmt.Errorf("the list of signers is cut off after statement %d", len(s.list))
		}
		if _, err := s.Add(signed); err != nil {
			return nil, err
		}
		raw = rest
	}
	return s, nil
}

// CutNote cuts the first note off a file in which an empty line follows each note. It reports false
// if the first note has no end.
func CutNote(raw []byte) (signed, rest []byte, ok bool) {
	text, signatures, ok := bytes.Cut(raw, []byte("\n\n"))
	if !ok {
		return nil, nil, false
	}
	if signatures, rest, ok = bytes.Cut(signatures, []byte("\n\n")); !ok {
		return nil, nil, false
	}
	return slices.Concat(text, []byte("\n\n"), signatures, []byte("\n")), rest, true
}

// Bytes returns the list as text: each note is followed by an empty line.
func (s *Signers) Bytes() []byte {
	var b bytes.Buffer
	for _, st := range s.list {
		b.Write(st.Note)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// Under returns the statements that a verifier needs for a checkpoint, as Bytes does: those up to the
// last one that is about its origin and not newer. If the only one starts the first origin, they are not
// needed, and the result is empty. The result for a checkpoint changes only if a key is retired later at
// a smaller size than that of the checkpoint.
func (s *Signers) Under(c Checkpoint) []byte {
	return (&Signers{list: s.under(c)}).Bytes()
}

// under returns the statements of Under.
func (s *Signers) under(c Checkpoint) []Statement {
	end := 0
	for i, st := range s.list {
		if st.Origin == c.Origin && (st.Action == StartOrigin || st.Size < c.Size) {
			end = i + 1
		}
	}
	if end == 1 && s.list[0].Predecessor == "" {
		end = 0
	}
	return s.list[:end]
}

// CheckUnder returns an error unless the list came with a checkpoint that covers the events of all. all
// continues the list with the statements of these events, and isRecorded reports whether one of them
// has a statement. The list MUST be that of Under. It may end with statements that were recorded after
// these events, if the last one retires a key at a smaller size. If incomplete is true, events are lost,
// and statements may be missing in them.
func (s *Signers) CheckUnder(c Checkpoint, all *Signers, isRecorded func(Statement) bool, incomplete bool) error {
	if need := all.under(c); len(need) != len(s.list) {
		return fmt.Errorf("the manifest lists %d statements about the signers, and with those in the events there are %d for the checkpoint", len(s.list), len(need))
	}
	later := len(s.list)
	for later > 0 && !isRecorded(s.list[later-1]) {
		later--
	}
	if n := len(s.list); later < n && s.list[n-1].Action != RetireSigner && !incomplete {
		return fmt.Errorf("the manifest lists statement %d about the signers, which is not in the events", s.list[n-1].Number)
	}
	for _, st := range s.list[:later] {
		if !isRecorded(st) && !incomplete {
			return fmt.Errorf("the manifest lists statement %d about the signers, which is not in the events, as later ones are", st.Number)
		}
	}
	return nil
}

// Statements returns the statements.
func (s *Signers) Statements() []Statement { return slices.Clone(s.list) }

// Clone returns a copy of the list.
func (s *Signers) Clone() *Signers {
	return &Signers{list: slices.Clone(s.list), bytes: s.bytes, signers: slices.Clone(s.signers), roots: slices.Clone(s.roots)}
}

var errLongSigners = fmt.Errorf("the list of signers is longer than %d bytes", maxSignersBytes)

// Errors of Continues, wrapped.
var (
	// ErrOtherSigners is about two lists that contradict each other.
	ErrOtherSigners = errors.New("it contradicts the list of signers that was kept")
	// ErrShorterSigners is about a list that lacks statements at the end.
	ErrShorterSigners = errors.New("the list of signers is shorter than the one that was kept")
)

// Continues returns an error unless the list starts with the statements of another one.
func (s *Signers) Continues(kept *Signers) error {
	for i, st := range kept.list {
		if i >= len(s.list) {
			return fmt.Errorf("%w: it has %d statements, and %d were kept", ErrShorterSigners, len(s.list), len(kept.list))
		}
		if s.list[i].Hash() != st.Hash() {
			return fmt.Errorf("statement %d about the signers of %s: %w", i, st.Origin, ErrOtherSigners)
		}
	}
	return nil
}

// Forks reports whether the list contradicts another one, and a key that a verifier with the given keys trusts
// signed the first statement that does. Anyone can start an origin, so that a contradiction alone says nothing
// about the trusted keys.
func (s *Signers) Forks(kept *Signers, given []string) bool {
	for i, st := range s.list[:min(len(s.list), len(kept.list))] {
		if st.Hash() == kept.list[i].Hash() {
			continue
		}
		trust := (&Signers{list: s.list[:i]}).Trust(given)
		return slices.ContainsFunc(st.by, func(k string) bool { return trust.sources[k] != "" && !trust.Retired(k) })
	}
	return false
}

// Origin returns the current origin, or an empty string.
func (s *Signers) Origin() string {
	if len(s.list) == 0 {
		return ""
	}
	return s.list[len(s.list)-1].Origin
}

// Signs reports whether a key may sign checkpoints of the current origin.
func (s *Signers) Signs(vkey string) bool { return hasKey(s.signers, vkey) }

// Keys returns the keys that may sign checkpoints of the current origin.
func (s *Signers) Keys() []string { return namesOf(s.signers) }

// Roots returns the root keys of the current origin.
func (s *Signers) Roots() []string { return namesOf(s.roots) }

func hasKey(list []keyVerifier, vkey string) bool {
	return slices.ContainsFunc(list, func(v keyVerifier) bool { return v.key == vkey })
}

func namesOf(list []keyVerifier) []string {
	var keys []string
	for _, v := range list {
		keys = append(keys, v.key)
	}
	return keys
}

// Next returns a statement that continues the list, to be signed. Its origin is the current one.
func (s *Signers) Next(action Action, vkey string, size uint64) Statement {
	next := Statement{Origin: s.Origin(), Number: uint64(len(s.list)), Action: action, Key: vkey, Size: size}
	if next.Number > 0 {
		next.Previous = s.list[next.Number-1].Hash()
	}
	return next
}

// Add appends a statement. It reports false if the list has the statement already. A statement that
// starts an origin MUST be signed by its key, and any other one by a signer or a root key of the
// origin.
func (s *Signers) Add(signed []byte) (added bool, err error) {
	st, err := ParseStatement(signed)
	if err != nil {
		return false, err
	}
	if st.Number < uint64(len(s.list)) && s.list[st.Number].Hash() == st.Hash() {
		return false, nil
	}
	if next := s.Next(st.Action, st.Key, st.Size); st.Number != next.Number || st.Previous != next.Previous {
		return false, fmt.Errorf("statement %d about the signers of %s: %w", st.Number, st.Origin, ErrNotNext)
	}
	length := s.bytes + len(signed) + 1
	if length > maxSignersBytes {
		return false, errLongSigners
	}
	key, err := newKeyVerifier(st.Key)
	if err == nil {
		st.by, err = s.signersOf(st, key)
	}
	if err != nil {
		return false, fmt.Errorf("statement %d about the signers of %s: %w", st.Number, st.Origin, err)
	}
	switch st.Action {
	case StartOrigin:
		s.signers, s.roots = []keyVerifier{key}, nil
	case IntroduceSigner:
		if !s.Signs(st.Key) {
			s.signers = append(s.signers, key)
		}
	case RetireSigner:
		s.signers = slices.DeleteFunc(s.signers, func(v keyVerifier) bool { return v.key == st.Key })
	case AddRoot:
		if !hasKey(s.roots, st.Key) {
			s.roots = append(s.roots, key)
		}
	}
	s.list, s.bytes = append(s.list, st), length
	return true, nil
}

// signersOf returns the keys that signed a statement, of those that may sign it as the next one. It
// returns an error if there is none, or if the statement is not allowed there. key is that of the
// statement.
func (s *Signers) signersOf(st Statement, key keyVerifier) ([]string, error) {
	permitted := slices.Concat(s.signers, s.roots)
	switch {
	case st.Action == StartOrigin:
		started := slices.ContainsFunc(s.list, func(o Statement) bool { return o.Origin == st.Origin })
		if len(s.list) > 0 && st.Predecessor != s.Origin() || started { // the predecessor of the first one may be older than the list
			return nil, fmt.Errorf("it does not succeed the origin %q", s.Origin())
		}
		permitted = []keyVerifier{key}
	case st.Origin != s.Origin():
		return nil, fmt.Errorf("the current origin is %q", s.Origin())
	case st.Action == RetireSigner && !s.Signs(st.Key):
		return nil, s.notRetirable(st.Key)
	}
	n, err := ParseNote(st.Note)
	if err != nil {
		return nil, err
	}
	by, err := n.signedBy(permitted)
	switch {
	case err != nil || len(by) > 0:
		return by, err
	case st.Action == StartOrigin:
		return nil, errors.New("its own key did not sign it")
	default:
		return nil, errors.New("no signer or root key of the origin signed it")
	}
}

// notRetirable returns the reason why a key that is no signer cannot be retired.
func (s *Signers) notRetirable(vkey string) error {
	for _, st := range slices.Backward(s.list) {
		if st.Action == RetireSigner && st.Key == vkey {
			return fmt.Errorf("the key that it retires is already retired: by statement %d, at %d events", st.Number, st.Size)
		}
	}
	return errors.New("the key that it retires is no signer")
}

// RootKeyPrefix is the beginning of the names of root keys, and of no origin. So a signing key cannot
// be used as a root key.
const RootKeyPrefix = "daybook-root/"

// Trust is what a verifier can trust who was given some keys and read the list of signers.
type Trust struct {
	// Keys are the given keys, and those that keys of Keys introduced.
	Keys []string
	// given are the given keys, and followed is the number of statements that were followed.
	given    map[string]bool
	followed int
	// sources has the result of Source for each key of Keys, and for the root keys that keys of Keys added.
	sources map[string]string
	// verifiers are the keys of Keys that may sign checkpoints, and malformed is why one is no key.
	verifiers map[signatureOf][]keyVerifier
	malformed error
	// retired has the size of the last checkpoint that counts for each retired key.
	retired map[string]uint64
	// successors are the statements that start a successor.
	successors []Statement
}

// signatureOf is what a signature says about its key. Several keys can have the same.
type signatureOf struct {
	name string
	id   uint32
}

// Trust follows the list from the keys that a verifier was given. Keys that a trusted key introduces are
// trusted too. The signature of a key counts only where the list permits it: not after the key was
// retired, and that of a root key only for an origin that has the root key.
func (s *Signers) Trust(given []string) *Trust {
	t := &Trust{given: map[string]bool{}, sources: map[string]string{}, verifiers: map[signatureOf][]keyVerifier{}, retired: map[string]uint64{}}
	for _, k := range given {
		if k = canonicalVKey(k); !t.given[k] {
			t.given[k] = true
			t.add(k, k)
		}
	}
	t.Follow(s)
	return t
}

// add makes a key trusted that is not yet.
func (t *Trust) add(key, source string) {
	t.Keys = append(t.Keys, key)
	t.sources[key] = source
	if isRoot(key) {
		return // it signs no checkpoints
	}
	if err := refuseSigningKey(key); err != nil {
		t.malformed = err
		return
	}
	v, err := newKeyVerifier(key)
	if err != nil {
		t.malformed = fmt.Errorf("%.80q is not a verification key; a key has the form name+hash+base64, as in the file vkey: %w", key, err)
		return
	}
	by := signatureOf{v.Name(), v.KeyHash()}
	t.verifiers[by] = append(t.verifiers[by], v)
}

// Follow follows the statements that were added to the list since Trust or Follow was called.
func (t *Trust) Follow(s *Signers) {
	for _, st := range s.list[t.followed:] {
		t.follow(st)
	}
	t.followed = len(s.list)
}

// follow follows the next statement.
func (t *Trust) follow(st Statement) {
	trusted := slices.DeleteFunc(slices.Clone(st.by), func(k string) bool { return t.sources[k] == "" || t.Retired(k) })
	switch {
	case st.Action == StartOrigin:
		if st.Predecessor != "" {
			t.successors = append(t.successors, st)
		}
	case st.Action == RetireSigner && t.Retired(st.Key): // and no trusted key has introduced it since
		t.retired[st.Key] = min(t.retired[st.Key], st.Size)
	case st.Action == RetireSigner:
		t.retired[st.Key] = st.Size
	case len(trusted) == 0:
	case st.Action == AddRoot:
		if t.sources[st.Key] == "" {
			t.sources[st.Key] = t.sources[trusted[0]]
		}
	case st.Action == IntroduceSigner:
		source := t.sources[trusted[0]]
		switch {
		case slices.ContainsFunc(trusted, func(k string) bool { return isRoot(k) && t.given[k] }):
			source = st.Key
		case !t.Retired(st.Key) && t.sources[st.Key] != "":
			source = t.sources[st.Key]
		}
		delete(t.retired, st.Key)
		if t.sources[st.Key] == "" {
			t.add(st.Key, source)
		}
		t.sources[st.Key] = source
	}
}

func isRoot(vkey string) bool { return strings.HasPrefix(vkey, RootKeyPrefix) }

// Source returns the key that a trusted key follows from. A given key follows from itself, and so does
// a key that a given root key introduced. Any other key follows from the source of the key that
// introduced it: who has stolen that one could have made it up. So keys of one source count as one
// signer. The same holds for a given key that was retired and introduced again: it may have been retired
// because it was stolen.
func (t *Trust) Source(key string) string { return t.sources[key] }

// Retired reports whether a key is retired.
func (t *Trust) Retired(key string) bool {
	_, retired := t.retired[key]
	return retired
}

// Open parses and verifies a checkpoint, like OpenCheckpoint. A checkpoint that only retired keys
// signed, and that is larger than what they may sign, is ErrUnknownKey too.
func (t *Trust) Open(signed []byte) (Checkpoint, error) {
	c, _, err := t.OpenBy(signed)
	return c, err
}

// OpenBy is Open. It also returns the keys that signed the checkpoint and may sign it.
func (t *Trust) OpenBy(signed []byte) (c Checkpoint, by []string, err error) {
	n, err := ParseNote(signed)
	if err == nil {
		c, err = parseText(n.Text, signed)
	}
	if err = cmp.Or(err, t.malformed); err != nil {
		return Checkpoint{}, nil, err
	}
	var known []keyVerifier
	looked := map[uint32]bool{}
	for _, s := range n.Signatures {
		if s.Name != c.Origin || looked[s.ID] {
			continue
		}
		looked[s.ID] = true
		for _, v := range t.verifiers[signatureOf{s.Name, s.ID}] {
			if upTo, retired := t.retired[v.key]; !retired || c.Size <= upTo {
				known = append(known, v)
			}
		}
	}
	return c.openBy(n, known)
}

// Follows reports whether a statement starts a successor with a trusted key.
func (t *Trust) Follows(st Statement) bool {
	return st.Action == StartOrigin && st.Predecessor != "" && t.sources[st.Key] != ""
}

// Superseded reports whether a trusted successor of the origin of a checkpoint gave up what it says:
// the successor, or one after it, confirms fewer events.
func (t *Trust) Superseded(c Checkpoint) bool {
	ended := false
	for _, st := range t.successors {
		ended = ended || st.Predecessor == c.Origin
		if ended && c.Size > st.Size && t.Follows(st) {
			return true
		}
	}
	return false
}
