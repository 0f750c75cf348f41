package audit

import (
	"context"
	"fmt"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/resources/reads"
	"daybook/proof"
)

// Source is a ledger that can be exported.
type Source interface {
	// Signed returns a checkpoint that covers a position, or with 0 everything
	// recorded so far if the caller may have it signed and else the newest, the
	// verification keys of the ledger, and the tenant whose events alone the caller
	// may see, empty for all.
	Signed(ctx context.Context, covers uint64) (Signed, error)
	// Lines calls fn with the line of every selected event after a position, in
	// order, and with the line of its proof under c, unless the selection is all
	// that c covers: then proof is nil.
	Lines(ctx context.Context, c proof.Checkpoint, s proof.ExportSelection, after uint64, fn func(line, proof []byte) error) error
	// Blob returns content that an event names.
	Blob(ctx context.Context, b Blob) ([]byte, error)
}

// Signed is what a source says of itself.
type Signed struct {
	Checkpoint proof.Checkpoint
	VKeys      []string
	Tenant     string
	// Lost are the positions on record as lost. Who verifies believes it only when
	// the event that says so is there.
	Lost events.Lost
	// Removed is up to which position volumes were removed; likewise.
	Removed uint64
	// Pending is how many newer events no checkpoint covers; 0 where only checkpoints
	// are newer.
	Pending uint64
}

// Stream reads the ledger as it is stored.
type Stream interface {
	// ReadRaw returns up to limit messages after a position.
	ReadRaw(ctx context.Context, after uint64, limit int) ([]events.Stored, error)
	// LastSeq is the position of the last message.
	LastSeq(ctx context.Context) (uint64, error)
}

// Proofs are the checkpoints and proofs of a running ledger.
type Proofs interface {
	// VKeys are the verification keys of the ledger, the newest last.
	VKeys() []string
	// Lost are the positions that are on record as lost.
	Lost() events.Lost
	// Removed is up to where volumes were removed.
	Removed() events.Removal
	// Latest is the newest checkpoint, or false when there is none yet.
	Latest() (proof.Checkpoint, bool)
	// Checkpoint returns the newest checkpoint that covers a position, made for the
	// purpose if need be.
	Checkpoint(ctx context.Context, covers uint64) (proof.Checkpoint, error)
	// Settled returns a checkpoint that covers every event up to a position but
	// checkpoints at the end, made for the purpose if need be.
	Settled(ctx context.Context, last uint64) (proof.Checkpoint, error)
	// Prover makes proofs under a checkpoint.
	Prover(c proof.Checkpoint) proof.Prover
}

// Local is a Source in this process.
type Local struct {
	Log       Proofs
	Stream    Stream
	Blobs     Blobs
	SessionOf SessionOf
}

// Signed implements Source.
func (l Local) Signed(ctx context.Context, covers uint64) (Signed, error) {
	last, err := l.Stream.LastSeq(ctx)
	if err != nil {
		return Signed{}, err
	}
	if covers > last {
		return Signed{}, fmt.Errorf("position %d is beyond the end of the ledger, which is %d; end the range there or before", covers, last)
	}
	if covers > 0 {
		c, err := l.Log.Checkpoint(ctx, covers)
		return Signed{Checkpoint: c, VKeys: l.Log.VKeys(), Lost: l.Log.Lost(), Removed: l.Log.Removed().UpTo()}, err
	}
	c, err := l.Log.Settled(ctx, last)
	if err == nil && c.Note == nil {
		err = fmt.Errorf("the ledger is empty: %w", proof.ErrBeyond)
	}
	return Signed{Checkpoint: c, VKeys: l.Log.VKeys(), Lost: l.Log.Lost(), Removed: l.Log.Removed().UpTo()}, err
}

// readAtOnce is how many messages are read in one go.
const readAtOnce = 1000

// Lines implements Source.
func (l Local) Lines(ctx context.Context, c proof.Checkpoint, s proof.ExportSelection, after uint64, fn func(line, proof []byte) error) error {
	s, err := s.Resolve(c.Size)
	if err != nil {
		return err
	}
	latest, ok := l.Log.Latest()
	if !ok || latest.Size < c.Size {
		return fmt.Errorf("a checkpoint of %d events, of which %d are signed: %w", c.Size, latest.Size, proof.ErrBeyond)
	}
	prover := l.Log.Prover(latest)
	root, err := prover.Root(c.Size)
	if err != nil {
		return err
	}
	if root != c.Root {
		return fmt.Errorf("%w: the checkpoint of %d events is not of this ledger", proof.ErrBeyond, c.Size)
	}
	if gone := l.Log.Removed(); s.From <= gone.UpTo() {
		return gone.Gone(fmt.Sprintf("events %d to %d were", s.From, min(s.To, gone.UpTo())))
	}
	e := exporter{
		c: c, complete: s.IsComplete(c.Size), plain: s.IsUnfiltered(),
		selector: newSelector(s, l.SessionOf), prover: prover, fn: fn,
	}
	for after = max(after, s.From-1); after < s.To; {
		if err := reads.Pass(ctx); err != nil { // a narrow selection calls fn rarely
			return err
		}
		batch, err := l.Stream.ReadRaw(ctx, after, int(min(s.To-after, readAtOnce)))
		if err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
		if len(batch) == 0 {
			return fmt.Errorf("%w: the ledger ends at %d, before %d", events.ErrDamaged, after, s.To)
		}
		for _, m := range batch {
			if m.Seq > s.To { // there are fewer events than positions behind a hole
				return nil
			}
			if err := e.take(ctx, m); err != nil {
				return err
			}
			after = m.Seq
		}
	}
	return nil
}

// Blob implements Source.
func (l Local) Blob(ctx context.Context, b Blob) ([]byte, error) {
	if b.Heap {
		heap, _, err := l.Blobs.Heap(ctx, b.Tenant, b.SHA256)
		return heap, err
	}
	return l.Blobs.Text(ctx, b.Tenant, b.SHA256)
}

// exporter turns messages into lines and proofs.
type exporter struct {
	c               proof.Checkpoint
	complete, plain bool
	selector        *selector
	prover          proof.Prover
	fn              func(line, proof []byte) error
	line, proof     []byte
	record          []byte
}

func (e *exporter) take(ctx context.Context, m events.Stored) error {
	if !e.plain {
		event, err := events.Decode(m.Seq, m.Message())
		if err != nil {
			return fmt.Errorf("%w: %w", events.ErrDamaged, err)
		}
		if in, err := e.selector.wants(ctx, event); err != nil || !in {
			return err
		}
	}
	var err error
	if e.line, err = proof.AppendLine(e.line[:0], eventproof.RecordOf(m)); err != nil {
		return err
	}
	if e.complete {
		return e.fn(e.line, nil)
	}
	p, err := e.prover.Inclusion(m.Seq, e.c.Size)
	if err != nil {
		return err
	}
	var leaf proof.Hash
	if leaf, e.record, err = proof.HashLeaf(e.record, eventproof.RecordOf(m)); err != nil {
		return err
	}
	if leaf != p.Leaf {
		return fmt.Errorf("%w: event %d is not the one that was hashed when it was recorded", events.ErrDamaged, m.Seq)
	}
	e.proof = proof.AppendProof(e.proof[:0], m.Seq, p.Hashes)
	return e.fn(e.line, e.proof)
}
