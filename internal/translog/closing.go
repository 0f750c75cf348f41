package translog

import (
	"context"
	"fmt"

	"daybook/events"
	"daybook/proof"
)

// SignClosing returns the signed closing checkpoint of a volume that is being sealed. The next event
// will be the last of the volume and contain the result; last is the position before it. SignClosing
// waits until this position is hashed or ctx is done.
func (l *Log) SignClosing(ctx context.Context, last uint64) (*events.ClosingCheckpoint, error) {
	for {
		l.mu.Lock()
		hashed, damage, changed := l.tree.Size()-uint64(len(l.confirm)), l.damage, l.changedCh
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
	c, err := proof.Checkpoint{Origin: l.keys.Origin, Size: last, Root: root}.Sign(l.keys.signer)
	if err != nil {
		return nil, err
	}
	if err := l.remember(c); err != nil {
		return nil, err
	}
	if err := l.storeCheckpoint(c); err != nil {
		return nil, err
	}
	return &events.ClosingCheckpoint{Origin: c.Origin, Size: c.Size, RootHash: proof.EncodeHash(c.Root), Note: string(c.Note)}, nil
}
