package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// Quorum describes what VerifyOptions.MinSigners signers cover. A signer is a trusted key of the current
// origin that is not retired. Keys of one source count as one signer, see proof.Trust.Source.
type Quorum struct {
	Required int `json:"required"`
	// Size is the number of events that as many signers cover as Required says: each has signed a
	// checkpoint of that size or a larger one that holds. If only checkpoints follow, Size covers them
	// too: they say nothing that the tree does not confirm, and to cover them, each signer would have
	// to record another one.
	Size uint64 `json:"size"`
	// Time is the time of the newest event that they cover, and Since that of the first event after
	// it, if they are known.
	Time  *time.Time `json:"time,omitempty"`
	Since *time.Time `json:"since,omitempty"`
	// Signers are the signers, the one with the largest checkpoint first.
	Signers []Signer `json:"signers"`
}

// Signer is a signer in a Quorum.
type Signer struct {
	Key string `json:"key"`
	// Size is that of its largest checkpoint that holds, or 0.
	Size uint64 `json:"size"`
}

// SignersError is returned if fewer signers are trusted than VerifyOptions.MinSigners says, and nothing
// else is wrong.
type SignersError struct{ err error }

// Error returns the message of the error.
func (e *SignersError) Error() string { return e.err.Error() }

// signerState is what was read about the signers.
type signerState struct {
	// newest has the size of the largest checkpoint of each key that holds.
	newest map[string]uint64
	// offered has the newest recorded checkpoint of each key, if it cannot be compared with a tree.
	offered map[string]proof.Checkpoint
	// lastOther is the position of the last event that is not a checkpoint.
	lastOther uint64
}

// saw notes that the tree confirms a checkpoint of some keys.
func (s *signerState) saw(c proof.Checkpoint, by []string) {
	for _, key := range by {
		s.newest[key] = max(s.newest[key], c.Size)
	}
}

// offer notes a recorded checkpoint that no tree was compared with.
func (v *verifier) offer(c proof.Checkpoint) {
	_, by, err := v.opts.trust.OpenBy(c.Note)
	if err != nil || v.opts.trust.Superseded(c) || eventproof.IsIncomparable(v.lost, c.Size) {
		return
	}
	for _, key := range by {
		if c.Size > v.signers.offered[key].Size {
			v.signers.offered[key] = c
		}
	}
}

// needsSigners reports whether more than one signer is required.
func (opts *VerifyOptions) needsSigners() bool { return opts.MinSigners > 1 }

// quorum returns what the required number of signers cover.
func (v *verifier) quorum() *Quorum {
	r, trust := v.report, v.opts.trust
	q := &Quorum{Required: v.opts.MinSigners, Signers: []Signer{}}
	bySource := map[string]Signer{}
	for _, key := range trust.Keys {
		if !isNamed(key, r.Origin) || trust.Retired(key) {
			continue
		}
		source := trust.Source(key)
		if s, ok := bySource[source]; !ok || v.signers.newest[key] > s.Size {
			bySource[source] = Signer{key, v.signers.newest[key]}
		}
	}
	for _, s := range bySource {
		q.Signers = append(q.Signers, s)
	}
	slices.SortFunc(q.Signers, func(a, b Signer) int { return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Key, b.Key)) })
	if len(q.Signers) >= q.Required {
		q.Size = q.Signers[q.Required-1].Size
	}
	q.Time, q.Since = v.times.around(q.Size)
	if q.Size > 0 && v.signers.lastOther <= q.Size {
		q.Size, q.Since = max(q.Size, r.Signed), nil
	}
	return q
}

func isNamed(key, origin string) bool {
	name, err := proof.VKeyName(key)
	return err == nil && name == origin
}

// finishQuorum reports what the required number of signers cover, and compares the time of the newest of
// these events with VerifyOptions.MaxAge.
func (v *verifier) finishQuorum() {
	r := v.report
	if !v.opts.needsSigners() || !r.Pinned {
		return
	}
	r.Quorum, r.isPart = v.quorum(), v.proven && r.isExport
	if v.opts.MaxAge > 0 {
		r.TooOld = v.opts.isTooOld(r.Quorum.Time)
	}
}

// conclude returns the report with its verdict. The error is a *SignersError.
func (v *verifier) conclude(began time.Time) (*Report, error) {
	r := v.report.finish(began)
	if r.Quorum == nil || r.Origin == "" || r.Verdict != Intact && r.Verdict != IntactUpTo {
		return r, nil
	}
	// A retired key is trusted: that too few signers are left is no mistake of the caller.
	var trusted, sources []string
	for _, key := range v.opts.trust.Keys {
		source := v.opts.trust.Source(key)
		if !isNamed(key, r.Origin) {
			continue
		}
		if !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
		if source != key {
			key += " (follows from " + source + ")"
		}
		trusted = append(trusted, key)
	}
	if len(sources) >= v.opts.MinSigners {
		return r, nil
	}
	return nil, &SignersError{fmt.Errorf("%d signers are required, and the trusted keys of %s are those of %d: %s; give a key of each signer, or a root key that introduced them",
		v.opts.MinSigners, r.Origin, len(sources), strings.Join(trusted, ", "))}
}

// lacksSigners reports whether fewer signers than required cover the events.
func (r *Report) lacksSigners() bool { return r.Quorum != nil && r.Quorum.Size < r.Last }

// lines returns the description of a report, whose last position is last.
func (q *Quorum) lines(last uint64) (list []string) {
	list = append(list, fmt.Sprintf("%d required; that many cover %d events", q.Required, q.Size))
	for _, s := range q.Signers {
		list = append(list, fmt.Sprintf("%d by %s", s.Size, s.Key))
	}
	if q.Size < last {
		text := fmt.Sprintf("fewer cover positions %d to %d", q.Size+1, last)
		if q.Since != nil {
			text += "; the oldest event of them is of " + events.FormatTime(*q.Since)
		}
		list = append(list, text)
	}
	return list
}

