package audit

import (
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

// checkKnown returns a *KnownError unless a trusted key signed each known checkpoint. Without given
// keys nothing can be known: the keys beside the data may be those of a forger.
func checkKnown(opts VerifyOptions) error {
	if len(opts.Known) > 0 && len(opts.Keys) == 0 {
		return &KnownError{errors.New("a kept checkpoint proves nothing without the key that signed it: give the key with --key")}
	}
	for _, c := range opts.Known {
		if _, err := proof.OpenCheckpoint(c.Note, opts.Keys...); err != nil {
			return &KnownError{fmt.Errorf("the kept checkpoint of %d events cannot be used: %w; give the key that signed it with --key", c.Size, err)}
		}
	}
	return nil
}

// compareKnown compares a known checkpoint with the computed tree.
func (v *verifier) compareKnown(c proof.Checkpoint, root proof.Hash) {
	switch {
	case eventproof.IsIncomparable(v.lost, c.Size):
		v.report.addFinding(0, "the kept checkpoint of %d events cannot be compared: some of them are lost, and their hashes are not known", c.Size)
	case c.Root != root:
		v.report.addContradiction(0, c.Size, "the kept checkpoint of %d events has the tree hash %s; computed from the events it is %s", c.Size, proof.EncodeHash(c.Root), proof.EncodeHash(root))
	default:
		v.report.Known++
	}
}

// knownBeyond reports a known checkpoint that covers more events than there are.
func (v *verifier) knownBeyond(c proof.Checkpoint, last uint64) {
	v.report.addBeyond("the kept checkpoint covers %d events, but the ledger ends at %d", c.Size, last)
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
			default:
				p, err := prove(size, c.Size)
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
	return nil
}

// checkAge compares the age of the newest signed event with VerifyOptions.MaxAge.
func (v *verifier) checkAge() {
	r := v.report
	if v.opts.MaxAge > 0 && r.Last > 0 {
		r.TooOld = r.SignedTime == nil || time.Since(*r.SignedTime) > v.opts.MaxAge
	}
}
