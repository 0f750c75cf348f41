package translog

import (
	"fmt"
	"io/fs"

	"golang.org/x/mod/sumdb/tlog"

	"daybook/events"
	"daybook/internal/resources/exhausted"
	"daybook/proof"
)

// prover implements proof.Prover. It checks every tile that it reads against the checkpoint.
type prover struct {
	c      proof.Checkpoint
	tiles  *confirmedTiles
	reader tlog.HashReader
}

// Prover returns a prover under a checkpoint of this log. Its methods return events.ErrDamaged if
// the files of the tree contradict the checkpoint, and proof.ErrHashing if the tree does not have
// the size of the checkpoint yet. It is not safe for concurrent use.
func (l *Log) Prover(c proof.Checkpoint) proof.Prover {
	tiles := &confirmedTiles{l: l, known: map[tlog.Tile][]byte{}}
	return &prover{c: c, tiles: tiles, reader: tlog.TileHashReader(tlog.Tree{N: int64(c.Size), Hash: c.Root}, tiles)}
}

// Inclusion implements proof.Prover.
func (p *prover) Inclusion(seq, size uint64) (proof.Inclusion, error) {
	if seq == 0 || seq > size || size > p.c.Size {
		return proof.Inclusion{}, fmt.Errorf("event %d in the first %d, of which %d are signed: %w", seq, size, p.c.Size, proof.ErrBeyond)
	}
	proof := proof.Inclusion{Seq: seq, Size: size}
	var err error
	if proof.Root, err = p.Root(size); err != nil {
		return proof, err
	}
	if proof.Leaf, err = p.Leaf(seq); err != nil {
		return proof, err
	}
	proof.Hashes, err = tlog.ProveRecord(int64(size), int64(seq)-1, p)
	return proof, err
}

// Leaf implements proof.Prover.
func (p *prover) Leaf(seq uint64) (proof.Hash, error) {
	if seq == 0 || seq > p.c.Size {
		return proof.Hash{}, fmt.Errorf("event %d, of %d that are signed: %w", seq, p.c.Size, proof.ErrBeyond)
	}
	leaf, err := p.ReadHashes([]int64{tlog.StoredHashIndex(0, int64(seq)-1)})
	if err != nil {
		return proof.Hash{}, err
	}
	return leaf[0], nil
}

// Consistency implements proof.Prover.
func (p *prover) Consistency(from, to uint64) (proof.Consistency, error) {
	if from == 0 || from > to || to > p.c.Size {
		return proof.Consistency{}, fmt.Errorf("sizes %d and %d, of %d that are signed: %w", from, to, p.c.Size, proof.ErrBeyond)
	}
	proof := proof.Consistency{From: from, To: to}
	var err error
	if proof.FromRoot, err = p.Root(from); err != nil {
		return proof, err
	}
	if proof.ToRoot, err = p.Root(to); err != nil {
		return proof, err
	}
	if from < to {
		proof.Hashes, err = tlog.ProveTree(int64(to), int64(from), p)
	}
	return proof, err
}

// Root implements proof.Prover.
func (p *prover) Root(size uint64) (proof.Hash, error) {
	if size == p.c.Size {
		return p.c.Root, nil
	}
	return tlog.TreeHash(int64(size), p)
}

// ReadHashes implements tlog.HashReader. It reads tiles from the cache of verified tiles, or from
// files and verifies them.
func (p *prover) ReadHashes(indexes []int64) ([]proof.Hash, error) {
	hashes := make([]proof.Hash, len(indexes))
	for i, index := range indexes {
		tile := p.tiles.holding(index, p.c.Size)
		raw, ok := p.tiles.known[tile]
		if !ok {
			size := p.tiles.l.Size() // before reading: the tree may grow meanwhile
			hashes, err := p.reader.ReadHashes(indexes)
			if exhausted.Is(err) {
				return nil, fmt.Errorf("read the tree: %w", err)
			}
			if err != nil && size < p.c.Size {
				return nil, fmt.Errorf("%w: %d of %d events", proof.ErrHashing, size, p.c.Size)
			}
			if err != nil {
				return nil, wrongFiles("its checkpoint", err)
			}
			return hashes, nil
		}
		var err error
		if hashes[i], err = tlog.HashFromTile(tile, raw, index); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// wrongFiles is the damage of files of the tree that do not match a hash of it.
func wrongFiles(hash string, err error) error {
	return fmt.Errorf("%w: the files of the tree do not match %s (%w); stop the server, delete the directory \"tile\" and the file \"durable\" beside it, and start the server: it computes them again", events.ErrDamaged, hash, err)
}

// confirmedTiles reads tiles for package tlog and caches verified ones.
type confirmedTiles struct {
	l     *Log
	known map[tlog.Tile][]byte
}

// mostTiles is the number of cached tiles, of 8 KiB each, above which the cache is emptied before
// more tiles are added.
const mostTiles = 512

func (*confirmedTiles) Height() int { return proof.TileHeight }

// SaveTiles caches tiles. Package tlog calls it with tiles that match the checkpoint.
func (t *confirmedTiles) SaveTiles(tiles []tlog.Tile, data [][]byte) {
	if len(t.known) > mostTiles {
		clear(t.known)
	}
	for i, tile := range tiles {
		t.known[tile] = data[i]
	}
}

func (t *confirmedTiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	list := make([][]byte, len(tiles))
	for i, tile := range tiles {
		raw, err := t.l.Tile(proof.Tile{Level: tile.L, Index: uint64(tile.N), Width: tile.W})
		if err != nil {
			return nil, err
		}
		list[i] = raw
	}
	return list, nil
}

// holding returns the tile with a hash in a tree of some size, at its width in that tree.
func (*confirmedTiles) holding(index int64, size uint64) tlog.Tile {
	tile := tlog.TileForIndex(proof.TileHeight, index)
	has := size >> (proof.TileHeight * tile.L)
	tile.W = int(min(proof.TileWidth, has-uint64(tile.N)<<proof.TileHeight))
	return tile
}

// Tile returns the hashes of a tile, 32 bytes each. The error is fs.ErrNotExist for a tile that
// the tree does not have and for an entry bundle.
func (l *Log) Tile(t proof.Tile) ([]byte, error) {
	if t.Entries {
		return nil, fmt.Errorf("%s: %w", t.Path(), fs.ErrNotExist)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tree.Read(t)
}

// Leaves returns the leaf hashes of the positions from and to, both included, as far as they are
// hashed. They need not be signed yet.
func (l *Log) Leaves(from, to uint64) ([]proof.Hash, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to = min(to, l.tree.Size()); from == 0 || from > to {
		return nil, nil
	}
	indexes := make([]int64, 0, to-from+1)
	for seq := from; seq <= to; seq++ {
		indexes = append(indexes, tlog.StoredHashIndex(0, int64(seq)-1))
	}
	hashes, err := l.tree.ReadHashes(indexes)
	if err != nil {
		return nil, fmt.Errorf("read the leaves of events %d to %d: %w", from, to, err)
	}
	return hashes, nil
}
