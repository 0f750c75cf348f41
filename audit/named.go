package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"daybook/events"
)

// NamedBlobs are the heaps and texts that the events of a ledger name, without
// those that were removed on purpose, by the position of the first event that
// does. What is not an event is passed over.
func NamedBlobs(ctx context.Context, stream Stream) ([]Blob, error) {
	named := newRules(&Report{}, true)
	named.off = true
	for after := uint64(0); ; {
		batch, err := stream.ReadRaw(ctx, after, readAtOnce)
		if err != nil {
			return nil, err
		}
		if len(batch) == 0 {
			break
		}
		for _, m := range batch {
			if e, err := events.Decode(m.Seq, m.Message()); err == nil {
				named.apply(&e)
			}
		}
		after = batch[len(batch)-1].Seq
	}
	list := make([]Blob, 0, len(named.blobs))
	for b := range named.blobs {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b Blob) int {
		return cmp.Or(cmp.Compare(named.blobs[a], named.blobs[b]), cmp.Compare(a.SHA256, b.SHA256))
	})
	return list, nil
}

// Newest is the newest checkpoint that is kept in a directory and signed by one of
// its keys.
func Newest(dir string) (Checkpoint, bool) {
	keys, err := VKeys(dir)
	if err != nil {
		return Checkpoint{}, false
	}
	c, err := lastCheckpoint(dir, keys)
	return c, err == nil && c.Note != nil
}

// OriginOf is the name that a Log over a directory would sign under, empty where it
// would make up a new one. Nothing is made.
func OriginOf(dir, keyFile string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, fileIdentity))
	switch {
	case err == nil:
		var id identity
		if err := json.Unmarshal(raw, &id); err != nil {
			return "", fmt.Errorf("read what the ledger is known by: %w", err)
		}
		return id.Origin, nil
	case !errors.Is(err, os.ErrNotExist):
		return "", err
	}
	skey, err := readKey(cmp.Or(keyFile, filepath.Join(dir, fileKey)))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return "", fmt.Errorf("read the signing key: %w", err)
	}
	return signer.Name(), nil
}
