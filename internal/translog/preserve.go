package translog

import (
	"context"
	"fmt"

	"daybook/events"
	"daybook/proof"
)

// Removed returns the end of the removed volumes.
func (l *Log) Removed() events.Removal {
	if l.opts.Removed == nil {
		return events.Removal{}
	}
	return l.opts.Removed()
}

// PersistHashes makes the hashes up to a position durable, so that the events can be removed, and
// returns the tree hash over them. It waits for the position to be hashed,
// and while it is not decided whether the ledger is damaged, until ctx is done.
func (l *Log) PersistHashes(ctx context.Context, last uint64) (root string, err error) {
	for {
		l.mu.Lock()
		hashed, damage, suspected, changed := l.tree.Size()-uint64(len(l.confirm)), l.damage, l.suspected, l.changedCh
		l.mu.Unlock()
		if damage != nil {
			return "", damage
		}
		if hashed >= last && suspected == nil {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", fmt.Errorf("%d of %d events are hashed: %w", hashed, last, context.Cause(ctx))
		}
	}
	if err := l.makeDurable(); err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.durable < last {
		return "", fmt.Errorf("the hashes of %d events are on disk, not of %d", l.durable, last)
	}
	hash, err := l.tree.RootAt(last)
	if err != nil {
		return "", fmt.Errorf("read the tree: %w", err)
	}
	return proof.EncodeHash(hash), nil
}
