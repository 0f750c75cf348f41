package proof_test

import (
	"testing"

	"daybook/proof"
)

// No size of a tree makes the check of a proof endless.
func TestLargeSizes(t *testing.T) {
	t.Parallel()
	for size := uint64(1<<62 - 1); size != 0; size = size<<1 | 1 {
		if (proof.Inclusion{Seq: 1, Size: size}).Check() == nil {
			t.Errorf("an empty proof in a tree of %d events is accepted", size)
		}
		if (proof.Consistency{From: 1, To: size}).Check() == nil || (proof.Consistency{From: size - 1, To: size}).Check() == nil {
			t.Errorf("an empty proof of a tree of %d events is accepted", size)
		}
		if size>>63 > 0 {
			break
		}
	}
	for _, tt := range []struct {
		size  uint64
		sound bool
	}{{1<<62 - 1, true}, {1 << 62, false}, {1<<63 - 1, false}, {1<<64 - 1, false}} {
		signer, _ := newSignerKey(t, "daybook/x")
		c, err := proof.Checkpoint{Origin: "daybook/x", Size: tt.size}.Sign(signer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := proof.ParseCheckpoint(c.Note); (err == nil) != tt.sound {
			t.Errorf("a checkpoint of %d events: %v", tt.size, err)
		}
	}
}
