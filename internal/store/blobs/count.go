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

// purgeCounterName is the name of the object whose metadata holds the number of purged
// chunks.
const (
	purgeCounterName = "purged-chunks"
	metaCount        = "count"
)

// checkPurgeCount returns damage if more messages are missing from the bucket than were
// purged.
func (b *bucket) checkPurgeCount(ctx context.Context, st natsjs.StreamState) error {
	missing := st.LastSeq - st.Msgs
	if missing == 0 {
		return nil
	}
	// The count is read after the state. It grows before messages are deleted, so it
	// includes every purged message that the state lacks.
	purged, _, err := b.purgedCount(ctx)
	if err != nil {
		return err
	}
	if missing > purged {
		return b.missingMessages(missing, st.LastSeq, purged)
	}
	return nil
}

// purgedCount returns how many chunks were counted before they were purged, and the position
// of the count, 0 for none.
func (b *bucket) purgedCount(ctx context.Context) (n, seq uint64, err error) {
	e, err := b.readMeta(ctx, purgeCounterName)
	if errors.Is(err, events.ErrNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read how many chunks were purged: %w", err)
	}
	if n, err = strconv.ParseUint(e.Metadata[metaCount], 10, 64); err != nil {
		return 0, e.seq, b.storeDamagedf("the count of purged chunks is %q", e.Metadata[metaCount])
	}
	return n, e.seq, nil
}

// setPurged stores the number of purged chunks if the previous count is at position
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

// addPurged adds chunks that are about to be purged to the count. Chunks that an
// interrupted purge counted and did not delete are counted only once.
func (b *bucket) addPurged(ctx context.Context, chunks uint64) error {
	for {
		purged, seq, err := b.purgedCount(ctx)
		if err != nil {
			return err
		}
		info, err := b.info(ctx)
		if err != nil {
			return err
		}
		missing := info.State.LastSeq - info.State.Msgs
		if missing > purged {
			return b.missingMessages(missing, info.State.LastSeq, purged)
		}
		if err := b.setPurged(ctx, missing+chunks, seq); !errors.Is(err, events.ErrConflict) {
			return err
		}
	}
}

// acceptMissing counts all missing messages as purged.
func (b *bucket) acceptMissing(ctx context.Context) error {
	info, err := b.info(ctx)
	if err != nil {
		return fmt.Errorf("count the missing messages of the blob store: %w", err)
	}
	purged, seq, err := b.purgedCount(ctx)
	if errors.Is(err, events.ErrDamaged) {
		err = nil // the count is one of the missing messages
	}
	if err != nil {
		return err
	}
	if missing := info.State.LastSeq - info.State.Msgs; missing > purged {
		return b.setPurged(ctx, missing, seq)
	}
	return nil
}
