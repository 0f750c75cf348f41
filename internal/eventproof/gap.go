package eventproof

import (
	"context"
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
	return AddLostContext(context.Background(), t, lost, to, passed)
}

// AddLostContext is AddLost until ctx is done. The lost positions may come from a server.
func AddLostContext(ctx context.Context, t *proof.Tree, lost events.Lost, to uint64, passed func()) error {
	for t.Size() < to {
		r, in := spans.At(lost, t.Size()+1)
		if !in || r.From != t.Size()+1 || r.To > to {
			return fmt.Errorf("%w: position %d is missing", events.ErrDamaged, t.Size()+1)
		}
		err := r.HashSegments(func(from, to uint64, hash []byte) error {
			err := ctx.Err()
			if err != nil {
				return err
			}
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
// computed: UnknownIn returns a loss, or IsInLostTile is true.
func IsIncomparable(lost events.Lost, size uint64) bool {
	_, unknown := UnknownIn(lost, size)
	return unknown || IsInLostTile(lost, size)
}

// IsInLostTile reports whether a checkpoint of this size ends inside a full tile of lost events of
// which only the hash over all of them is known. Any other checkpoint over lost events with known
// hashes can be compared.
func IsInLostTile(lost events.Lost, size uint64) bool {
	tile := size / proof.TileWidth * proof.TileWidth // the size before the tile
	r, in := spans.At(lost, size)
	return in && size > tile && len(r.Hashes) > 0 && r.From <= tile+1 && r.To >= tile+proof.TileWidth
}

// UnknownIn returns the first lost range because of which the tree hash that a checkpoint of this size
// signed cannot be known: the hashes of its events are not known. It reports false if there is none. The
// origin of such a checkpoint ends with the loss, unless the loss was accepted before the ledger had an
// origin. The checkpoints that cover the event which records the loss can be compared.
func UnknownIn(lost events.Lost, size uint64) (events.LostRange, bool) {
	i := slices.IndexFunc(lost, func(r events.LostRange) bool { return len(r.Hashes) == 0 && r.From <= size && size < r.NamedAt })
	if i < 0 {
		return events.LostRange{}, false
	}
	return lost[i], true
}

// AddHoleLeaves appends the leaves of the positions between the end of a tree and the message m. m
// MUST be the event that opens a volume and names exactly these positions as lost; otherwise the
// error is events.ErrDamaged.
func AddHoleLeaves(t *proof.Tree, m events.Stored) error {
	return AddHoleLeavesContext(context.Background(), t, m)
}

// AddHoleLeavesContext is AddHoleLeaves until ctx is done. The message may come from a server.
func AddHoleLeavesContext(ctx context.Context, t *proof.Tree, m events.Stored) error {
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
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.Add(proof.HoleHash(t.Size() + 1)); err != nil {
			return err
		}
	}
	return nil
}
