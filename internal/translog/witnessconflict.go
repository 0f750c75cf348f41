package translog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// askFirst asks all witnesses for the newest checkpoint that they know, before the first signature after a
// start: a ledger that was set back together with its signed file is noticed before it signs a second
// history. It waits at most firstAsk for the answers, and then until the tree has reached them. If a
// conflict is proven, or ctx is done, nothing is signed. The error is events.ErrDamaged if the files of the
// tree are wrong, so that an answer cannot be compared.
func (w *witnesses) askFirst(ctx context.Context) error {
	w.l.mu.Lock()
	unasked := w.l.unasked
	w.l.mu.Unlock()
	if !unasked {
		return nil
	}
	asking, stop := context.WithTimeout(ctx, w.firstAsk)
	defer stop()
	type answer struct {
		from  *witnessClient
		c     proof.Checkpoint
		shown bool
		err   error
	}
	answers := make(chan answer, len(w.list))
	for _, wc := range w.list {
		go func() {
			c, shown, err := w.fetchNewest(asking, wc)
			answers <- answer{wc, c, shown, err}
		}()
	}
	var wrong error
	for range w.list {
		a := <-answers
		if a.err == nil && a.shown {
			a.err = w.compare(ctx, a.from, a.c)
			for errors.Is(a.err, proof.ErrHashing) && w.l.awaitHashed(ctx, a.c.Size) {
				a.err = w.compare(ctx, a.from, a.c)
			}
		}
		if ctx.Err() != nil {
			continue // the other goroutines end, too
		}
		switch conflict, ok := errors.AsType[*WitnessConflict](a.err); {
		case ok:
			w.prove(ctx, conflict)
		case errors.Is(a.err, events.ErrDamaged):
			wrong = a.err
		case a.err != nil:
			w.warn(ctx, "the newest checkpoint of the witness is not known; signing does not wait for it", a.from, a.err)
		default:
			a.from.checked = a.shown
		}
	}
	if ctx.Err() != nil || w.proven() != nil {
		return nil
	}
	if wrong != nil {
		return wrong
	}
	w.l.mu.Lock()
	w.l.unasked = false
	w.l.wake()
	w.l.mu.Unlock()
	w.l.signal()
	return nil
}

