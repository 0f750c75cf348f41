package audit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// follow reads the list of signers that comes with the data, in the form of proof.Signers.Bytes, and
// follows it from the given keys. If the list is not valid, or does not continue VerifyOptions.Signers,
// those are followed, and reportSigners reports it.
func (opts *VerifyOptions) follow(signers []byte) {
	list, err := proof.ParseSigners(signers)
	if err == nil && opts.Signers != nil {
		err = list.Continues(opts.Signers)
	}
	if opts.notFollowed = err; err != nil {
		opts.forked = errors.Is(err, proof.ErrOtherSigners) && list.Forks(opts.Signers, opts.Keys)
		opts.followKept()
		return
	}
	opts.list, opts.trust = list, list.Trust(opts.Keys)
}

// followKept follows VerifyOptions.Signers.
func (opts *VerifyOptions) followKept() {
	opts.list = &proof.Signers{}
	if opts.Signers != nil {
		opts.list = opts.Signers.Clone()
	}
	opts.trust = opts.list.Trust(opts.Keys)
}

// reportSigners reports a list of signers that was not followed.
func (v *verifier) reportSigners() {
	switch err := v.opts.notFollowed; {
	case err == nil:
	case errors.Is(err, proof.ErrShorterSigners):
		v.report.addBeyond("%v", err)
	case v.opts.forked:
		v.report.addContradiction(0, 0, "%v", err)
	default:
		v.report.addFinding(0, "%v", err)
	}
}

// sawStatement adds a recorded statement about the signers to the list, and compares the end of an
// origin with the tree.
func (v *verifier) sawStatement(e *events.Event, d *events.LedgerSignersChanged) {
	st, err := proof.ParseStatement([]byte(d.Note))
	if err == nil {
		err = eventproof.CompareStatement(d, st)
	}
	isFirst := err == nil && st.Number == 0 && st.Action == proof.StartOrigin
	if isFirst && v.startedAt > 0 {
		return // another server of the ledger started at the same time; the first one counts
	}
	if err == nil && v.wasReported(st) {
		return
	}
	added := false
	if err == nil {
		added, err = v.opts.list.Add(st.Note)
	}
	if isFirst && v.proven && errors.Is(err, proof.ErrNotNext) {
		return // as above; the part may begin after the first start
	}
	if err != nil {
		v.report.addFinding(e.Seq, "%v", err)
		return
	}
	v.stated[st.Hash()] = true
	if added {
		v.ownKeys = nil
		v.opts.trust.Follow(v.opts.list) // from the beginning, a list would take the square of its length
	}
	if st.Action != proof.StartOrigin {
		return
	}
	if v.startedAt == 0 {
		v.startedAt = e.Seq
	}
	if st.Predecessor == "" {
		return
	}
	v.reasons[st.Origin] = OriginChange{Position: e.Seq, Reason: d.Ended.Reason}
	if st.Size >= e.Seq { // the tree hash could not be compared
		v.report.addFinding(e.Seq, "the origin %s confirms %d events of %s, more than there were", st.Origin, st.Size, st.Predecessor)
		return
	}
	if v.proven {
		return
	}
	if eventproof.IsIncomparable(v.lost, st.Size) { // because of a later loss
		v.unconfirmed[e.Seq] = st
		return
	}
	// The hashes of a tree that is too old are not kept. The checkpoints of that time were compared.
	if root, err := v.tree.RootAt(st.Size); err == nil && root != st.Root {
		v.report.addFinding(e.Seq, "the origin %s starts after %d events of %s with the tree hash %s, which is not that of these events", st.Origin, st.Size, st.Predecessor, proof.EncodeHash(st.Root))
	}
}

