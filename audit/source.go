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
	// Signed returns a checkpoint that covers a position, with the state of the source. For
	// position 0 the checkpoint covers every event so far, except for the last ones if they only
	// record checkpoints. If the caller may not request a new checkpoint, it is the newest
	// existing one.
	Signed(ctx context.Context, covers uint64) (SourceState, error)
	// Lines calls fn with the line of every selected event after a position, in order, and the
	// line of its proof under c. proof is nil if the selection is everything that c covers.
	Lines(ctx context.Context, c proof.Checkpoint, s proof.ExportSelection, after uint64, fn func(line, proof []byte) error) error
	// Blob returns content that an event names.
	Blob(ctx context.Context, b Blob) ([]byte, error)
}

// SourceState is a checkpoint of a source and the state of the source.
type SourceState struct {
	Checkpoint proof.Checkpoint
	// VKeys are the verification keys of the ledger, the newest last.
	VKeys []string
	// Signers are the statements about the signers, in the form of proof.Signers.Bytes, or those that a
	// verifier needs for Checkpoint.
	Signers string
	// Tenant is the only tenant whose events the source shows. It is empty if the source
	// shows all events.
	Tenant string
	// Lost are the positions that the source reports as lost. Verification accepts them only if
	// an event records the same loss.
	Lost events.Lost
	// Removed is the last position of the removed volumes. Verification accepts it only if an
	// event records the removal.
	Removed uint64
	// Pending is the number of newer events that no checkpoint covers; 0 if only checkpoints are
	// newer.
	Pending uint64
	// CoversAll is true if Checkpoint covers every event that was recorded when Signed was called,
	// according to the source.
	CoversAll bool
}

// Stream reads the stored messages of the ledger.
type Stream interface {
	// ReadRaw returns up to limit messages after a position.
	ReadRaw(ctx context.Context, after uint64, limit int) ([]events.Stored, error)
	// LastSeq returns the position of the last message.
	LastSeq(ctx context.Context) (uint64, error)
}

// Proofs are the checkpoints and proofs of a running ledger. *translog.Log implements it.
type Proofs interface {
	// VKeys returns the verification keys, the newest last.
	VKeys() []string
	// Signers returns the statements about the signers.
	Signers() *proof.Signers
	// Lost returns the positions that events record as lost.
	Lost() events.Lost
	// Removed returns the newest event that records removed volumes.
	Removed() events.Removal
	// Latest returns the newest checkpoint. It reports false if there is none yet.
	Latest() (proof.Checkpoint, bool)
	// Checkpoint returns the newest checkpoint if it covers a position. Otherwise it requests one
	// and waits for it.
	Checkpoint(ctx context.Context, covers uint64) (proof.Checkpoint, error)
	// CheckpointThrough returns a checkpoint that covers every event up to a position, except for
	// the last ones if they only record checkpoints. If there is none, it requests one and waits
	// for it.
	CheckpointThrough(ctx context.Context, last uint64) (proof.Checkpoint, error)
	// Prover returns a prover under a checkpoint.
	Prover(c proof.Checkpoint) proof.Prover
}

// Local is the Source of a running ledger in this process.
type Local struct {
	Log       Proofs
	Stream    Stream
	Blobs     Blobs
	SessionOf SessionOf
	// Cosigned, if set, returns the newest checkpoint that enough witnesses cosigned, unverified.
	Cosigned func() ([]byte, error)
	// CompareEvents makes Lines compare each event with its leaf, also if the selection is everything that the
	// checkpoint covers. A server does not set it: the verifier finds a changed event.
	CompareEvents bool
}

