package blobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// purgeCounterName is the object that counts what was purged.
const (
	purgeCounterName = "purged-chunks"
	metaCount        = "count"
)

// checkPurgeCount looks for signs of lost messages in a state of the bucket.
func (b *bucket) checkPurgeCount(ctx context.Context, st natsjs.StreamState) error {
	missing := st.LastSeq - st.Msgs
	if missing == 0 {
		return nil
	}
	// Read after the state: it only grows, and before the messages go.
	purged, _, err := b.purged(ctx)
	if err != nil {
		return err
	}
	if missing > purged {
		return b.lacks(missing, st.LastSeq, purged)
	}
	return nil
}

// purged is how many chunks were counted before they were purged, and the
// position of the count, 0 if there is none yet.
func (b *bucket) purged(ctx context.Context) (n, seq uint64, err error) {
	e, err := b.entry(ctx, purgeCounterName)
	if errors.Is(err, events.ErrNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read how many chunks were purged: %w", err)
	}
	if n, err = strconv.ParseUint(e.Metadata[metaCount], 10, 64); err != nil {
		return 0, e.seq, b.damaged("the count of purged chunks is %q", e.Metadata[metaCount])
	}
	return n, e.seq, nil
}

// setPurged counts chunks that are about to be purged, in place of the count at
// seq.
func (b *bucket) setPurged(ctx context.Context, n, seq uint64) error {
	body, err := json.Marshal(natsjs.ObjectInfo{
		ObjectMeta: natsjs.ObjectMeta{Name: purgeCounterName, Metadata: map[string]string{metaCount: strconv.FormatUint(n, 10)}},
		Bucket:     bucketName, NUID: events.NewID(time.Now()), Digest: digest(nil),
	})
	if err != nil {
		return err
	}
	return b.replace(ctx, purgeCounterName, body, seq)
}

// count notes that chunks are about to be purged. What was counted by a pass
// that was cut short before it purged is counted once.
func (b *bucket) count(ctx context.Context, chunks uint64) error {
	for {
		purged, seq, err := b.purged(ctx)
		if err != nil {
			return err
		}
		info, err := b.info(ctx)
		if err != nil {
			return err
		}
		missing := info.State.LastSeq - info.State.Msgs
		if missing > purged {
			return b.lacks(missing, info.State.LastSeq, purged)
		}
		if err := b.setPurged(ctx, missing+chunks, seq); !errors.Is(err, events.ErrConflict) {
			return err
		}
	}
}

// acceptMissing counts messages that are gone as purged.
func (b *bucket) acceptMissing(ctx context.Context) error {
	info, err := b.info(ctx)
	if err != nil {
		return fmt.Errorf("count what the blob store lacks: %w", err)
	}
	purged, seq, err := b.purged(ctx)
	if errors.Is(err, events.ErrDamaged) {
		err = nil // the count is one of them
	}
	if err != nil {
		return err
	}
	if missing := info.State.LastSeq - info.State.Msgs; missing > purged {
		return b.setPurged(ctx, missing, seq)
	}
	return nil
}
