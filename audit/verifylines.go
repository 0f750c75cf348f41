package audit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/spans"
	"daybook/internal/spill"
	"daybook/proof"
)

// lineVerifier verifies the lines of an export or of a server.
type lineVerifier struct {
	*verifier
	c           proof.Checkpoint
	s           proof.ExportSelection
	selector    *selector
	sessions    *spill.Table // for executions whose request was seen: 1 if it names the session, else 0
	last        uint64
	eventBounds bounds
}

// newLineVerifier returns a verifier of lines under a verified checkpoint.
func newLineVerifier(opts VerifyOptions, c proof.Checkpoint, s proof.ExportSelection) *lineVerifier {
	complete := s.IsComplete(c.Size)
	l := &lineVerifier{verifier: newVerifier(opts, !complete), c: c, s: s, sessions: spill.NewTable(sha256.Size, 1, tableMemory), last: s.From - 1}
	l.proven = !complete
	l.report.Complete = complete
	l.rules.tenant, l.rules.blind = s.Tenant, s.Execution != "" || s.Session != ""
	l.rules.off = !s.Since.IsZero() || !s.Until.IsZero() // clocks may go back
	l.selector = newSelector(s, func(_ context.Context, tenant string, _ uint64, execution string) ([]string, error) {
		if in := l.sessions.Get(sessionKey(tenant, execution)); in != nil && in[0] == 0 {
			return nil, l.sessions.Err()
		}
		return []string{s.Session}, l.sessions.Err() // or unknown: its request is before the range
	})
	if complete {
		l.kept[c.Size] = []proof.Checkpoint{c}
	}
	return l
}

// sessionKey returns the key of an execution in lineVerifier.sessions.
func sessionKey(tenant, execution string) []byte {
	sum := sha256.Sum256([]byte(tenant + " " + execution))
	return sum[:]
}

// close removes the temporary files.
func (l *lineVerifier) close() {
	l.verifier.close()
	l.sessions.Close()
}

// pair is a line and the line of its proof, if it has one.
type pair struct{ line, proof []byte }

// prepareLine parses and hashes a line, and verifies its proof.
func (l *lineVerifier) prepareLine(buf []byte, p pair) (hashedEvent, []byte) {
	m, err := proof.ParseLine(p.line)
	if err != nil {
		return hashedEvent{err: err}, buf
	}
	out, buf := prepare(buf, eventproof.StoredOf(m))
	if !l.proven || out.leaf == (proof.Hash{}) {
		return out, buf
	}
	seq, hashes, err := proof.ParseProof(p.proof)
	switch {
	case err != nil:
	case seq != m.Seq:
		err = fmt.Errorf("its proof is that of event %d", seq)
	case m.Seq > l.c.Size:
		err = fmt.Errorf("the checkpoint covers %d events only", l.c.Size)
	default:
		err = proof.Inclusion{Seq: m.Seq, Size: l.c.Size, Leaf: out.leaf, Root: l.c.Root, Hashes: hashes}.Check()
	}
	if err != nil {
		out.leaf = proof.Hash{} // not proven
		out.err = fmt.Errorf("event %d is not proven: %w", m.Seq, err)
	}
	return out, buf
}

// run verifies the lines that produce emits.
func (l *lineVerifier) run(ctx context.Context, produce func(emit func([]pair) error) error) error {
	compute := func(pairs []pair) []hashedEvent {
		list := make([]hashedEvent, len(pairs))
		buf := make([]byte, 0, 1<<10)
		for i := range pairs {
			list[i], buf = l.prepareLine(buf, pairs[i])
		}
		return list
	}
	err := parallelOrdered(ctx, produce, compute, func(list []hashedEvent) error {
		for i := range list {
			if err := l.takeLine(ctx, &list[i]); err != nil {
				return err
			}
		}
		if l.opts.Progress != nil {
			l.opts.Progress(l.last, l.s.To)
		}
		return nil
	})
	if errors.Is(err, events.ErrDamaged) {
		l.report.addFinding(0, "%v", err)
		err = nil
	}
	if err != nil {
		return err
	}
	l.finishLines()
	return nil
}

