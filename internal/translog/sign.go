package translog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/events"
	"daybook/internal/resources/exhausted"
	"daybook/proof"
)

// longestPause is the maximum time between two attempts to record a checkpoint.
const longestPause = time.Minute

// finalPause is the time between two attempts while FinalCheckpoint waits.
const finalPause = 100 * time.Millisecond

// finalRounds is the maximum number of further rounds in which FinalCheckpoint covers what was
// appended during the round before.
const finalRounds = 10

// unwritablePause is the time between two attempts while the ledger rejects writes and will accept
// them again without a restart. An attempt is cheap: the ledger rejects it immediately.
const unwritablePause = 200 * time.Millisecond

// onDemandEvery is the minimum time between two checkpoints that clients request.
const onDemandEvery = 250 * time.Millisecond

// coverAfter is the time after which a checkpoint covers the event of the last one, if no other event follows.
const coverAfter = time.Second

// sign creates checkpoints until ctx is done. While there are new events, it creates and records one
// checkpoint per Options.Every. It creates one immediately if the server waits for it, and one per
// onDemandEvery for clients. If no other event follows within coverAfter, one more, which is not recorded,
// covers the event of the last one. An idle ledger gets no others.
func (l *Log) sign(ctx context.Context, ledger Ledger) {
	var last time.Time
	pause := l.opts.Every
	var failed error // why the last try failed
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.mu.Lock()
		due, urgent := l.signDue()
		requested := l.clientSize > l.latest.Size && l.tree.Size() >= l.clientSize
		covers, final := l.onlyCheckpointsFollow(), l.final
		if final {
			pause = min(pause, finalPause)
		}
		l.mu.Unlock()
		wait := pause - time.Since(last)
		if covers && failed == nil {
			wait = min(wait, coverAfter-time.Since(last))
		}
		if requested && failed == nil {
			wait = min(wait, onDemandEvery-time.Since(last))
		}
		switch {
		case due && (wait <= 0 || urgent && failed == nil):
			last = time.Now()
			started, err := l.checkpoint(ctx, ledger)
			if started { // the first checkpoint follows immediately
				last = time.Time{}
			}
			l.mu.Lock()
			l.failing = err
			l.wake()
			l.mu.Unlock()
			before := failed
			failed, pause = err, l.pauseAfter(before, err, pause)
			// While FinalCheckpoint waits, nothing is logged: it returns the error. An unwritable
			// ledger is logged once.
			if err != nil && ctx.Err() == nil && !final && (!passes(before) || !passes(err)) {
				l.log.WarnContext(ctx, "no checkpoint of the ledger could be recorded", "err", err, "again_in", pause)
			}
			continue
		case due:
			timer.Reset(wait)
		}
		select {
		case <-l.signNow:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// pauseAfter returns the time to wait after an attempt that returned err. before is the error of
// the attempt before, and pause the time waited after it.
func (l *Log) pauseAfter(before, err error, pause time.Duration) time.Duration {
	switch {
	case err == nil:
		return l.opts.Every
	case passes(err):
		return unwritablePause
	case passes(before):
		pause = l.opts.Every
	}
	return min(2*pause, longestPause)
}

// passes reports whether the ledger rejects writes now and will accept them again without a
// restart, or the process ran out of a resource.
func passes(err error) bool {
	if exhausted.Is(err) {
		return true
	}
	unwritable, ok := errors.AsType[*events.UnwritableError](err)
	return ok && unwritable.Passes
}

// isCompared reports whether run has compared the ledger, up to its end at the start, with what was signed
// before, has found no difference, and the witnesses were asked. Until then nothing is signed. The caller must
// hold mu.
func (l *Log) isCompared() bool {
	return l.started && l.suspected == nil && !l.unasked && len(l.confirm) == 0 && l.rereadTo == 0 && l.tree.Size() >= l.target
}

// signDue reports whether a checkpoint must be signed or stored, and whether it must be signed
// immediately because the server waits for it. The caller must hold mu.
func (l *Log) signDue() (due, urgent bool) {
	if !l.isCompared() || l.damage != nil || l.tree.Size() == 0 {
		return false, false
	}
	if !l.maySign() && !l.coversOld() {
		return l.mustStart() && l.tree.Size() > l.latest.Size || l.unstored != nil, true
	}
	due = l.tree.Size() > l.latest.Size
	urgent = due && l.tree.Size() >= l.urgentSize && l.urgentSize > l.latest.Size
	return due || l.unstored != nil, urgent
}

// SigningProblem returns why this server signs no checkpoints, or an empty string if it does, or if Run has ended
// with damage or has not compared the ledger yet.
func (l *Log) SigningProblem() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.started || l.damage != nil || l.suspected != nil:
		return ""
	case !l.maySign() && !l.mustStart() && !l.starting:
		return l.whyNoSigner()
	case l.failing != nil:
		return fmt.Sprintf("the last checkpoint could not be recorded: %v", l.failing)
	}
	return ""
}

