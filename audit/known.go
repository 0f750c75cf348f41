package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"daybook/internal/eventproof"
	"daybook/proof"
)

// KnownError is returned for a checkpoint in VerifyOptions.Known that cannot be used.
type KnownError struct{ err error }

// Error returns the message of the error.
func (e *KnownError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *KnownError) Unwrap() error { return e.err }

// ParseKnown parses a checkpoint for VerifyOptions.Known. The error is a *KnownError.
func ParseKnown(note []byte) (proof.Checkpoint, error) {
	c, err := proof.ParseCheckpoint(note)
	if err != nil {
		return c, &KnownError{fmt.Errorf("the kept checkpoint cannot be read: %w", err)}
	}
	return c, nil
}

// checkKnown returns a *KnownError for known checkpoints without given keys. Then nothing can be known: the
// keys beside the data may be those of a forger.
func checkKnown(opts VerifyOptions) error {
	if len(opts.Known) > 0 && len(opts.Keys) == 0 {
		return &KnownError{errors.New("a kept checkpoint proves nothing without the key that signed it: give the key with --key")}
	}
	return nil
}

// checkKnownSigned returns a *KnownError unless a trusted key signed each known checkpoint: a given one, or one
// that follows from it in the list of signers that is followed or that was kept. A remembered checkpoint
// counts although its key was retired at a smaller size since: otherwise a retirement could hide that
// the events it covers were changed.
func (opts *VerifyOptions) checkKnownSigned() error {
	given := opts.Keys
	if opts.given != nil {
		given = opts.given
	}
	followed, kept := opts.list.Trust(given), &proof.Trust{}
	if opts.Signers != nil {
		kept = opts.Signers.Trust(given)
	}
	for i, c := range opts.Known {
		_, err := followed.Open(c.Note)
		if err == nil {
			continue
		}
		_, keptErr := kept.Open(c.Note)
		if errors.Is(keptErr, proof.ErrUnknownKey) && i < opts.Remembered {
			_, keptErr = proof.OpenCheckpoint(c.Note, kept.Keys...)
		}
		if keptErr != nil {
			if _, err := proof.OpenCheckpoint(c.Note, followed.Keys...); err == nil {
				return &KnownError{fmt.Errorf("the kept checkpoint of %d events proves nothing: the key that signed it was retired at fewer events", c.Size)}
			}
			return &KnownError{fmt.Errorf("the kept checkpoint of %d events cannot be used: %w; give the key that signed it with --key", c.Size, err)}
		}
	}
	return nil
}

// checkOrigin returns a *KnownError unless the known checkpoints are of the ledger with an origin, or of
// an origin in its list of signers. If the origin is empty, it is not known.
func (opts *VerifyOptions) checkOrigin(origin string) error {
	for _, c := range opts.Known {
		isOf := func(st proof.Statement) bool { return st.Origin == c.Origin || st.Predecessor == c.Origin }
		if origin != "" && c.Origin != origin && !slices.ContainsFunc(opts.list.Statements(), isOf) {
			return &KnownError{fmt.Errorf("the kept checkpoint of %d events is of the ledger %s, but this ledger is %s: compare a ledger with its own checkpoints", c.Size, c.Origin, origin)}
		}
	}
	return nil
}

// compareKnown compares a known checkpoint with the tree. A loss of unknown hashes excuses nothing here:
// the origin ended with it, so that the checkpoint is superseded if its successor is trusted.
func (v *verifier) compareKnown(c proof.Checkpoint, root proof.Hash) {
	_, unknown := eventproof.UnknownIn(v.lost, c.Size)
	switch {
	case v.opts.trust.Superseded(c):
		v.report.Superseded++
	case unknown:
		v.report.addFinding(0, "the kept checkpoint of %d events cannot be compared: some of them are lost, and their hashes are not known", c.Size)
	case c.Root != root:
		v.noteRetired(c)
		v.report.addContradiction(0, c.Size, "the kept checkpoint of %d events has the tree hash %s; computed from the events it is %s", c.Size, proof.EncodeHash(c.Root), proof.EncodeHash(root))
	default:
		v.report.Known++
		if _, by, err := v.opts.trust.OpenBy(c.Note); err == nil {
			v.signers.saw(c, by)
		}
		if v.isRemembered(c) {
			v.holds = max(v.holds, c.Size)
		}
	}
}

// noteRetired says what to do about a known checkpoint that the ledger does not confirm, if its key was retired at
// a smaller size since: the key may have been stolen, and the thief may have shown another history.
func (v *verifier) noteRetired(c proof.Checkpoint) {
	if _, err := v.opts.trust.Open(c.Note); !errors.Is(err, proof.ErrUnknownKey) {
		return
	}
	if _, err := proof.OpenCheckpoint(c.Note, v.opts.trust.Keys...); err == nil {
		v.report.addNote("the key that signed the kept checkpoint of %d events was retired at fewer events since. If it was stolen, move the directory of --log aside and start a new one from the last checkpoint before the theft: see \"A key was stolen\" in docs/guides/auditing.md", c.Size)
	}
}

