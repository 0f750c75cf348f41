package audit

import "time"

// SetExhaustedPause changes how long Run waits before it continues after the machine
// was out of something. It MUST be called before Run.
func (l *Log) SetExhaustedPause(d time.Duration) { l.exhaustedPause = d }

// Tree is the tree of a Log, for comparing it with a reference.
type Tree struct {
	*tree
	files *tileFiles
}

// NewTree makes an empty one that keeps its files in dir.
func NewTree(dir string) *Tree {
	files := &tileFiles{dir: dir}
	return &Tree{&tree{kept: files}, files}
}

// LoadTree takes up one of some size from its files.
func LoadTree(dir string, n uint64) (*Tree, error) {
	files := &tileFiles{dir: dir}
	t, err := files.load(n)
	return &Tree{t, files}, err
}

// Add appends a leaf.
func (t *Tree) Add(h Hash) error { return t.add(h) }

// Root is the tree hash.
func (t *Tree) Root() Hash { return t.root() }

// RootAt is the hash it had at some size.
func (t *Tree) RootAt(size uint64) (Hash, error) { return t.rootAt(size) }

// Read returns a tile.
func (t *Tree) Read(tile Tile) ([]byte, error) { return t.read(tile) }

// Save writes the tiles that are not full.
func (t *Tree) Save() error { return t.files.save(t.tree) }

// SplitNotes finds the notes in a file of checkpoints.
var SplitNotes = splitNotes

// RewriteManifest reads a manifest and writes it again.
func RewriteManifest(raw []byte) ([]byte, error) {
	m, err := parseManifest(raw)
	if err != nil {
		return nil, err
	}
	return m.encode(), nil
}

// RewriteProof reads the line of a proof and writes it again.
func RewriteProof(line []byte) ([]byte, error) {
	seq, hashes, err := parseProof(line)
	if err != nil {
		return nil, err
	}
	return appendProof(nil, seq, hashes), nil
}
