package audit

import (
	"fmt"
	"io/fs"

	"daybook/proof"
)

// windowTiles is the number of tiles of each level that recentTiles keeps: the leaves are those of the
// newest million events. A checkpoint is recorded within seconds after the last event that it
// covers, so the check of a checkpoint needs no older leaves.
const windowTiles = 4096

// recentTiles keeps in memory the newest windowTiles tiles of each level of a tree. It calls its function
// see, if set, for each new tile.
type recentTiles struct {
	see   func(t proof.Tile, hashes []proof.Hash)
	tiles map[proof.Tile][]byte
}

func (w *recentTiles) Put(t proof.Tile, hashes []proof.Hash) error {
	if w.see != nil {
		w.see(t, hashes)
	}
	w.tiles[t] = proof.EncodeTile(hashes)
	if t.Index >= windowTiles {
		delete(w.tiles, proof.Tile{Level: t.Level, Index: t.Index - windowTiles, Width: proof.TileWidth})
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