// isRemembered reports whether earlier verifications compared a known checkpoint with the other ones that
// they remember.
func (v *verifier) isRemembered(c proof.Checkpoint) bool {
	list := v.opts.Known[:min(v.opts.Remembered, len(v.opts.Known))]
	return slices.ContainsFunc(list, func(k proof.Checkpoint) bool { return bytes.Equal(k.Note, c.Note) })
}

// checkHidden reports the known checkpoints that cannot be compared because they end inside a lost tile: what
// they cover may have been replaced together with the hash over the tile. A checkpoint is excused if a larger
// one holds and earlier verifications compared the two.
func (v *verifier) checkHidden() {
	for _, c := range v.hidden {
		if c.Size < v.holds && v.isRemembered(c) {
			v.report.Incomparable++
			continue
		}
		v.report.addFinding(0, "the kept checkpoint of %d events cannot be compared: some of them are lost, and their hashes are known only as one hash over 256 positions; ask the operator for the events or their hashes", c.Size)
	}
	v.hidden = nil
}

// knownBeyond reports a known checkpoint that was not compared with the tree. It covers more events
// than there are, or its size is that of no computed tree.
func (v *verifier) knownBeyond(c proof.Checkpoint, last uint64) {
	if v.opts.trust.Superseded(c) {
		v.report.Superseded++
		return
	}
	switch {
	case c.Size > last:
		v.noteRetired(c)
		v.report.addBeyond("the kept checkpoint covers %d events, but the %s ends at %d", c.Size, v.report.noun(), last)
	case eventproof.IsInLostTile(v.lost, c.Size):
		v.hidden = append(v.hidden, c)
	case c.Size == 0: // the tree had this size before the first event
		v.compareKnown(c, proof.NewTree(nil).Root())
	default:
		v.report.addFinding(0, "the kept checkpoint of %d events cannot be compared", c.Size)
	}
}

// checkExtends compares the known checkpoints with the tree of c, when no tree is computed. prove
// returns a proof that the tree of size to extends the tree of size from; if it is nil, only
// checkpoints of the same size can be compared.
func (v *verifier) checkExtends(c proof.Checkpoint, prove func(from, to uint64) (proof.Consistency, error)) error {
	for _, size := range slices.Sorted(maps.Keys(v.known)) {
		for _, known := range v.known[size] {
			switch {
			case size > c.Size:
				v.knownBeyond(known, c.Size)
			case size == c.Size:
				v.compareKnown(known, c.Root)
			case prove == nil:
				return &KnownError{fmt.Errorf("the kept checkpoint of %d events cannot be compared with a partial export; verify a complete export or the server", size)}
			case v.opts.trust.Superseded(known): // needs no proof, and there may be none
				v.report.Superseded++
			default:
				p, err := prove(size, c.Size)
				if codeOf(err) != "" && eventproof.IsInLostTile(v.lost, size) { // the server has no proof either
					v.hidden = append(v.hidden, known)
					continue
				}
				if err != nil {
					return fmt.Errorf("compare the kept checkpoint of %d events: %w", size, err)
				}
				if p.From, p.To, p.ToRoot = size, c.Size, c.Root; p.Check() != nil {
					v.report.addFinding(0, "no valid proof connects the kept checkpoint of %d events with the one of %d events", size, c.Size)
					continue
				}
				v.compareKnown(known, p.FromRoot)
			}
		}
	}
	v.checkHidden()
	v.report.compared = prove != nil
	return nil
}

// agreesWith reports whether a proof of the server connects a signed checkpoint with the verified one, and
// adds a finding if none does. name is what the finding calls the first one.
func (v *verifier) agreesWith(ctx context.Context, r *Remote, found, c proof.Checkpoint, name string) (bool, error) {
	if found.Size == c.Size {
		if found.Root != c.Root {
			v.report.addContradiction(0, c.Size, "%s of %d events has the tree hash %s, the checkpoint of %s over %d events has %s", name, found.Size, proof.EncodeHash(found.Root), c.Origin, c.Size, proof.EncodeHash(c.Root))
		}
		return found.Root == c.Root, nil
	}
	from, to := found, c
	if from.Size > to.Size {
		from, to = to, from
	}
	p, err := r.consistency(ctx, from.Size, to.Size)
	if err != nil {
		return false, fmt.Errorf("compare %s of %d events: %w", name, found.Size, err)
	}
	p.From, p.To, p.FromRoot, p.ToRoot = from.Size, to.Size, from.Root, to.Root
	isValid := p.Check() == nil
	if !isValid {
		v.report.addFinding(0, "no valid proof connects %s of %d events with the one of %d events", name, found.Size, c.Size)
	}
	return isValid, nil
}

// checkAge compares the age of the newest signed event with VerifyOptions.MaxAge.
func (v *verifier) checkAge() {
	r := v.report
	if v.opts.MaxAge > 0 {
		r.TooOld = v.opts.isTooOld(r.SignedTime)
	}
}

// maxAhead is how far the time of an event may be in the future: that of a cosignature may be as far.
const maxAhead = 10 * time.Minute

// isTooOld reports whether a time is older than MaxAge, unknown, or of the future: an operator whose clock is ahead could
// otherwise show an old state for as long.
func (opts VerifyOptions) isTooOld(at *time.Time) bool {
	if at == nil {
		return true
	}
	age := time.Since(*at)
	return age > opts.MaxAge || age < -maxAhead
}
