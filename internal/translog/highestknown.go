package translog

import (
	"errors"
	"os"
)

// HighestKnown returns the highest position that an audit directory proves to have existed: the size of
// the newest checkpoint that one of its keys signed or, if larger, of the tree that is on disk. It
// returns 0 for an empty directory and ignores files that are unreadable or damaged.
func HighestKnown(dir string) (uint64, error) {
	var reach uint64
	if d, err := readDurable(dir); err == nil {
		if t, err := (&tileFiles{dir: dir}).load(d.size); err == nil && t.Root() == d.root {
			reach = d.size
		}
	}
	keys, err := VKeys(dir)
	if errors.Is(err, os.ErrNotExist) {
		return reach, nil
	}
	if err != nil {
		return 0, err
	}
	c, err := lastCheckpoint(dir, keys)
	if err != nil {
		return 0, err
	}
	return max(reach, c.Size), nil
}
