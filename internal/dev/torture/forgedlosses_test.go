package torture_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"daybook/proof"
)

// The events after a changed one are cut off, and the files of the tree have other hashes for them. After the loss
// is accepted, the genuine key does not sign the changed event. A start without the permission would discard these
// files, so there is none before.
func TestAcceptedLossWithForgedHashes(t *testing.T) {
	t.Parallel()
	y := ledgerToAttack(t, true)
	files := maps.Clone(y.files)
	all := ledgerIn(files)
	leaves, err := leavesOf(all)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	changed := uint64(0)
	editBlock(files, func(list []message) []message {
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].seq < deletedBits && changeSource(random)(&list[i]) {
				changed = list[i].seq
				break
			}
		}
		return slices.DeleteFunc(list, func(m message) bool { return m.seq > changed && m.seq < deletedBits })
	})
	if changed == 0 || changed+10 > y.newest.Size {
		t.Fatalf("event %d of %d is changed", changed, y.newest.Size)
	}
	now, err := leavesOf(ledgerIn(files))
	if err != nil {
		t.Fatal(err)
	}
	copy(leaves, now)
	tiles, root, err := allTiles(leaves)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(files, func(name string, _ []byte) bool {
		return strings.HasPrefix(name, "audit/tile/") || strings.HasPrefix(name, "audit/checkpoints") || filepath.Base(name) == "index.db"
	})
	maps.Copy(files, tiles)
	lines := strings.Split(string(files["audit/durable"]), "\n")
	lines[1], lines[2], lines[3] = fmt.Sprint(len(leaves)), fmt.Sprint(len(leaves)), proof.EncodeHash(root)
	files["audit/durable"] = []byte(strings.Join(lines, "\n"))

	p := y.newPlace(t, files, y.keyFiles)
	if got := p.accept(t); !strings.HasSuffix(got, thenIntact) {
		t.Errorf("after the damage was accepted: %s", got)
	}
	if got, r := y.words(t, p.dir, y.newest); got == isIntact {
		t.Errorf("with the newest checkpoint: %s\n%s", got, r)
	}
}
