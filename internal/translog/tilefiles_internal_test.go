package translog

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"daybook/proof"
)

// grow appends leaves to a tree up to a size.
func grow(t *testing.T, tree *proof.Tree, size uint64) {
	t.Helper()
	for tree.Size() < size {
		if err := tree.Add(proof.HoleHash(tree.Size() + 1<<40)); err != nil {
			t.Fatal(err)
		}
	}
}

// sizes are pairs of a durable size and the size that is saved next. Some grow within a tile, some
// fill it, and some fill one of the level above.
var sizes = [][2]uint64{{1, 2}, {300, 310}, {300, 511}, {300, 512}, {300, 513}, {512, 700}, {255, 256}, {700, 70_000}}

// If a process ends after it saved the tree and before it wrote the new size, the next start loads
// the tree of the previous size. Its leaves may belong to removed events, which cannot be hashed
// again.
func TestInterruptedSaveKeepsTheDurableTree(t *testing.T) {
	t.Parallel()
	for _, s := range sizes {
		dir := t.TempDir()
		files := &tileFiles{dir: dir}
		tree := proof.NewTree(files)
		grow(t, tree, s[0])
		if err := files.save(tree); err != nil {
			t.Fatal(err)
		}
		if err := writeDurable(dir, durableTree{s[0], s[0], tree.Root()}, false); err != nil {
			t.Fatal(err)
		}
		if err := files.removeReplaced(); err != nil {
			t.Fatal(err)
		}
		root, before := tree.Root(), tilesOf(tree)
		grow(t, tree, s[1])
		if err := files.save(tree); err != nil { // the process ends here
			t.Fatal(err)
		}
		l, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if l.tree.Size() != s[0] || l.tree.Root() != root {
			t.Errorf("%d, then %d: the log has %d leaves with another root", s[0], s[1], l.tree.Size())
		}
		// The next save removes the files that it replaces. Files of the interrupted save may stay.
		l.confirm = nil
		grow(t, l.tree, s[1]+1)
		if err := l.makeDurable(); err != nil {
			t.Fatal(err)
		}
		got, now := partialFiles(t, dir), tilesOf(l.tree)
		for _, name := range now {
			if !slices.Contains(got, name) {
				t.Errorf("%d, then %d: %s is missing", s[0], s[1], name)
			}
		}
		for _, name := range before {
			if slices.Contains(got, name) && !slices.Contains(now, name) {
				t.Errorf("%d, then %d: %s is left", s[0], s[1], name)
			}
		}
	}
}

// Earlier versions removed the files of a size before they wrote the larger size to the file
// "durable". Their directories hold the same hashes in larger files.
func TestLoadReadsLargerTiles(t *testing.T) {
	t.Parallel()
	for _, s := range sizes {
		dir := t.TempDir()
		files := &tileFiles{dir: dir}
		tree := proof.NewTree(files)
		grow(t, tree, s[0])
		root := tree.Root()
		if err := writeDurable(dir, durableTree{s[0], s[0], root}, false); err != nil {
			t.Fatal(err)
		}
		grow(t, tree, s[1])
		if err := files.save(tree); err != nil {
			t.Fatal(err)
		}
		again, err := (&tileFiles{dir: dir}).load(s[0])
		if err != nil || again.Root() != root {
			t.Errorf("%d from the files of %d: %v", s[0], s[1], err)
		}
	}
	if _, err := (&tileFiles{dir: t.TempDir()}).load(300); err == nil {
		t.Error("a tree without files was loaded")
	}
}

// tilesOf lists the paths of the tiles of a tree that are not full.
func tilesOf(tree *proof.Tree) (list []string) {
	for tile := range tree.PartialTiles() {
		list = append(list, tile.Path())
	}
	slices.Sort(list)
	return list
}

// partialFiles lists the files of tiles that are not full.
func partialFiles(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(filepath.Dir(path)) == ".p" {
			name, _ := filepath.Rel(dir, path)
			list = append(list, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}
