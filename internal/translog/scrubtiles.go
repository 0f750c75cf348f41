package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/resources/exhausted"
	"daybook/proof"
)

// pass is one pass of a Scrub. It holds the events of one read, the leaves of one tile, and one tile
// of each level.
type pass struct {
	tree  *proof.Tree // that of the Log when the pass started
	scrub *Scrub
	// end is the position that the pass reads up to, and at the last one that it has read.
	end, at uint64
	// ahead holds events after at that were read already.
	ahead []events.Stored
	// cut reports that the stream ends before end.
	cut bool
	// tail are the leaves of the last tile, if it is not full, as the Log had them in memory at the
	// start of the pass.
	tail []byte
	// lost are the positions that were recorded as lost at the start of the pass.
	lost events.Lost
	// newest are the newest checkpoints at the start of the pass: the published and the signed one.
	newest [2]proof.Checkpoint
	// above holds, by level, the full tile that was compared last. Level 0 is not used.
	above map[int]comparedTile
}

// comparedTile is the content of a full tile.
type comparedTile struct {
	index  uint64
	hashes []byte // empty if the file cannot be read
	// proven reports that the tiles above prove the hashes.
	proven bool
}

func (s *Scrub) newPass() *pass {
	p := &pass{scrub: s, above: map[int]comparedTile{}, lost: s.log.Lost()}
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	p.tree = l.tree
	p.end, p.newest = l.tree.Size()-uint64(len(l.confirm)), l.mustHold()
	last := l.tree.PartialLeaves()
	p.tail = proof.EncodeTile(last[:len(last)-len(l.confirm)])
	return p
}

// errTreeReplaced ends a pass: an origin ended, and the tree is computed again.
var errTreeReplaced = errors.New("the tree of hashes is computed again")

// isReplaced reports whether the tree of the pass is not that of the Log any more.
func (p *pass) isReplaced() bool {
	l := p.scrub.log
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tree != p.tree
}

// found reports a finding, unless the tree was replaced: what differs then is compared in the next pass.
func (p *pass) found(first, last uint64, what string) {
	if !p.isReplaced() {
		p.scrub.found(first, last, what)
	}
}

// readTileLeaves are the leaves of events of one tile.
type readTileLeaves struct {
	first, last uint64
	hashes      [proof.TileWidth]proof.Hash
	known       [proof.TileWidth]bool // false for a position without a readable event
	heaps       []namedHeap
	buf         []byte
}

// namedHeap is a heap that the event at an index of the tile names.
type namedHeap struct {
	index          int
	tenant, sha256 string
}

// add hashes the next event and decodes it.
func (r *readTileLeaves) add(m events.Stored) (e events.Event, err error) {
	leaf, buf, err := proof.HashLeaf(r.buf, eventproof.RecordOf(m))
	if r.buf = buf; err != nil {
		return e, err
	}
	if e, err = events.Decode(m.Seq, m.Message()); err != nil {
		return e, err
	}
	i := int(m.Seq - r.first)
	r.hashes[i], r.known[i] = leaf, true
	if d := events.EndingOf(e.Data); d != nil && d.Heap != nil { // a failed run may have left a heap, too
		r.heaps = append(r.heaps, namedHeap{i, e.Tenant, d.Heap.SHA256})
	}
	return e, nil
}

// compareLeaves compares events with stored leaves, 32 bytes each, and verifies the heaps of those
// that are the same. The leaf of an event that cannot be read is not compared.
func (p *pass) compareLeaves(ctx context.Context, leaves *readTileLeaves, stored []byte) error {
	for i := range int(leaves.last - leaves.first + 1) {
		if leaves.known[i] && !bytes.Equal(leaves.hashes[i][:], hashAt(stored, i)) {
			seq := leaves.first + uint64(i)
			p.found(seq, seq, "the event does not match the hash that was computed when it was recorded")
			leaves.known[i] = false
		}
	}
	return p.compareHeaps(ctx, leaves)
}

