package audit

import (
	"iter"

	"daybook/proof"
)

// besideCheckpoints are the checkpoints in an audit directory that were not taken yet. One of them is in
// memory. The zero value has none.
type besideCheckpoints struct {
	next    func() (proof.Checkpoint, error, bool)
	stop    func()
	first   proof.Checkpoint
	hasMore bool
	err     error // why the others cannot be read
}

// open starts to read checkpoints that are in the order of their sizes. The caller MUST call close.
func (b *besideCheckpoints) open(list iter.Seq2[proof.Checkpoint, error]) {
	b.next, b.stop = iter.Pull2(list)
	b.advance()
}

func (b *besideCheckpoints) advance() {
	var err error
	b.first, err, b.hasMore = b.next()
	if err != nil {
		b.hasMore, b.err = false, err
	}
}

// upTo takes the next checkpoint, if its size is not greater than the given one.
func (b *besideCheckpoints) upTo(size uint64) (proof.Checkpoint, bool) {
	if !b.hasMore || b.first.Size > size {
		return proof.Checkpoint{}, false
	}
	c := b.first
	b.advance()
	return c, true
}

func (b *besideCheckpoints) close() {
	if b.stop != nil {
		b.stop()
	}
}
