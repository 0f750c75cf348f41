package proof_test

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"daybook/proof"
)

// memory keeps tiles in memory, by their path.
type memory map[string][]byte

func (m memory) Put(t proof.Tile, hashes []proof.Hash) error {
	m[t.Path()] = proof.EncodeTile(hashes)
	return nil
}

func (m memory) Get(t proof.Tile, width int) ([]byte, error) {
	raw, ok := m[t.Path()]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return raw[:width*32], nil
}

// A tree that is loaded from its tiles is the same tree, and a tile of another length is
// refused.
func TestLoadTree(t *testing.T) {
	t.Parallel()
	leaf := func(i int) proof.Hash { return sha256.Sum256([]byte{byte(i), byte(i >> 8)}) }
	const leaves = 3*proof.TileWidth + 5
	full, partial := memory{}, memory{}
	tree := proof.NewTree(full)
	for i := range leaves {
		if err := tree.Add(leaf(i)); err != nil {
			t.Fatal(err)
		}
	}
	for tile, hashes := range tree.PartialTiles() {
		if err := partial.Put(tile, hashes); err != nil {
			t.Fatal(err)
		}
	}
	if len(full) != 3 || len(partial) != 2 || len(tree.PartialLeaves()) != 5 {
		t.Fatalf("%d full tiles and %d others, %d leaves after the last", len(full), len(partial), len(tree.PartialLeaves()))
	}
	read := func(tile proof.Tile) ([]byte, error) { return partial.Get(tile, tile.Width) }
	loaded, err := proof.LoadTree(full, leaves, read)
	if err != nil || loaded.Size() != leaves || loaded.Root() != tree.Root() {
		t.Fatalf("the loaded tree differs: %v", err)
	}
	for i := range proof.TileWidth {
		if err := errors.Join(tree.Add(leaf(leaves+i)), loaded.Add(leaf(leaves+i))); err != nil {
			t.Fatal(err)
		}
	}
	if loaded.Root() != tree.Root() {
		t.Error("the loaded tree differs after further leaves")
	}
	if _, err := proof.LoadTree(full, leaves+proof.TileWidth, read); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing tiles: %v", err)
	}
	short := func(tile proof.Tile) ([]byte, error) { return partial.Get(tile, tile.Width-1) }
	if _, err := proof.LoadTree(full, leaves, short); err == nil || !strings.Contains(err.Error(), "128 bytes, not 160") {
		t.Errorf("a tile cut short: %v", err)
	}
}
