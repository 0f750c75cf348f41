package translog

import (
	"time"

	"daybook/proof"
)

// SetExhaustedPause changes how long Run waits before it continues after the machine
// was out of something. It MUST be called before Run.
func (l *Log) SetExhaustedPause(d time.Duration) { l.exhaustedPause = d }

// FileTree is the tree of a Log and its files, for comparing it with a reference.
type FileTree struct {
	*proof.Tree
	files *tileFiles
}

// NewFileTree makes an empty one that keeps its files in dir.
func NewFileTree(dir string) *FileTree {
	files := &tileFiles{dir: dir}
	return &FileTree{proof.NewTree(files), files}
}

// LoadFileTree takes up one of some size from its files.
func LoadFileTree(dir string, n uint64) (*FileTree, error) {
	files := &tileFiles{dir: dir}
	t, err := files.load(n)
	return &FileTree{t, files}, err
}

// Save writes the tiles that are not full.
func (t *FileTree) Save() error { return t.files.save(t.Tree) }

// SplitNotes finds the notes in a file of checkpoints.
var SplitNotes = splitNotes