// awaitHashed waits until the tree has a size, and reports false if ctx is done before.
func (l *Log) awaitHashed(ctx context.Context, size uint64) bool {
	for {
		l.mu.Lock()
		hashed, changed := l.tree.Size(), l.changedCh
		l.mu.Unlock()
		if hashed >= size {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// compareNewest fetches the newest checkpoint that a witness has cosigned and compares it with the tree. It
// reports false without an error if the witness shows none that a key of this ledger signed: the
// interface for reading is optional, and may be at another address.
func (w *witnesses) compareNewest(ctx context.Context, wc *witnessClient) (shown bool, err error) {
	c, shown, err := w.fetchNewest(ctx, wc)
	if err != nil || !shown {
		return false, nil //nolint:nilerr // see above
	}
	return true, w.compare(ctx, wc, c)
}

// compare compares a checkpoint of this ledger that a witness showed with the tree. The error is a
// *WitnessConflict with the checkpoint, proof.ErrHashing if the tree has not reached it yet, or
// events.ErrDamaged if the files of the tree are wrong.
func (w *witnesses) compare(ctx context.Context, wc *witnessClient, c proof.Checkpoint) error {
	w.l.mu.Lock()
	hashed := w.l.tree.Size()
	w.l.mu.Unlock()
	if c.Size > hashed {
		last, err := w.ledger.LastSeq(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("read the end of the ledger: %w", err)
		case c.Size > last:
			return &WitnessConflict{Witness: wc.Name, Size: c.Size, Checkpoint: c}
		default:
			return proof.ErrHashing
		}
	}
	lost := w.l.Lost()
	if _, unknown := eventproof.UnknownIn(lost, c.Size); unknown { // this origin signed events that it cannot have any more
		return &WitnessConflict{Witness: wc.Name, Size: c.Size, Checkpoint: c}
	}
	if eventproof.IsInLostTile(lost, c.Size) {
		return fmt.Errorf("its checkpoint of %d events ends in lost events of which only a hash over all is known, so that it cannot be compared", c.Size)
	}
	w.l.mu.Lock()
	root, err := w.l.provenRootAt(c.Size)
	w.l.mu.Unlock()
	if err != nil {
		return err
	}
	if root != c.Root {
		return &WitnessConflict{Witness: wc.Name, Size: c.Size, Checkpoint: c}
	}
	return nil
}

// fetchNewest returns the newest checkpoint that a witness has cosigned, verified with the keys of this
// ledger. It reports false if the witness says that it has none.
func (w *witnesses) fetchNewest(ctx context.Context, wc *witnessClient) (c proof.Checkpoint, shown bool, err error) {
	w.l.mu.Lock()
	origin, trust := w.l.keys.Origin, w.l.counting()
	w.l.mu.Unlock()
	sum := sha256.Sum256([]byte(origin))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address(wc.URL, hex.EncodeToString(sum[:])+"/checkpoint"), nil)
	if err != nil {
		return c, false, err
	}
	a, err := w.do(req, proof.MaxNoteBytes)
	switch {
	case err != nil:
		return c, false, err
	case a.status == http.StatusNotFound:
		return c, false, nil
	case a.status != http.StatusOK:
		return c, false, fmt.Errorf("the witness answered %d", a.status)
	}
	if c, err = trust.Open(a.body); err != nil { // what a retired key signed later is no proof
		return c, false, fmt.Errorf("the answer of the witness: %w", err)
	}
	return c, c.Origin == origin && c.Size > 0, nil
}

// prove keeps a proven conflict, and reports it.
func (w *witnesses) prove(ctx context.Context, conflict *WitnessConflict) {
	w.mu.Lock()
	w.conflict = cmp.Or(w.conflict, conflict)
	w.mu.Unlock()
	w.report(ctx, conflict)
}

// WitnessClaims returns the sizes of the checkpoints that witnesses claim to have cosigned, that the ledger
// does not continue, and that they do not show, by the name of the witness. It is empty without
// such claims.
func (l *Log) WitnessClaims() map[string]uint64 {
	if l.witnesses == nil {
		return nil
	}
	l.witnesses.mu.Lock()
	defer l.witnesses.mu.Unlock()
	return maps.Clone(l.witnesses.claims)
}

// WitnessRefusals returns why witnesses refuse the checkpoints of this server, by the name of the witness: they
// do not know its key or its origin.
func (l *Log) WitnessRefusals() map[string]string {
	if l.witnesses == nil {
		return nil
	}
	l.witnesses.mu.Lock()
	defer l.witnesses.mu.Unlock()
	return maps.Clone(l.witnesses.refused)
}

// WitnessFailures returns why other witnesses do not cosign, by name: they have failed several times in a row, for
// example because they do not answer, or because a clock is wrong.
func (l *Log) WitnessFailures() map[string]string {
	if l.witnesses == nil {
		return nil
	}
	l.witnesses.mu.Lock()
	defer l.witnesses.mu.Unlock()
	return maps.Clone(l.witnesses.failing)
}

// otherHistory is the reason of a *breakError for a proven conflict.
const otherHistory = "a witness has a signed checkpoint that the ledger does not continue"

// endSigning lets nothing more be signed because of a proven conflict, which it returns as damage.
func (l *Log) endSigning(conflict *WitnessConflict) error {
	c := conflict.Checkpoint
	broken := breakOf(otherHistory, "%w (tree hash %s)", conflict, proof.EncodeHash(c.Root))
	l.mu.Lock()
	l.suspected = broken
	l.wake()
	l.mu.Unlock()
	if err := l.rememberContradiction(c); err != nil {
		l.log.Error("the checkpoint of the witness cannot be kept; the next start has to ask the witness again", "err", err)
	}
	return broken
}
