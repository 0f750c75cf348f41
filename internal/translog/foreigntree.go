package translog

import (
	"errors"
	"fmt"
	"io/fs"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// resetForeignTree makes run compute the tree again from the events if the files that load read
// contradict a signed checkpoint: they are of another ledger, or were changed. It also does so if they have
// fewer events than each checkpoint, because then the events decide, or if files cannot be read (unreadable).
// It reports whether it did. It does so once: run then compares the events with what was signed.
func (l *Log) resetForeignTree(unreadable bool) (bool, error) {
	l.filesMu.Lock()
	defer l.filesMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.treeReset || l.durable == 0 && !unreadable {
		return false, nil
	}
	if unreadable {
		l.log.Warn("files of the tree of hashes cannot be used; the tree is computed again from the events")
	} else if c, foreign, err := l.contradictedByFiles(); err != nil || !foreign {
		return false, err
	} else {
		l.log.Warn("the files of the tree of hashes contradict a signed checkpoint or the events; the tree is computed again from the events", "checkpoint", c.Size)
	}
	if err := ResetTree(l.opts.Dir, l.Removed().UpTo()); err != nil {
		return false, err
	}
	l.treeReset = true
	if l.witnesses != nil { // a conflict may be one of these files
		l.witnesses.forgetConflict()
		l.unasked = true
	}
	l.file.current = nil // its files are removed when the new tree is saved
	l.confirm, l.durable, l.lastNonCheckpoint = nil, 0, 0
	l.load()
	return true, nil
}

// contradictedByFiles returns the checkpoint that shows that the files of the tree are not those of the
// events, and reports whether there is one. The caller must hold mu.
func (l *Log) contradictedByFiles() (c proof.Checkpoint, foreign bool, err error) {
	lost := l.Lost()
	list := l.mustHold()
	c, err = newestUpTo(l.opts.Dir, l.durable, ofOrigin(l.counting().Keys, l.keys.Origin), list[:], func(c proof.Checkpoint) bool {
		return !eventproof.IsIncomparable(lost, c.Size)
	})
	if err != nil {
		return c, false, err
	}
	if c.Note == nil { // the files are those of too few events
		c = larger(list[:], l.durable)
		return c, c.Note != nil && !eventproof.IsIncomparable(lost, c.Size), nil
	}
	root, err := l.rootAt(c.Size)
	if _, unreadable := errors.AsType[*tileError](err); unreadable {
		return c, true, nil
	}
	return c, err == nil && root != c.Root, err
}

// tileError is damage of the files of the tree: a file is missing, or is not that of its tile.
type tileError struct{ err error }

// Error returns the message of the damage with what to do, for a tree that cannot be computed again.
func (e *tileError) Error() string {
	return fmt.Sprintf("%v: the files of the tree of hashes cannot be used, and those of removed volumes cannot be computed again (%v); restore the audit directory from a backup", events.ErrDamaged, e.err)
}

// Unwrap returns the damage and its cause.
func (e *tileError) Unwrap() []error { return []error{events.ErrDamaged, e.err} }

// rootAt returns the tree hash at an earlier size. If a file that it needs is missing or incomplete, the error is a
// *tileError. After any other error, such as too many open files, the file may be intact. The caller must hold mu.
func (l *Log) rootAt(size uint64) (proof.Hash, error) {
	root, err := l.tree.RootAt(size)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errIncomplete):
		return root, &tileError{err}
	case err != nil:
		return root, fmt.Errorf("read the tree: %w", err)
	}
	return root, nil
}

// newestUpTo returns the newest checkpoint of at most size events that fits: one of known, which are
// verified, or else one in the audit directory that a key signed. Its Note is nil if there is none.
func newestUpTo(dir string, size uint64, vkeys []string, known []proof.Checkpoint, fits func(proof.Checkpoint) bool) (newest proof.Checkpoint, err error) {
	for _, c := range known {
		if c.Note != nil && c.Size <= size && c.Size > newest.Size && fits(c) {
			newest = c
		}
	}
	if newest.Note != nil {
		return newest, nil
	}
	kept, err := openKept(dir)
	if err != nil {
		return newest, err
	}
	defer kept.close()
	for i := kept.len() - 1; i >= 0; i-- {
		c, err := kept.at(i)
		if err != nil {
			return newest, err
		}
		if c.Size == 0 || c.Size > size || !fits(c) {
			continue
		}
		if _, err := proof.OpenCheckpoint(c.Note, vkeys...); err == nil {
			return c, nil
		}
	}
	return newest, nil
}

// larger returns a checkpoint of more than size events; its Note is nil if there is none.
func larger(list []proof.Checkpoint, size uint64) proof.Checkpoint {
	for _, c := range list {
		if c.Note != nil && c.Size > size {
			return c
		}
	}
	return proof.Checkpoint{}
}

// ofNewestOrigin returns the keys of the origin of the last key.
func ofNewestOrigin(vkeys []string) []string {
	if len(vkeys) == 0 {
		return nil
	}
	origin, err := proof.VKeyName(vkeys[len(vkeys)-1])
	if err != nil {
		return nil
	}
	return ofOrigin(vkeys, origin)
}
