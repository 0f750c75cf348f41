package audit

import (
	"fmt"
	"io/fs"
)

// windowTiles is how many tiles of leaves a window keeps: a checkpoint comes
// seconds after the last event it covers, not a million events.
const windowTiles = 4096

// window keeps the newest tiles of a tree in memory, and shows each to see.
type window struct {
	see   func(t Tile, hashes []Hash)
	tiles map[Tile][]byte
}

func (w *window) Put(t Tile, hashes []Hash) error {
	if w.see != nil {
		w.see(t, hashes)
	}
	w.tiles[t] = EncodeTile(hashes)
	if t.Level == 0 && t.Index >= windowTiles {
		delete(w.tiles, Tile{Index: t.Index - windowTiles, Width: TileWidth})
	}
	return nil
}

func (w *window) Get(t Tile, width int) ([]byte, error) {
	raw, ok := w.tiles[t]
	if !ok {
		return nil, fmt.Errorf("%s is not kept: %w", t.Path(), fs.ErrNotExist)
	}
	return raw[:width*len(Hash{})], nil
}