// signersAdvice returns what it means that fewer signers than required cover the events.
func (r *Report) signersAdvice() string {
	switch {
	case len(r.Quorum.Signers) < r.Quorum.Required:
		return "Fewer keys that you trust may sign than --signers requires: others were retired. Ask the operator why, and for the key of another signer."
	case r.isPart:
		return "A part of a ledger has no tree that the checkpoints among its events could be compared with, so only the signatures on its own checkpoint count for --signers. Verify all of the ledger, or the server."
	}
	return "Fewer signers than --signers requires cover the newest events. Each signs within a second: verify again. If that does not help, a signer is stopped, or the others have another history: these events may be forged."
}

// The checkpoint of another signer is usually recorded within a second.
const (
	signersWait = 5 * time.Second
	signersPoll = 250 * time.Millisecond
)

// fetchSigners compares the recorded checkpoints that were not compared with a tree, by proofs of the server. If
// too few signers cover the verified checkpoint c, it waits a few seconds for their next checkpoints.
func (v *verifier) fetchSigners(ctx context.Context, r *Remote, c proof.Checkpoint, tenant string) error {
	if !v.opts.needsSigners() || !v.report.Pinned {
		return nil
	}
	if err := v.proveOffered(ctx, r, c); err != nil {
		return err
	}
	late := time.NewTimer(signersWait)
	defer late.Stop()
	for after := c.Size; v.mayCover(c.Size); {
		newer, err := (&Remote{get: r.get}).Signed(ctx, 0)
		if err == nil && newer.Checkpoint.Size > after {
			err = v.readOffered(ctx, r, newer.Checkpoint, proof.ExportSelection{From: after + 1, Tenant: tenant})
			after = newer.Checkpoint.Size
		}
		if err == nil {
			err = v.proveOffered(ctx, r, c)
		}
		if err != nil {
			return err
		}
		poll := time.NewTimer(signersPoll)
		select {
		case <-poll.C:
		case <-late.C:
			poll.Stop()
			return nil
		case <-ctx.Done():
			poll.Stop()
			return ctx.Err()
		}
	}
	return nil
}

// mayCover reports whether too few signers cover the events up to a position, and enough are trusted.
func (v *verifier) mayCover(last uint64) bool {
	q := v.quorum()
	return q.Size < last && len(q.Signers) >= q.Required && v.report.Found == 0
}

// readOffered reads the checkpoints among the events of a range. The events are not verified: a checkpoint
// counts for its signature and for a proof.
func (v *verifier) readOffered(ctx context.Context, r *Remote, c proof.Checkpoint, s proof.ExportSelection) error {
	s, err := s.Resolve(c.Size)
	if err != nil {
		return err
	}
	left := s.To - s.From + 1
	return r.Lines(ctx, c, s, 0, func(line, _ []byte) error {
		if left == 0 {
			return &AnswerError{fmt.Errorf("the server sent more events than positions %d to %d", s.From, s.To)}
		}
		left--
		record, err := proof.ParseLine(line)
		if m := eventproof.StoredOf(record); err == nil && eventproof.HoldsCheckpoint(m) {
			if found, err := eventproof.CheckpointIn(m); err == nil && found.Note != nil {
				v.offer(found)
			}
		}
		return nil // what cannot be read is not covered by c
	})
}

// proveOffered compares the offered checkpoints of the origin of the verified checkpoint c with c.
func (v *verifier) proveOffered(ctx context.Context, r *Remote, c proof.Checkpoint) error {
	for key, found := range v.signers.offered {
		delete(v.signers.offered, key)
		if found.Origin != c.Origin || found.Size <= v.signers.newest[key] {
			continue
		}
		agrees, err := v.agreesWith(ctx, r, found, c, "a recorded checkpoint")
		if err != nil {
			return err
		}
		if agrees {
			v.signers.saw(found, []string{key})
		}
	}
	return nil
}

// Watch reads this many of the newest events to find the checkpoints of other signers, and up to mostTail
// if they are not among them.
const (
	firstTail = 1 << 8
	mostTail  = 1 << 16
)

// readTail reads the newest events, until they have checkpoints of enough signers.
func (w *watch) readTail(ctx context.Context, v *verifier) error {
	if !v.opts.needsSigners() {
		return nil
	}
	for width := uint64(firstTail); width <= mostTail; width *= 4 {
		from := w.tailFrom(width)
		l, err := w.lines(ctx, proof.ExportSelection{From: from, To: w.c.Size})
		if err != nil {
			return err
		}
		// Events before the tail are not known, so they are not taken for checkpoints.
		v.times, v.signers.offered, v.signers.lastOther = l.times, l.signers.offered, max(l.signers.lastOther, from-1)
		for key, size := range l.signers.newest { // if the tail is the whole ledger, its tree was computed
			v.signers.newest[key] = max(v.signers.newest[key], size)
		}
		l.close()
		if l.report.Found > 0 {
			for _, f := range l.report.Findings {
				v.report.addFinding(f.Position, "%s", f.What)
			}
			return nil
		}
		if err := v.proveOffered(ctx, w.remote, w.c); err != nil {
			return err
		}
		// Older events have no newer checkpoints of those who were found.
		if from <= w.signed.Removed+1 || v.quorum().Size > 0 || !v.mayCover(w.c.Size) {
			break
		}
	}
	return v.fetchSigners(ctx, w.remote, w.c, w.signed.Tenant)
}
