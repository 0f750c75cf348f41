package translog

import (
	"context"
	"errors"
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
		hashed, damage, compared, changed := l.tree.Size()-uint64(len(l.confirm)), l.damage, l.isCompared(), l.changedCh
		if l.starting && !l.signsClosing() { // the start was recorded, and not read yet
			compared = false
		}
		l.mu.Unlock()
		switch {
		case damage != nil:
			return nil, damage
		case compared && hashed >= last:
			return l.signClosing(last)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d events are hashed: %w", hashed, last, context.Cause(ctx))
		}
	}
}

// signsClosing reports whether this server may sign a closing checkpoint. A single server may before the
// origin of a ledger starts: appends wait while a volume is sealed, those of statements too. One of several
// may not: another one may start the origin. The caller must hold mu.
func (l *Log) signsClosing() bool {
	return l.maySign() || !l.opts.Shared && l.keys.Ended == nil && (l.mustStart() || l.starting)
}

func (l *Log) signClosing(last uint64) (*events.ClosingCheckpoint, error) {
	l.mu.Lock()
	root, err := l.tree.RootAt(last)
	keys, signs, mustStart := l.keys, l.signsClosing(), l.mustStart()
	l.mu.Unlock()
	switch {
	case !signs && mustStart:
		return nil, errors.New("the ledger does not say yet who signs it; try again in a second")
	case !signs:
		return nil, errors.New("this server does not sign the ledger; seal the volume on a server that does")
	}
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	c, err := proof.Checkpoint{Origin: keys.Origin, Size: last, Root: root}.Sign(keys.signer)
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