func (p *pass) compareHeaps(ctx context.Context, leaves *readTileLeaves) error {
	for _, h := range leaves.heaps {
		if !leaves.known[h.index] {
			continue
		}
		if err := p.scrub.compareHeap(ctx, h.tenant, h.sha256); err != nil {
			return err
		}
	}
	return nil
}

// compareTile compares the events of a full tile of leaves with its file, and both with the hash
// over the tile in the level above. This hash decides which of them is wrong.
func (p *pass) compareTile(ctx context.Context, index uint64, leaves *readTileLeaves) error {
	tile := proof.Tile{Index: index, Width: proof.TileWidth}
	over, _, err := p.hashOver(ctx, tile)
	if err != nil {
		return err
	}
	stored, cause := p.readFile(ctx, tile)
	if exhausted.Is(cause) || ctx.Err() != nil {
		return cause
	}
	if over == nil && cause != nil {
		p.found(leaves.first, leaves.last, fmt.Sprintf("the stored hashes of the events cannot be read: %v", cause))
		return p.compareHeaps(ctx, leaves)
	}
	if over == nil || cause == nil && hashOf(stored) == *over {
		return p.compareLeaves(ctx, leaves, stored)
	}
	computed, whole, complete := p.fill(leaves, stored)
	switch {
	case complete && proof.HashSubtrees(computed) == *over:
		if err := p.rewrite(ctx, tile, computed, cause); err != nil {
			return err
		}
		return p.compareHeaps(ctx, leaves)
	case whole != nil && *whole == *over:
		return nil // Only the hash over the tile is known since the loss was accepted.
	}
	var changed []uint64
	for i, known := range leaves.known {
		if known && cause == nil && !bytes.Equal(leaves.hashes[i][:], hashAt(stored, i)) {
			changed = append(changed, leaves.first+uint64(i))
			leaves.known[i] = false
		}
	}
	what := fmt.Sprintf("neither the events nor the hashes in the file %s match the hash over them in the level above", tile.Path())
	if cause != nil {
		what = fmt.Sprintf("the file of their hashes cannot be read (%v), and the events do not match the hash over them in the level above", cause)
	}
	p.found(leaves.first, leaves.last, what)
	for _, seq := range changed {
		p.found(seq, seq, "the event does not match the hash that was computed when it was recorded")
	}
	return p.compareHeaps(ctx, leaves)
}

// fill returns the leaves of a full tile: those of events, of lost positions, and the stored ones of
// other positions, whose events are removed. complete is false if a leaf is not known. whole is the
// hash over the tile if the record of the loss has it.
func (p *pass) fill(leaves *readTileLeaves, stored []byte) (computed []proof.Hash, whole *proof.Hash, complete bool) {
	computed, known := slices.Clone(leaves.hashes[:]), leaves.known
	for _, r := range p.lost {
		if r.To < leaves.first || r.From > leaves.last {
			continue
		}
		_ = r.HashSegments(func(from, to uint64, hash []byte) error { // events.Lost is valid
			switch {
			case to > from && from == leaves.first && len(hash) == len(proof.Hash{}):
				h := proof.Hash(hash)
				whole = &h
			case to == from && from >= leaves.first && to <= leaves.last:
				leaf := proof.HoleHash(from)
				if len(hash) == len(leaf) {
					leaf = proof.Hash(hash)
				}
				if i := from - leaves.first; !known[i] {
					computed[i], known[i] = leaf, true
				}
			}
			return nil
		})
	}
	complete = true
	for i := range computed {
		if !known[i] && len(stored) > 0 {
			computed[i], known[i] = proof.Hash(hashAt(stored, i)), true
		}
		complete = complete && known[i]
	}
	return computed, whole, complete
}