// takeLine adds the next line.
func (l *lineVerifier) takeLine(ctx context.Context, p *hashedEvent) error {
	seq := p.stored.Seq
	switch {
	case seq > l.c.Size:
		return fmt.Errorf("%w: event %d follows, but the checkpoint covers %d events only", events.ErrDamaged, seq, l.c.Size)
	case p.err != nil && p.leaf == (proof.Hash{}):
		return fmt.Errorf("after event %d: %w: %w", l.last, p.err, events.ErrDamaged)
	case seq <= l.last:
		return fmt.Errorf("%w: event %d is followed by %d", events.ErrDamaged, l.last, seq)
	case l.s.IsUnfiltered() && seq != l.last+1 && !spans.Covers(l.lost, l.last+1, seq-1):
		if !fillsHole(l.last, p) {
			return fmt.Errorf("%w: event %d is followed by %d", events.ErrDamaged, l.last, seq)
		}
		if l.proven { // otherwise take notes it
			l.holes = append(l.holes, LostPositions{From: l.last + 1, To: seq - 1, NamedBy: seq})
		}
	}
	l.last = seq
	if p.err == nil {
		l.eventBounds.add(p.event)
		if d, ok := p.event.Data.(*events.ExecutionRequested); ok && l.s.Session != "" {
			in := []byte{0}
			if slices.Contains(events.SessionsOf(d), l.s.Session) {
				in[0] = 1
			}
			l.sessions.Put(sessionKey(p.event.Tenant, d.ExecutionID), in)
		}
		in, err := l.selector.wants(ctx, p.event)
		if err != nil {
			return err
		}
		if !in {
			l.report.addFinding(seq, "it is not in the selection")
		}
	}
	return l.take(ctx, p)
}

// finishLines reports missing events at the end and finishes the report.
func (l *lineVerifier) finishLines() {
	if l.s.IsUnfiltered() && l.last != l.s.To {
		l.report.addFinding(0, "the events end at %d, not at %d", l.last, l.s.To)
	}
	if !l.proven {
		l.finish()
		return
	}
	l.checkRemoved()
	if l.s.Execution == "" && l.s.Session == "" {
		l.checkLost()
	}
	if l.report.Complete = l.isWhole(); !l.report.Complete {
		l.report.Part = describePart(l.s, l.c.Size)
	}
	// The proofs of the lines lead to one checkpoint. Its signature is that of the whole export.
	newest := l.times.newest()
	l.compare(l.c, l.c.Root, 0)
	l.checkPartSigned(l.c.Size)
	l.report.SignedTime = newest
	l.describeOrigins()
	l.checkAge()
}

// checkPartSigned reports what the checkpoint of a part, which has a size, does not cover.
func (v *verifier) checkPartSigned(size uint64) {
	r := v.report
	switch {
	case r.Signed > 0:
		r.Unsigned = r.Last - min(r.Signed, r.Last)
	case r.Foreign > 0: // a statement among the events retired the key at a smaller size
		r.signedByOthers(nil)
	default: // a successor superseded the checkpoint
		r.Unsigned = size
	}
}

// isWhole reports whether proven lines are all events that the checkpoint covers, except for those
// of the volumes that an event records as removed.
func (l *lineVerifier) isWhole() bool {
	return l.s.IsUnfiltered() && l.s.To == l.c.Size && slices.ContainsFunc(l.report.Removed, func(r RemovedVolume) bool { return r.Last+1 == l.s.From })
}

// describePart describes which part of the events that a checkpoint covers a selection is.
func describePart(s proof.ExportSelection, size uint64) string {
	text := fmt.Sprintf("positions %d to %d of %d", s.From, s.To, size)
	only := func(name, value string) {
		if value != "" {
			text += fmt.Sprintf(", only %s %q", name, value)
		}
	}
	only("tenant", s.Tenant)
	only("execution", s.Execution)
	only("session", s.Session)
	only("since", proof.FormatBound(s.Since))
	only("until", proof.FormatBound(s.Until))
	return text
}

// maxBatchBytes is the length of lines in bytes from which a batch is full. Several batches are in memory at
// the same time, and a line may have more than a MiB.
const maxBatchBytes = 4 << 20

// batches collects pairs to divide the work into large pieces.
type batches struct {
	emit  func([]pair) error
	list  []pair
	bytes int
}

// add copies a line and its proof.
func (b *batches) add(line, proof []byte) error {
	b.list = append(b.list, pair{slices.Clone(line), slices.Clone(proof)})
	b.bytes += len(line) + len(proof)
	if len(b.list) < readAtOnce && b.bytes < maxBatchBytes {
		return nil
	}
	return b.flush()
}

func (b *batches) flush() error {
	if len(b.list) == 0 {
		return nil
	}
	list := b.list
	b.list, b.bytes = make([]pair, 0, readAtOnce), 0
	return b.emit(list)
}

// fillsHole reports whether the next event of an export opens a volume and records the positions
// missing before it as lost.
func fillsHole(before uint64, p *hashedEvent) bool {
	d, ok := p.event.Data.(*events.LedgerVolumeOpened)
	return ok && d.AccountsForGap(before, p.stored.Seq)
}
