package translog

import (
	"context"
	"errors"
	"time"

	"daybook/proof"
)

// SetExhaustedPause changes the time that Run waits after the machine ran out of a resource. It
// MUST be called before Run.
func (l *Log) SetExhaustedPause(d time.Duration) { l.exhaustedPause = d }

// FileTree is a tree with its files, for comparison with a reference.
type FileTree struct {
	*proof.Tree
	files *tileFiles
}

// NewFileTree returns an empty tree with its files in dir.
func NewFileTree(dir string) *FileTree {
	files := &tileFiles{dir: dir}
	return &FileTree{proof.NewTree(files), files}
}

// LoadFileTree loads a tree of some size from its files.
func LoadFileTree(dir string, n uint64) (*FileTree, error) {
	files := &tileFiles{dir: dir}
	t, err := files.load(n)
	return &FileTree{t, files}, err
}

// Save writes the tiles that are not full, and removes those that they replace.
func (t *FileTree) Save() error { return errors.Join(t.files.save(t.Tree), t.files.removeReplaced()) }

// SplitNotes splits a file of checkpoints into notes.
var SplitNotes = splitNotes

// KeepCheckpoint appends a signed note to the file of checkpoints in a directory.
var KeepCheckpoint = keepCheckpoint

// RunPass reads the events that are in the tree at its start once.
func (s *Scrub) RunPass(ctx context.Context) error { return s.runPass(ctx) }