// hashOver returns the hash over a full tile, which is in the level above. proven reports whether
// the tiles above prove it. The result is nil if the tile above cannot be read.
func (p *pass) hashOver(ctx context.Context, tile proof.Tile) (over *proof.Hash, proven bool, err error) {
	above, err := p.tileAt(ctx, tile.Level+1, tile.Index/proof.TileWidth)
	if err != nil || len(above.hashes) == 0 {
		return nil, false, err
	}
	hash := proof.Hash(hashAt(above.hashes, int(tile.Index%proof.TileWidth)))
	return &hash, above.proven, nil
}

// tileAt returns the tile of the tree at a level and an index: from memory if it is not full, else
// from its file, which tileAt compares with the hash over it. If they differ, tileAt computes the
// tile from those below and rewrites it. If that is not possible, it reports a finding. The hashes
// of a tile of leaves are only compared.
func (p *pass) tileAt(ctx context.Context, level int, index uint64) (comparedTile, error) {
	if p.isReplaced() || !p.scrub.log.hasLevel(level) {
		return comparedTile{}, errTreeReplaced
	}
	if hashes := p.scrub.log.inMemory(level, index); hashes != nil {
		return comparedTile{index, hashes, true}, nil
	}
	if t, ok := p.above[level]; ok && t.index == index && level > 0 {
		return t, nil
	}
	tile := proof.Tile{Level: level, Index: index, Width: proof.TileWidth}
	over, proven, err := p.hashOver(ctx, tile)
	if err != nil {
		return comparedTile{}, err
	}
	t := comparedTile{index: index}
	var cause error
	if t.hashes, cause = p.readFile(ctx, tile); exhausted.Is(cause) || ctx.Err() != nil {
		return t, cause
	}
	same := cause == nil && over != nil && hashOf(t.hashes) == *over
	t.proven = same && proven
	switch {
	case same || level == 0 || cause == nil && over == nil:
	default:
		rebuilt, err := p.rebuild(ctx, tile, t.hashes, over)
		if err != nil {
			return t, err
		}
		if rebuilt != nil {
			if err := p.rewrite(ctx, tile, rebuilt, cause); err != nil {
				return t, err
			}
			t.hashes, t.proven = proof.EncodeTile(rebuilt), proven
			break
		}
		first, last := index*spanOf(level)+1, min((index+1)*spanOf(level), p.end)
		if cause != nil {
			p.found(first, last, fmt.Sprintf("the hashes over the events cannot be read (%v), and the tiles below do not match the hash over them in the level above", cause))
		} else {
			p.found(first, last, fmt.Sprintf("neither the hashes in the file %s nor the tiles below match the hash over them in the level above", tile.Path()))
		}
	}
	if level > 0 {
		p.above[level] = t
	}
	return t, nil
}

// spanOf returns the number of leaves below a full tile of a level.
func spanOf(level int) uint64 { return 1 << (proof.TileHeight * (level + 1)) }

// rebuild computes a full tile above the leaves from the tiles below it, and for level 1 also from
// the events. It returns nil unless the result has the given hash.
func (p *pass) rebuild(ctx context.Context, tile proof.Tile, stored []byte, over *proof.Hash) ([]proof.Hash, error) {
	if over == nil {
		return nil, nil
	}
	hashes := make([]proof.Hash, proof.TileWidth)
	var disputed []int // the file below is unreadable or does not match the stored hash
	for i := range hashes {
		below := proof.Tile{Level: tile.Level - 1, Index: tile.Index*proof.TileWidth + uint64(i), Width: proof.TileWidth}
		raw, err := p.readFile(ctx, below)
		if exhausted.Is(err) || ctx.Err() != nil {
			return nil, err
		}
		if err == nil {
			hashes[i] = hashOf(raw)
		} else if len(stored) > 0 {
			hashes[i] = proof.Hash(hashAt(stored, i))
		}
		if err != nil || len(stored) == 0 || !bytes.Equal(hashes[i][:], hashAt(stored, i)) {
			disputed = append(disputed, i)
		}
	}
	if proof.HashSubtrees(hashes) == *over {
		return hashes, nil
	}
	if tile.Level > 1 {
		return nil, nil
	}
	for _, i := range disputed {
		computed, err := p.hashEvents(ctx, tile.Index*proof.TileWidth+uint64(i))
		if err != nil {
			return nil, err
		}
		if computed != nil {
			hashes[i] = *computed
		}
	}
	if proof.HashSubtrees(hashes) == *over {
		return hashes, nil
	}
	return nil, nil
}

