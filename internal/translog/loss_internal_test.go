package translog

import (
	"fmt"
	"testing"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/spans"
	"daybook/proof"
)

// The hashes of lost events that the files prove give the same tree as the events, for any range of
// lost positions. A wrong file never gives a wrong hash.
func TestKnownLeavesGiveTheSameTree(t *testing.T) {
	t.Parallel()
	const size = 3*proof.TileWidth + 77
	dir := t.TempDir()
	files := &tileFiles{dir: dir}
	whole := proof.NewTree(files)
	leaf := func(position uint64) proof.Hash { return proof.HoleHash(position + 1<<40) }
	for p := uint64(1); p <= size; p++ {
		if err := whole.Add(leaf(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.save(whole); err != nil {
		t.Fatal(err)
	}
	note := fmt.Sprintf("%s\n%d\n%d\n%s\n", durableVersion, size, size, proof.EncodeHash(whole.Root()))
	if err := replaceFile(dir+"/"+fileDurable, []byte(note), 0o644, false); err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]uint64{{1, 1}, {1, size}, {size, size}, {2, 255}, {200, 300}, {255, 258}, {256, 769}, {257, 512}, {258, 512}, {257, 768}, {1, 256}, {700, size}} {
		budget := events.MaxLostHashes
		lost := OpenProvenLeaves(dir, "").Ranges(r[0], r[1], size+1, &budget)
		if len(lost) != 1 || lost[0].From != r[0] || lost[0].To != r[1] || len(lost[0].Hashes) == 0 {
			t.Errorf("%v: %d ranges", r, len(lost))
			continue
		}
		d := &events.LedgerVolumeOpened{First: size + 1, Reason: events.VolumeDamaged, Lost: lost}
		if d.Losses(size+1) == nil {
			t.Errorf("%v: the range is not valid in an event", r)
		}
		again := proof.NewTree(&tileFiles{dir: t.TempDir()})
		for p := uint64(1); p <= size; p++ {
			if _, in := spans.At(lost, p); !in {
				if err := again.Add(leaf(p)); err != nil {
					t.Fatal(err)
				}
			} else if p == r[0] {
				if err := eventproof.AddLost(again, lost, r[1], nil); err != nil {
					t.Fatalf("%v: %v", r, err)
				}
			}
		}
		if again.Size() != size || again.Root() != whole.Root() {
			t.Errorf("%v: another tree of %d leaves", r, again.Size())
		}
	}
	// No hash is known after the end of the tree and above the limit of an event.
	budget := 3
	lost := OpenProvenLeaves(dir, "").Ranges(size-5, size+10, size+11, &budget)
	if len(lost) != 2 || len(lost[0].Hashes) != 3 || lost[0].To != size-3 || lost[1].From != size-2 || lost[1].Hashes != nil || lost[1].To != size+10 {
		t.Errorf("%+v", lost)
	}
	// A tile of another tree proves nothing.
	bad := make([]proof.Hash, proof.TileWidth)
	if err := files.Put(proof.Tile{Index: 1, Width: proof.TileWidth}, bad); err != nil {
		t.Fatal(err)
	}
	k := OpenProvenLeaves(dir, "")
	if _, ok := k.Leaf(300); ok {
		t.Error("a leaf of a wrong file is known")
	}
	if h, ok := k.Leaf(600); !ok || h != leaf(600) {
		t.Error("a leaf of the next file is not known")
	}
}

// An invalid lost range is ignored.
func TestInvalidLossesAreIgnored(t *testing.T) {
	t.Parallel()
	hash := proof.EncodeHash(proof.HoleHash(1))
	for name, lost := range map[string]events.Lost{
		"reversed":         {{From: 5, To: 4, NamedAt: 10}},
		"overlapping":      {{From: 2, To: 5, NamedAt: 10}, {From: 5, To: 6, NamedAt: 10}},
		"beyond the event": {{From: 2, To: 10, NamedAt: 11}},
		"named before":     {{From: 2, To: 5, NamedAt: 4}},
		"named later":      {{From: 2, To: 5, NamedAt: 12}},
		"too few hashes":   {{From: 2, To: 3, NamedAt: 10, Hashes: []string{hash}}},
		"too many hashes":  {{From: 2, To: 2, NamedAt: 10, Hashes: []string{hash, hash}}},
		"no hash":          {{From: 2, To: 2, NamedAt: 10, Hashes: []string{"AAAA"}}},
	} {
		d := &events.LedgerVolumeOpened{First: 10, Reason: events.VolumeDamaged, Lost: lost}
		if d.Losses(10) != nil {
			t.Errorf("%s: the range is accepted", name)
		}
	}
	d := &events.LedgerVolumeOpened{First: 10, Reason: events.VolumeDamaged, Lost: events.Lost{{From: 2, To: 2, NamedAt: 10, Hashes: []string{hash}}}}
	if d.Losses(10) == nil || d.Losses(11) != nil {
		t.Error("a valid range is ignored, or is accepted for an event at another position")
	}
}
