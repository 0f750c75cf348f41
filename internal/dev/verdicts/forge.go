package verdicts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"daybook/internal/eventproof"
	"daybook/proof"
)

// Forger is a key of another person, with the name of a genuine key.
type Forger struct {
	// VKey is the verification key, and Private the signing key as text.
	VKey, Private string
	Signer        note.Signer
}

// NewForger generates a key with a name.
func NewForger(t testing.TB, name string) Forger {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.NewChaCha8([32]byte{1}), name)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	return Forger{vkey, skey, signer}
}

// None is the position behind all events.
const None = math.MaxUint64

// Resign computes the tree over all records of a ledger and signs it. It also replaces the checkpoints
// that events after a position record, so that they agree with the tree: it changes the Body of their
// records. roots are the tree hashes of all sizes.
func Resign(list []proof.Record, signer note.Signer, after uint64) (c proof.Checkpoint, roots map[uint64]proof.Hash, err error) {
	tree := proof.NewTree(NoTiles{})
	roots = map[uint64]proof.Hash{}
	for i, r := range list {
		m := eventproof.StoredOf(r)
		if r.Seq != tree.Size()+1 {
			if err := eventproof.AddHoleLeaves(tree, m); err != nil {
				return c, nil, err
			}
		}
		if r.Seq > after && eventproof.HoldsCheckpoint(m) {
			old, err := eventproof.CheckpointIn(m)
			if err != nil {
				return c, nil, err
			}
			if old.Note != nil {
				again, err := ResignNote(old, signer, roots)
				if err != nil {
					return c, nil, err
				}
				body := bytes.ReplaceAll(list[i].Body, inJSON(string(old.Note)), inJSON(string(again.Note)))
				list[i].Body = bytes.ReplaceAll(body, inJSON(proof.EncodeHash(old.Root)), inJSON(proof.EncodeHash(again.Root)))
			}
		}
		leaf, err := proof.LeafHash(list[i])
		if err == nil {
			err = tree.Add(leaf)
		}
		if err != nil {
			return c, nil, err
		}
		roots[tree.Size()] = tree.Root()
	}
	c, err = proof.Checkpoint{Origin: signer.Name(), Size: tree.Size(), Root: tree.Root()}.Sign(signer)
	return c, roots, err
}

// ResignNote signs a checkpoint of the same size with the tree hash in roots.
func ResignNote(c proof.Checkpoint, signer note.Signer, roots map[uint64]proof.Hash) (proof.Checkpoint, error) {
	root, ok := roots[c.Size]
	if !ok {
		return c, fmt.Errorf("there is no tree of %d events", c.Size)
	}
	return proof.Checkpoint{Origin: signer.Name(), Size: c.Size, Root: root}.Sign(signer)
}

// inJSON returns a text as it is inside a string of JSON.
func inJSON(text string) []byte {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return raw[1 : len(raw)-1]
}

// NoTiles keeps no tiles: a tree of which only the root is asked needs none.
type NoTiles struct{}

// Put implements proof.Tiles.
func (NoTiles) Put(proof.Tile, []proof.Hash) error { return nil }

// Get implements proof.Tiles.
func (NoTiles) Get(proof.Tile, int) ([]byte, error) { return nil, errors.New("no tile is kept") }
