package translog

import (
	"errors"
	"log/slog"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"daybook/events"
	"daybook/proof"
)

// After a start, the newest checkpoint may cover more events than the tree, which is computed
// again. Until the tree has the size, proofs under the checkpoint are refused, without a report of
// damage.
func TestProofWhileTheTreeIsComputed(t *testing.T) {
	t.Parallel()
	log, err := Open(Options{Dir: t.TempDir(), NoSync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	other := proof.NewTree(log.file)
	for i := range 5 {
		if err := other.Add(proof.Hash{byte(i)}); err != nil {
			t.Fatal(err)
		}
		if i < 2 {
			if err := log.tree.Add(proof.Hash{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := proof.Checkpoint{Origin: log.keys.Origin, Size: other.Size(), Root: other.Root()}
	_, err = log.Prover(c).Inclusion(1, c.Size)
	if !errors.Is(err, proof.ErrHashing) || errors.Is(err, events.ErrDamaged) {
		t.Errorf("a proof at a size that the tree does not have yet: %v", err)
	}
	// The tree may catch up just after the proof has read it.
	p := log.Prover(c).(*prover)
	p.reader = readThen{p.reader, func() {
		for i := 2; i < 5; i++ {
			if err := log.tree.Add(proof.Hash{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}}
	_, err = p.Inclusion(1, c.Size)
	if !errors.Is(err, proof.ErrHashing) || errors.Is(err, events.ErrDamaged) {
		t.Errorf("a proof while the tree reaches the size: %v", err)
	}
	if _, err := log.Prover(c).Inclusion(1, c.Size); err != nil {
		t.Errorf("a proof after the tree has reached the size: %v", err)
	}
}

// readThen calls a function after each read.
type readThen struct {
	tlog.HashReader
	then func()
}

func (r readThen) ReadHashes(indexes []int64) ([]proof.Hash, error) {
	hashes, err := r.HashReader.ReadHashes(indexes)
	r.then()
	return hashes, err
}
