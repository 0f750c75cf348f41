package audit

import (
	"fmt"
	"io/fs"

	"daybook/proof"
)

// windowTiles is the number of tiles of leaves in a window. A checkpoint follows the last event it
// covers within seconds, not after a million events.
const windowTiles = 4096

// recentTiles keeps the newest tiles of a tree in memory, and passes each new one to see.
type recentTiles struct {
	see   func(t proof.Tile, hashes []proof.Hash)
	tiles map[proof.Tile][]byte
}

func (w *recentTiles) Put(t proof.Tile, hashes []proof.Hash) error {
	if w.see != nil {
		w.see(t, hashes)
	}
	w.tiles[t] = proof.EncodeTile(hashes)
	if t.Level == 0 && t.Index >= windowTiles {
		delete(w.tiles, proof.Tile{Index: t.Index - windowTiles, Width: proof.TileWidth})
	}
	return nil
}

func (w *recentTiles) Get(t proof.Tile, width int) ([]byte, error) {
	raw, ok := w.tiles[t]
	if !ok {
		return nil, fmt.Errorf("%s is not kept: %w", t.Path(), fs.ErrNotExist)
	}
	return raw[:width*len(proof.Hash{})], nil
}