// hashEvents returns the hash over a full tile of leaves, computed from the events and from the
// record of their loss. It returns nil if a leaf is not known.
func (p *pass) hashEvents(ctx context.Context, index uint64) (*proof.Hash, error) {
	s := p.scrub
	leaves := &readTileLeaves{first: index*proof.TileWidth + 1, last: (index + 1) * proof.TileWidth}
	for at := leaves.first - 1; at < leaves.last; {
		n := int(leaves.last - at)
		if err := s.events.WaitN(ctx, n); err != nil {
			return nil, err
		}
		batch, err := s.opts.Stream.ReadRaw(ctx, at, n)
		if errors.Is(err, events.ErrDamaged) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if batch = upTo(batch, leaves.last); len(batch) == 0 {
			break
		}
		for _, m := range batch {
			if err := s.pace(ctx, int64(len(m.Body))); err != nil {
				return nil, err
			}
			if _, err := leaves.add(m); err != nil {
				return nil, nil //nolint:nilerr // the pass reports the event
			}
			at = m.Seq
		}
	}
	computed, whole, complete := p.fill(leaves, nil)
	if complete {
		hash := proof.HashSubtrees(computed)
		return &hash, nil
	}
	return whole, nil
}

// comparePartialFiles compares the files of the tiles that are not full with the tree, and rewrites
// those that differ.
func (p *pass) comparePartialFiles(ctx context.Context) error {
	l := p.scrub.log
	l.filesMu.Lock()
	saved := slices.Clone(l.file.current)
	l.filesMu.Unlock()
	for _, tile := range saved {
		t, err := p.tileAt(ctx, tile.Level, tile.Index)
		if err != nil {
			return err
		}
		if !t.proven {
			continue // a finding is reported
		}
		if err := p.scrub.pace(ctx, int64(tile.Width*tlog.HashSize)); err != nil {
			return err
		}
		wrong, cause, err := l.comparePartial(tile, t.hashes[:tile.Width*tlog.HashSize])
		if wrong {
			err = p.noteRepair(ctx, tile, cause, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// comparePartial rewrites the file of a tile that is not full unless it has these hashes, or is not
// needed any more. wrong reports that it had others, cause is the reason if it could not be read, and
// err that of the write.
func (l *Log) comparePartial(tile proof.Tile, hashes []byte) (wrong bool, cause, err error) {
	l.filesMu.Lock()
	defer l.filesMu.Unlock()
	if !slices.Contains(l.file.current, tile) {
		return false, nil, nil
	}
	raw, cause := readTile(l.opts.Dir, tile, tile.Width)
	if exhausted.Is(cause) {
		return false, nil, cause
	}
	if cause == nil && bytes.Equal(raw, hashes) {
		return false, nil, nil
	}
	return true, cause, l.file.restore(tile, hashes, !l.opts.NoSync)
}

// compareCheckpoint compares the tree with a checkpoint. The tiles that prove its tree hash are
// compared with those above, up to the tree in memory.
func (p *pass) compareCheckpoint(ctx context.Context, c proof.Checkpoint) error {
	if c.Note == nil || c.Size > p.end {
		return nil
	}
	l := p.scrub.log
	l.mu.Lock()
	keys := l.counting().Keys // the key may be retired since the pass started
	l.mu.Unlock()
	signed, err := proof.OpenCheckpoint(c.Note, keys...)
	if err != nil || signed.Size != c.Size || signed.Root != c.Root {
		p.found(1, c.Size, fmt.Sprintf("the checkpoint of %d events is not signed by a key of this ledger", c.Size))
		return nil //nolint:nilerr // reported
	}
	root, err := tlog.TreeHash(int64(c.Size), provenHashes{ctx, p})
	if errors.Is(err, errUnproven) {
		return nil // a finding is reported
	}
	if err != nil {
		return err
	}
	if root != c.Root {
		p.found(1, c.Size, fmt.Sprintf("a checkpoint says that the first %d events have the tree hash %s, the tree has %s", c.Size, proof.EncodeHash(c.Root), proof.EncodeHash(root)))
	}
	return nil
}

// errUnproven is returned by provenHashes for a hash that the tree in memory does not prove.
var errUnproven = errors.New("the hash is not proven")

// provenHashes reads hashes that the tree in memory proves.
type provenHashes struct {
	ctx  context.Context
	pass *pass
}

// ReadHashes implements tlog.HashReader.
func (r provenHashes) ReadHashes(indexes []int64) ([]proof.Hash, error) {
	hashes := make([]proof.Hash, len(indexes))
	for i, index := range indexes {
		tile := tlog.TileForIndex(proof.TileHeight, index)
		t, err := r.pass.tileAt(r.ctx, tile.L, uint64(tile.N))
		if err != nil {
			return nil, err
		}
		if !t.proven {
			return nil, errUnproven
		}
		if hashes[i], err = tlog.HashFromTile(tile, t.hashes[:tile.W*tlog.HashSize], index); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// readFile reads a full tile from its file, at the rate of the scrub.
func (p *pass) readFile(ctx context.Context, tile proof.Tile) ([]byte, error) {
	if err := p.scrub.pace(ctx, proof.TileWidth*tlog.HashSize); err != nil {
		return nil, err
	}
	return readTile(p.scrub.log.opts.Dir, tile, proof.TileWidth)
}

// rewrite replaces the file of a full tile whose hashes are proven. cause is the reason if the file
// could not be read.
func (p *pass) rewrite(ctx context.Context, tile proof.Tile, hashes []proof.Hash, cause error) error {
	if p.isReplaced() {
		return errTreeReplaced
	}
	l := p.scrub.log
	return p.noteRepair(ctx, tile, cause, l.file.restore(tile, proof.EncodeTile(hashes), !l.opts.NoSync))
}

// noteRepair counts a file that was written again, and reports one that could not be written. failed
// is the error of the write. noteRepair returns it if resources ran out.
func (p *pass) noteRepair(ctx context.Context, tile proof.Tile, cause, failed error) error {
	if exhausted.Is(failed) {
		return failed
	}
	if failed != nil {
		first := tile.Index*spanOf(tile.Level) + 1
		p.found(first, min(first+spanOf(tile.Level)-1, p.end), fmt.Sprintf("the file of hashes %s is wrong and cannot be written again: %v", tile.Path(), failed))
		return nil
	}
	p.scrub.log.log.WarnContext(ctx, "a file of hashes was wrong and is written again; the events are intact", "tile", tile.Path(), "err", cause)
	p.scrub.note(func(g *ScrubProgress) { g.TilesRepaired++ })
	return nil
}

// hasLevel reports whether the tree has tiles at a level.
func (l *Log) hasLevel(level int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tree.Size()>>(proof.TileHeight*level) > 0 // 0 for a shift of 64 and more
}

// inMemory returns a copy of the hashes of a tile that is not full, or nil for any other.
func (l *Log) inMemory(level int, index uint64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	for tile, hashes := range l.tree.PartialTiles() {
		if tile.Level == level && tile.Index == index {
			return proof.EncodeTile(hashes)
		}
	}
	return nil
}

// hashAt returns a hash of a tile.
func hashAt(tile []byte, i int) []byte { return tile[i*tlog.HashSize : (i+1)*tlog.HashSize] }

// hashOf returns the hash over a full tile.
func hashOf(tile []byte) proof.Hash {
	hashes := make([]proof.Hash, len(tile)/tlog.HashSize)
	for i := range hashes {
		hashes[i] = proof.Hash(hashAt(tile, i))
	}
	return proof.HashSubtrees(hashes)
}