// checkListed compares the list of signers in the manifest of a complete export with the statements in the events.
func (l *lineVerifier) checkListed(m proof.Manifest) error {
	if l.proven || l.opts.notFollowed != nil {
		return nil //nolint:nilerr // a list that cannot be followed is a finding already
	}
	listed, err := proof.ParseSigners([]byte(m.Signers))
	if err != nil {
		return err
	}
	isRecorded := func(st proof.Statement) bool { return l.stated[st.Hash()] }
	if err := listed.CheckUnder(l.c, l.opts.list, isRecorded, len(l.lost) > 0); err != nil {
		l.report.addFinding(0, "%v", err)
	}
	return nil
}

// OriginChange describes the end of an origin and the start of its successor.
type OriginChange struct {
	// Ended is the origin that ended, after Size events that its last valid checkpoint covers.
	Ended string `json:"ended"`
	Size  uint64 `json:"size"`
	// Origin is the successor, and Key its first key. Trusted is true if the caller gave that key, or
	// a key that introduced it.
	Origin  string `json:"origin"`
	Key     string `json:"key"`
	Trusted bool   `json:"trusted"`
	// Position and Reason are those of the event that records it, if it was read.
	Position uint64 `json:"position,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// describeOrigins lists the ends of origins in the report.
func (v *verifier) describeOrigins() {
	v.report.signers = v.opts.list
	given := v.opts.trust
	if v.opts.given != nil {
		given = v.opts.list.Trust(v.opts.given)
	}
	for _, st := range v.opts.list.Statements() {
		if st.Predecessor == "" {
			continue
		}
		change := v.reasons[st.Origin]
		change.Ended, change.Size, change.Origin, change.Key = st.Predecessor, st.Size, st.Origin, st.Key
		change.Trusted = (v.report.Pinned || v.opts.given != nil) && given.Follows(st)
		v.report.Origins = append(v.report.Origins, change)
	}
}

// checkUncomparable reports trusted checkpoints and starts of successors over lost events whose hashes are
// unknown: their origin must have ended, and its successor confirms fewer events. It excuses checkpoints from
// before the ledger had an origin if the loss was accepted before too, and what ends inside a lost tile, whose
// hash later checkpoints prove.
func (v *verifier) checkUncomparable() {
	for _, seq := range slices.Sorted(maps.Keys(v.unconfirmed)) {
		st := v.unconfirmed[seq]
		isLess := func(later proof.Statement) bool {
			return later.Number > st.Number && later.Predecessor != "" && later.Size < st.Size
		}
		if _, unknown := eventproof.UnknownIn(v.lost, st.Size); unknown && !slices.ContainsFunc(v.opts.list.Statements(), isLess) {
			v.report.addFinding(seq, "the origin %s starts after %d events of %s, which cannot be compared, because events were lost and their hashes too; the origin had to end, and it did not", st.Origin, st.Size, st.Predecessor)
		}
	}
	groups := slices.SortedFunc(maps.Keys(v.uncomparable), func(a, b uncomparable) int {
		return cmp.Or(cmp.Compare(a.namedAt, b.namedAt), cmp.Compare(a.origin, b.origin))
	})
	for _, of := range groups {
		if v.startedAt == 0 || of.namedAt < v.startedAt {
			continue
		}
		for _, size := range v.uncomparable[of] {
			if !v.opts.trust.Superseded(proof.Checkpoint{Origin: of.origin, Size: size}) {
				v.report.addFinding(of.namedAt, "a checkpoint of %s over %d events cannot be compared, because events were lost and their hashes too; the origin had to end, and it did not", of.origin, size)
			}
		}
	}
}

// lines returns the change as two lines of a report.
func (o OriginChange) lines() (what, next string) {
	what = fmt.Sprintf("%s ended after %d events", o.Ended, o.Size)
	if o.Reason != "" {
		what += fmt.Sprintf(", as event %d says: %s", o.Position, o.Reason)
	}
	next = fmt.Sprintf("%s continues, with the key %s", o.Origin, o.Key)
	if !o.Trusted {
		next += ", which you did not give: if the operator announced it, give it with --key too"
	}
	return what, next
}
