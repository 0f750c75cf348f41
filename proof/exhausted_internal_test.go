package proof

import (
	"crypto/sha256"
	"syscall"
	"testing"
)

// fullDisk stores tiles while it has space.
type fullDisk struct {
	space int
	held  map[string][]byte
}

func (d *fullDisk) Put(t Tile, hashes []Hash) error {
	if d.space == 0 {
		return syscall.ENOSPC
	}
	d.space--
	d.held[t.Path()] = EncodeTile(hashes)
	return nil
}

func (d *fullDisk) Get(t Tile, width int) ([]byte, error) { return d.held[t.Path()][:width*32], nil }

// A leaf whose tile could not be written can be added later. The tree is then the same as without
// the failure.
func TestTreeOutlastsAFullDisk(t *testing.T) {
	t.Parallel()
	leaf := func(i int) Hash { return sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)}) }
	const leaves = TileWidth*TileWidth + 3 // two levels of tiles become full at once
	disk, sound := &fullDisk{held: map[string][]byte{}}, &fullDisk{space: -1, held: map[string][]byte{}}
	got, want := &Tree{kept: disk}, &Tree{kept: sound}
	failed := 0
	for i := range leaves {
		if err := want.Add(leaf(i)); err != nil {
			t.Fatal(err)
		}
		disk.space = 0
		for space := 1; got.Add(leaf(i)) != nil; space++ {
			failed++
			if got.size != uint64(i) {
				t.Fatalf("after a failure the tree has %d leaves, want %d", got.size, i)
			}
			disk.space = space // for the first tile, then for both
		}
	}
	if failed != TileWidth+1 || got.size != want.size || got.Root() != want.Root() {
		t.Errorf("%d failures, %d leaves, the same hash: %v", failed, got.size, got.Root() == want.Root())
	}
}