// onlyCheckpointsFollow reports whether all events after the newest checkpoint are checkpoints. The
// next checkpoint is then not recorded: each recorded one would be an event that none covers. The
// caller must hold mu.
func (l *Log) onlyCheckpointsFollow() bool {
	return l.latest.Note != nil && l.lastNonCheckpoint <= l.latest.Size
}

// checkpoint signs the current tree, writes the checkpoint to the signed file, records it unless
// only checkpoints follow the last one, and stores it. If the origin is not started yet, it starts it
// instead and reports true.
func (l *Log) checkpoint(ctx context.Context, ledger Ledger) (started bool, err error) {
	l.mu.Lock()
	unstored := l.unstored
	l.mu.Unlock()
	if unstored != nil {
		if err := l.storeCheckpoint(*unstored); err != nil { // until it is stored, no further checkpoint is recorded
			return false, err
		}
	}
	if started, err := l.startOrigin(ctx, ledger); started || err != nil {
		return started, err
	}
	l.mu.Lock()
	due, _ := l.signDue()
	keys, maySign := l.keys, l.maySign() || l.coversOld()
	c, record := proof.Checkpoint{Origin: l.keys.Origin, Size: l.tree.Size(), Root: l.tree.Root()}, !l.onlyCheckpointsFollow()
	l.mu.Unlock()
	if !due || !maySign {
		return false, nil
	}
	if c, err = c.Sign(keys.signer); err != nil {
		return false, err
	}
	if err := l.remember(c); err != nil {
		return false, err
	}
	if record {
		_, err = ledger.Append(ctx, events.New(events.LedgerTenant, time.Now(), &events.LedgerCheckpointed{
			LedgerID: keys.ID, Origin: c.Origin, Size: c.Size, RootHash: proof.EncodeHash(c.Root), Note: string(c.Note),
		}), -1)
		if err != nil {
			return false, err
		}
	}
	if err := l.storeCheckpoint(c); err != nil {
		l.mu.Lock()
		l.unstored = &c
		l.mu.Unlock()
		return false, err
	}
	return false, nil
}

// Checkpoint returns the newest checkpoint if it covers a position. For position 0 it returns the
// newest checkpoint. If there is no such checkpoint, it requests one and waits for it until ctx is
// done. After damage, it returns the damage instead, and after damage that contradicts what was signed
// in each case.
func (l *Log) Checkpoint(ctx context.Context, covers uint64) (proof.Checkpoint, error) {
	for {
		l.mu.Lock()
		c, damage, changed := l.latest, l.damage, l.changedCh
		l.urgentSize = max(l.urgentSize, covers, 1)
		l.mu.Unlock()
		switch {
		case c.Note != nil && c.Size >= covers && !ContradictsSigned(damage):
			return c, nil // what was signed still holds
		case damage != nil:
			return proof.Checkpoint{}, damage
		}
		l.signal()
		select {
		case <-changed:
		case <-ctx.Done():
			return proof.Checkpoint{}, context.Cause(ctx)
		}
	}
}

