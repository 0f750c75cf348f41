package eventproof

import (
	"fmt"
	"slices"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/proof"
)

// AddLost appends the leaves of lost positions to the tree until the tree has to leaves. If passed
// is not nil, AddLost calls it after each leaf or full tile. The error is events.ErrDamaged for a
// position that is not lost.
func AddLost(t *proof.Tree, lost events.Lost, to uint64, passed func()) error {
	for t.Size() < to {
		r, in := spans.At(lost, t.Size()+1)
		if !in || r.From != t.Size()+1 {
			return fmt.Errorf("%w: position %d is missing", events.ErrDamaged, t.Size()+1)
		}
		err := r.HashSegments(func(from, to uint64, hash []byte) error {
			var err error
			switch {
			case to > from:
				err = t.AddTile(proof.Hash(hash))
			case hash != nil:
				err = t.Add(proof.Hash(hash))
			default:
				err = t.Add(proof.HoleHash(from))
			}
			if err == nil && passed != nil {
				passed()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// IsIncomparable reports whether the tree hash that a checkpoint of this size signed cannot be
// computed, because leaves of lost events are unknown, or known only as the hash of a full tile. If
// they are unknown, the checkpoints that cover the event which records the loss can be compared.
func IsIncomparable(lost events.Lost, size uint64) bool {
	return slices.ContainsFunc(lost, func(r events.LostRange) bool {
		if len(r.Hashes) == 0 {
			return r.From <= size && size < r.NamedAt
		}
		return r.From <= size && size < r.To
	})
}

// AddHoleLeaves appends the leaves of the positions between the end of a tree and the message m. m
// MUST be the event that opens a volume and names exactly these positions as lost; otherwise the
// error is events.ErrDamaged.
func AddHoleLeaves(t *proof.Tree, m events.Stored) error {
	before := t.Size()
	gap := fmt.Errorf("%w: event %d is followed by %d", events.ErrDamaged, before, m.Seq)
	if m.Seq <= before || !HasType(m, events.TypeLedgerVolumeOpened) {
		return gap
	}
	e, err := events.Decode(m.Seq, m.Message())
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrDamaged, err)
	}
	if d, ok := e.Data.(*events.LedgerVolumeOpened); !ok || !d.AccountsForGap(before, m.Seq) {
		return gap
	}
	for t.Size() < m.Seq-1 {
		if err := t.Add(proof.HoleHash(t.Size() + 1)); err != nil {
			return err
		}
	}
	return nil
}