// Signed implements Source.
func (l Local) Signed(ctx context.Context, covers uint64) (SourceState, error) {
	last, err := l.Stream.LastSeq(ctx)
	if err != nil {
		return SourceState{}, err
	}
	if covers > last {
		return SourceState{}, fmt.Errorf("position %d is beyond the end of the ledger, which is %d; end the range there or before", covers, last)
	}
	if covers > 0 {
		c, err := l.Log.Checkpoint(ctx, covers)
		return SourceState{Checkpoint: c, VKeys: l.Log.VKeys(), Signers: string(l.Log.Signers().Bytes()), Lost: l.Log.Lost(), Removed: l.Log.Removed().UpTo()}, err
	}
	c, err := l.Log.CheckpointThrough(ctx, last)
	if err == nil && c.Note == nil {
		err = fmt.Errorf("the ledger is empty: %w", proof.ErrBeyond)
	}
	return SourceState{Checkpoint: c, VKeys: l.Log.VKeys(), Signers: string(l.Log.Signers().Bytes()), Lost: l.Log.Lost(), Removed: l.Log.Removed().UpTo()}, err
}

// readAtOnce is the maximum number of messages per read.
const readAtOnce = 1000

// Lines implements Source.
func (l Local) Lines(ctx context.Context, c proof.Checkpoint, s proof.ExportSelection, after uint64, fn func(line, proof []byte) error) error {
	s, err := s.Resolve(c.Size)
	if err != nil {
		return err
	}
	latest, ok := l.Log.Latest()
	if !ok || latest.Size < c.Size {
		return fmt.Errorf("the checkpoint covers %d events, but the newest one of this ledger covers %d: %w", c.Size, latest.Size, proof.ErrBeyond)
	}
	prover := l.Log.Prover(latest)
	root, err := prover.Root(c.Size)
	if err != nil {
		return err
	}
	if root != c.Root {
		return fmt.Errorf("%w: the first %d events of this ledger have another tree hash than the checkpoint", proof.ErrBeyond, c.Size)
	}
	if from, removal := max(s.From, after+1), l.Log.Removed(); from <= min(s.To, removal.UpTo()) {
		return removal.Gone(fmt.Sprintf("events %d to %d were", from, min(s.To, removal.UpTo())))
	}
	e := exporter{
		c: c, complete: s.IsComplete(c.Size), compares: l.CompareEvents, plain: s.IsUnfiltered(),
		selector: newSelector(s, l.SessionOf), prover: prover, fn: fn,
	}
	for after = max(after, s.From-1); after < s.To; {
		if err := reads.Pass(ctx); err != nil { // fn lets other reads run while it writes, but a narrow selection calls it rarely
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
			if m.Seq > s.To { // a batch is limited by its number of events, so after a gap it may extend beyond s.To
				return nil
			}
			if err := e.writeEvent(ctx, m); err != nil {
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

// exporter converts messages to lines and proofs.
type exporter struct {
	c proof.Checkpoint
	// complete exports need no proofs, and compares is true if their events are compared with their leaves
	// nevertheless. plain is true if every message is selected.
	complete, compares, plain bool
	selector                  *selector
	prover                    proof.Prover
	fn                        func(line, proof []byte) error
	line, proof               []byte
	record                    []byte
}

func (e *exporter) writeEvent(ctx context.Context, m events.Stored) error {
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
		if e.compares {
			want, err := e.prover.Leaf(m.Seq)
			if err == nil {
				err = e.compare(m, want)
			}
			if err != nil {
				return err
			}
		}
		return e.fn(e.line, nil)
	}
	p, err := e.prover.Inclusion(m.Seq, e.c.Size)
	if err == nil {
		err = e.compare(m, p.Leaf)
	}
	if err != nil {
		return err
	}
	e.proof = proof.AppendProof(e.proof[:0], m.Seq, p.Hashes)
	return e.fn(e.line, e.proof)
}

// compare returns events.ErrDamaged unless an event has a leaf.
func (e *exporter) compare(m events.Stored, want proof.Hash) error {
	leaf, record, err := proof.HashLeaf(e.record, eventproof.RecordOf(m))
	if e.record = record; err != nil {
		return err
	}
	if leaf != want {
		return fmt.Errorf("%w: event %d does not match the hash that was computed when it was recorded", events.ErrDamaged, m.Seq)
	}
	return nil
}
