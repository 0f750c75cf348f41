package translog

import (
	"daybook/internal/eventproof"
	"daybook/proof"
)

// resetForeignTree makes run compute the tree again from the events if the files that load read
// contradict a signed checkpoint: they are of another ledger, or were changed. It also does so if they have
// fewer events than each checkpoint, because then the events decide. It reports whether it did. It does so
// once: run then compares the events with what was signed.
func (l *Log) resetForeignTree() (bool, error) {
	l.filesMu.Lock()
	defer l.filesMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.treeReset || l.durable == 0 {
		return false, nil
	}
	lost := l.Lost()
	list := l.mustHold()
	c, err := newestUpTo(l.opts.Dir, l.durable, ofOrigin(l.counting().Keys, l.keys.Origin), list[:], func(c proof.Checkpoint) bool {
		return !eventproof.IsIncomparable(lost, c.Size)
	})
	switch {
	case err != nil:
		return false, err
	case c.Note == nil: // the files are those of too few events
		if c = larger(list[:], l.durable); c.Note == nil || eventproof.IsIncomparable(lost, c.Size) {
			return false, nil
		}
	default:
		if root, err := l.tree.RootAt(c.Size); err != nil || root == c.Root {
			return false, err
		}
	}
	l.log.Warn("the files of the tree of hashes contradict a signed checkpoint or the events; the tree is computed again from the events", "checkpoint", c.Size)
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
