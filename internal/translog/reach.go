package translog

import (
	"errors"
	"os"
)

// Reach is the position up to which a ledger is known to have come by what is
// kept in dir: the size of the newest checkpoint that one of its keys signed, or
// of the tree that is safe on disk if that is more. It is 0 where nothing is kept;
// a file that cannot be read, or is not what was written, adds nothing.
func Reach(dir string) (uint64, error) {
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
