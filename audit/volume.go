package audit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"

	"daybook/events"
)

// Closing signs what the ledger holds up to a position, the last one of a volume
// that is being sealed: nothing is appended but the event that carries what it
// returns. It waits for the position to be hashed, until ctx is done.
func (l *Log) Closing(ctx context.Context, last uint64) (*events.ClosingCheckpoint, error) {
	for {
		l.mu.Lock()
		hashed, damage, changed := l.tree.Size()-uint64(len(l.confirm)), l.damage, l.changed
		l.mu.Unlock()
		switch {
		case damage != nil:
			return nil, damage
		case hashed >= last:
			return l.close(last)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d events are hashed: %w", hashed, last, context.Cause(ctx))
		}
	}
}

func (l *Log) close(last uint64) (*events.ClosingCheckpoint, error) {
	l.mu.Lock()
	root, err := l.tree.RootAt(last)
	l.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	c, err := Checkpoint{Origin: l.keys.Origin, Size: last, Root: root}.Sign(l.keys.signer)
	if err != nil {
		return nil, err
	}
	if err := l.keep(c); err != nil {
		return nil, err
	}
	return &events.ClosingCheckpoint{Origin: c.Origin, Size: c.Size, RootHash: EncodeHash(c.Root), Note: string(c.Note)}, nil
}

// keep makes a checkpoint that is signed, and on record or about to be, the
// newest.
func (l *Log) keep(c Checkpoint) error {
	l.keeping.Lock()
	err := keepCheckpoint(l.opts.Dir, c.Note)
	l.keeping.Unlock()
	if err != nil {
		return fmt.Errorf("keep the checkpoint: %w", err)
	}
	if l.opts.Kept != nil {
		l.opts.Kept()
	}
	l.mu.Lock()
	if c.Size > l.latest.Size {
		l.latest = c
	}
	l.wake()
	l.mu.Unlock()
	if l.witness != nil {
		l.witness.offer(c.Note)
	}
	return nil
}

// HoldsCheckpoint reports whether a message may hold a checkpoint of the ledger.
func HoldsCheckpoint(m events.Stored) bool {
	return IsCheckpoint(m) || HasType(m, events.TypeLedgerVolumeSealed)
}

func HasType(m events.Stored, t events.Type) bool {
	v := m.Header["ce-type"]
	return len(v) == 1 && v[0] == string(t)
}

// holeVersion is the first line of the record of a position that holds nothing.
const holeVersion = "daybook-hole-v1"

// AppendHole appends the record of a position that no event has, where the
// opening of a volume says so:
//
//	daybook-hole-v1
//	<position>
//
// It keeps every later event at the leaf of its position.
func AppendHole(dst []byte, position uint64) []byte {
	dst = append(dst, holeVersion...)
	dst = append(dst, '\n')
	dst = strconv.AppendUint(dst, position, 10)
	return append(dst, '\n')
}

// HoleHash is the hash of the leaf of such a position.
func HoleHash(position uint64) Hash { return sha256.Sum256(AppendHole([]byte{0}, position)) }

// AddHoleLeaves adds the leaves of the positions between the end of a tree and a
// message that follows with a gap. Unless the message is the opening of a volume
// that names exactly those as lost, the gap is damage.
func AddHoleLeaves(t *Tree, m events.Stored) error {
	before := t.Size()
	gap := fmt.Errorf("%w: event %d is followed by %d", events.ErrDamaged, before, m.Seq)
	if m.Seq <= before || !HasType(m, events.TypeLedgerVolumeOpened) {
		return gap
	}
	e, err := events.Decode(m.Seq, m.Message())
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrDamaged, err)
	}
	if d, ok := e.Data.(*events.LedgerVolumeOpened); !ok || !d.Fills(before, m.Seq) {
		return gap
	}
	for t.Size() < m.Seq-1 {
		if err := t.Add(HoleHash(t.Size() + 1)); err != nil {
			return err
		}
	}
	return nil
}

// fillsHole reports whether the next event of an export is the opening of a
// volume that names the positions left out before it as lost.
func fillsHole(before uint64, p *prepared) bool {
	d, ok := p.event.Data.(*events.LedgerVolumeOpened)
	return ok && d.Fills(before, p.stored.Seq)
}
