package audit

import (
	"fmt"
	"io/fs"

	"daybook/proof"
)

// windowTiles is how many tiles of leaves a window keeps: a checkpoint comes
// seconds after the last event it covers, not a million events.
const windowTiles = 4096

// window keeps the newest tiles of a tree in memory, and shows each to see.
type window struct {
	see   func(t proof.Tile, hashes []proof.Hash)
	tiles map[proof.Tile][]byte
}

func (w *window) Put(t proof.Tile, hashes []proof.Hash) error {
	if w.see != nil {
		w.see(t, hashes)
	}
	w.tiles[t] = proof.EncodeTile(hashes)
	if t.Level == 0 && t.Index >= windowTiles {
		delete(w.tiles, proof.Tile{Index: t.Index - windowTiles, Width: proof.TileWidth})
	}
	return nil
}

func (w *window) Get(t proof.Tile, width int) ([]byte, error) {
	raw, ok := w.tiles[t]
	if !ok {
		return nil, fmt.Errorf("%s is not kept: %w", t.Path(), fs.ErrNotExist)
	}
	return raw[:width*len(proof.Hash{})], nil
}