// FinalCheckpoint signs a final checkpoint that covers all events, unless one exists. While other
// servers append events, it covers those that were there after finalRounds. The caller MUST call it
// while Run is active. It retries until ctx is done; the error is an *UnsignedError. A server that
// does not sign does nothing.
func (l *Log) FinalCheckpoint(ctx context.Context, ledger Ledger) error {
	l.mu.Lock()
	l.final = true
	follows := l.started && !l.maySign() && !l.mustStart() && !l.starting
	l.mu.Unlock()
	if follows { // other servers sign
		return nil
	}
	l.signal()
	last, err := ledger.LastSeq(ctx)
	for err != nil && ctx.Err() == nil {
		select {
		case <-time.After(finalPause):
		case <-ctx.Done():
		}
		last, err = ledger.LastSeq(ctx)
	}
	var c proof.Checkpoint
	// Each round may append checkpoints. Other servers may append events in every round.
	for round := 0; err == nil; round++ {
		if c, err = l.through(ctx, last, &l.urgentSize, true); err != nil {
			break
		}
		if last, err = ledger.LastSeq(ctx); err == nil && (last <= c.Size || round == finalRounds) {
			return nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	unsigned := max(last, l.tree.Size())
	return &UnsignedError{Events: unsigned - min(unsigned, l.latest.Size), err: cmp.Or(l.damage, l.failing, err)}
}

// UnsignedError is returned by FinalCheckpoint if events have no checkpoint at shutdown. The next
// start signs them.
type UnsignedError struct {
	// Events is the number of unsigned events.
	Events uint64
	err    error
}

// Error returns the number of unsigned events and the reason.
func (e *UnsignedError) Error() string {
	return fmt.Sprintf("sign the last %d events: %v", e.Events, e.err)
}

// Unwrap returns the reason.
func (e *UnsignedError) Unwrap() error { return e.err }

// CheckpointThrough returns a checkpoint that covers every event up to a position. If there is none,
// it requests one and waits for it. CheckpointThrough fails immediately if checkpoints cannot be
// recorded now.
func (l *Log) CheckpointThrough(ctx context.Context, last uint64) (proof.Checkpoint, error) {
	return l.through(ctx, last, &l.urgentSize, false)
}

// Fresh is CheckpointThrough for clients: all their requests together cause at most one recorded
// checkpoint per onDemandEvery.
func (l *Log) Fresh(ctx context.Context, last uint64) (proof.Checkpoint, error) {
	return l.through(ctx, last, &l.clientSize, false)
}

// through returns a checkpoint that covers every event up to last. size points to the field of Log
// from which the signer reads the size that it must sign. With insist set, through waits until
// checkpoints can be recorded; otherwise it fails while they cannot.
func (l *Log) through(ctx context.Context, last uint64, size *uint64, insist bool) (proof.Checkpoint, error) {
	for {
		l.mu.Lock()
		hashed, signed, broken, changed := l.tree.Size(), l.latest, l.damage, l.changedCh
		if !insist {
			broken = cmp.Or(broken, l.failing)
		}
		if hashed >= last && last > signed.Size {
			*size = max(*size, last)
		}
		l.mu.Unlock()
		switch {
		case broken != nil:
			return proof.Checkpoint{}, broken
		case hashed >= last && last <= signed.Size:
			return signed, nil
		case hashed >= last:
			l.signal()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return proof.Checkpoint{}, context.Cause(ctx)
		}
	}
}

// Newest returns the newest checkpoint and requests none. It waits for a checkpoint that covers a
// position if the signer will create one without a request. If ctx is done or checkpoints cannot be
// recorded now, Newest returns the newest existing checkpoint.
func (l *Log) Newest(ctx context.Context, covers uint64) (proof.Checkpoint, error) {
	for {
		l.mu.Lock()
		c, damage, failing, hashed, changed := l.latest, l.damage, l.failing, l.tree.Size(), l.changedCh
		coming := hashed < covers || hashed > c.Size
		l.mu.Unlock()
		switch {
		case damage != nil:
			return proof.Checkpoint{}, damage
		case c.Note != nil && hashed < c.Size:
			// After a start, the tree is computed again. Nothing can be proven until then.
		case c.Note != nil && (c.Size >= covers || !coming || failing != nil):
			return c, nil //nolint:nilerr // only a newer checkpoint could not be recorded
		case failing != nil:
			return proof.Checkpoint{}, failing
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if c.Note != nil {
				return c, nil
			}
			return proof.Checkpoint{}, context.Cause(ctx)
		}
	}
}

// Covers reports whether a checkpoint covers every event up to a position, except for checkpoints at
// the end of that range. It waits for the position to be hashed; if ctx is done before, it reports
// false.
func (l *Log) Covers(ctx context.Context, c proof.Checkpoint, last uint64) bool {
	for {
		l.mu.Lock()
		hashed, lastNonCheckpoint, damage, changed := l.tree.Size(), l.lastNonCheckpoint, l.damage, l.changedCh
		l.mu.Unlock()
		switch {
		case c.Size >= last:
			return true
		case lastNonCheckpoint > c.Size || damage != nil:
			return false
		case hashed >= last:
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
