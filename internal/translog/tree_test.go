package translog_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"daybook/internal/translog"
	"daybook/proof"
)

func leaf(i int) proof.Hash {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(i))
	return tlog.Hash(sha256.Sum256(b[:]))
}

// reference is a tree computed by package tlog.
type reference struct{ hashes []tlog.Hash }

func (r *reference) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		list[i] = r.hashes[x]
	}
	return list, nil
}

func (r *reference) add(t *testing.T, i int, h tlog.Hash) {
	t.Helper()
	stored, err := tlog.StoredHashesForRecordHash(int64(i), h, r)
	if err != nil {
		t.Fatal(err)
	}
	r.hashes = append(r.hashes, stored...)
}

func (r *reference) root(t *testing.T, n int) tlog.Hash {
	t.Helper()
	h, err := tlog.TreeHash(int64(n), r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// At all sizes that are tried, the tree hash equals that of package tlog, also after the tree is loaded
// from its files.
func TestTreeEqualsTheReference(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree, ref := translog.NewFileTree(dir), &reference{}
	if tree.Root() != ref.root(t, 0) {
		t.Error("the empty tree has another hash")
	}
	const n = 256*256 + 700
	for i := range n {
		if err := tree.Add(leaf(i)); err != nil {
			t.Fatal(err)
		}
		ref.add(t, i, leaf(i))
		size := i + 1
		if size < 600 || size%4093 == 0 || size > 256*256-3 && size < 256*256+3 {
			if tree.Root() != ref.root(t, size) {
				t.Fatalf("at size %d the hash differs", size)
			}
		}
	}
	for _, size := range []int{1, 255, 256, 257, 65535, 65536, 65537, n - 1, n} {
		got, err := tree.RootAt(uint64(size))
		if err != nil || got != ref.root(t, size) {
			t.Errorf("the earlier hash at size %d differs: %v", size, err)
		}
	}
	if _, err := tree.RootAt(n + 1); err == nil {
		t.Error("the tree has a hash at a larger size")
	}
	if err := tree.Save(); err != nil {
		t.Fatal(err)
	}
	loaded, err := translog.LoadFileTree(dir, n)
	if err != nil || loaded.Root() != tree.Root() {
		t.Fatalf("the loaded tree differs: %v", err)
	}
	// Saving again replaces the partial tiles.
	for i := n; i < n+300; i++ {
		if err := loaded.Add(leaf(i)); err != nil {
			t.Fatal(err)
		}
		ref.add(t, i, leaf(i))
	}
	if err := loaded.Save(); err != nil {
		t.Fatal(err)
	}
	if loaded.Root() != ref.root(t, n+300) {
		t.Error("the loaded tree differs after further leaves")
	}
	partial, err := filepath.Glob(filepath.Join(dir, "tile", "*", "*.p", "*"))
	if err != nil || len(partial) > 3 {
		t.Errorf("replaced partial tiles remain: %v %v", partial, err)
	}
}

// Tiles of any width equal those of package tlog.
func TestTilesEqualTheReference(t *testing.T) {
	t.Parallel()
	const n = 70_000
	tree, ref := translog.NewFileTree(t.TempDir()), &reference{}
	for i := range n {
		if err := tree.Add(leaf(i)); err != nil {
			t.Fatal(err)
		}
		ref.add(t, i, leaf(i))
	}
	for _, tile := range []proof.Tile{
		{Level: 0, Index: 0, Width: 256}, {Level: 0, Index: 0, Width: 3}, {Level: 0, Index: 273, Width: 112},
		{Level: 1, Index: 0, Width: 256}, {Level: 1, Index: 1, Width: 17}, {Level: 2, Index: 0, Width: 1},
	} {
		want, err := tlog.ReadTileData(tlog.Tile{H: 8, L: tile.Level, N: int64(tile.Index), W: tile.Width}, ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tree.Read(tile)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s differs: %v", tile.Path(), err)
		}
	}
	for _, tile := range []proof.Tile{
		{Level: 0, Index: 273, Width: 113}, {Level: 0, Index: 274, Width: 1}, {Level: 1, Index: 1, Width: 18},
		{Level: 3, Index: 0, Width: 1}, {Level: 63, Index: 0, Width: 1}, {Level: 0, Index: 1 << 60, Width: 1},
	} {
		if _, err := tree.Read(tile); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s, which the tree does not have: %v", tile.Path(), err)
		}
	}
}

// A truncated tile is not loaded.
func TestLoadTreeRefusesCutTiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree := translog.NewFileTree(dir)
	for i := range 300 {
		if err := tree.Add(leaf(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.Save(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "tile", "0", "001.p", "44"), 100); err != nil {
		t.Fatal(err)
	}
	if _, err := translog.LoadFileTree(dir, 300); err == nil {
		t.Error("a tree was loaded from a tile cut short")
	}
}
