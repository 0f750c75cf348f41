package audit

// Tree is the tree of a Log, for comparing it with a reference.
type Tree struct{ tree }

// NewTree makes an empty one that keeps its files in dir; empty keeps none.
func NewTree(dir string) *Tree { return &Tree{tree{dir: dir}} }

// Add appends a leaf.
func (t *Tree) Add(h Hash) error { return t.add(h) }

// Root is the tree hash, RootAt what it was at some size.
func (t *Tree) Root() Hash                       { return t.root() }
func (t *Tree) RootAt(size uint64) (Hash, error) { return t.rootAt(size) }
func (t *Tree) Read(tile Tile) ([]byte, error)   { return t.read(tile) }
func (t *Tree) Save() error                      { return t.save() }
func LoadTree(dir string, n uint64) (*Tree, error) {
	loaded, err := loadTree(dir, n)
	if err != nil {
		return nil, err
	}
	return &Tree{*loaded}, nil
}

// SplitNotes finds the notes in a file of checkpoints.
var SplitNotes = splitNotes
