package audit

import (
	"cmp"
	"context"
	"slices"

	"daybook/events"
)

// ReferencedBlobs returns the heaps and texts that the events of a ledger name, without removed ones,
// ordered by the position of the first event that names them. It skips messages that are not
// events.
func ReferencedBlobs(ctx context.Context, stream Stream) ([]Blob, error) {
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
