package blobs

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// LacksBlobs reports whether the blob store lacks messages that were not removed on
// purpose.
func (s *Store) LacksBlobs(ctx context.Context) (bool, error) {
	info, err := s.bucket.info(ctx)
	if err != nil {
		return false, fmt.Errorf("count what the blob store lacks: %w", err)
	}
	purged, _, err := s.bucket.purged(ctx)
	if errors.Is(err, events.ErrDamaged) {
		return true, nil
	}
	return err == nil && info.State.LastSeq-info.State.Msgs > purged, err
}

// FindLostBlobs reports every blob that lacks bytes, to Options.BlobDamaged, and
// returns how many there are. named are the blobs that events name: one without a
// description gets one that says so. After that a blob without a description is one
// that was never stored.
func (s *Store) FindLostBlobs(ctx context.Context, named []events.LostBlob) (lost int, err error) {
	b := s.bucket
	all, err := b.entries(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the blobs: %w", err)
	}
	info, err := b.info(ctx, natsjs.WithSubjectFilter(chunkSubjects+">"))
	if err != nil {
		return 0, fmt.Errorf("count the chunks of blobs: %w", err)
	}
	for name, e := range all {
		if _, ok := blobOf(name); !ok || e.Deleted || !b.readable(e.Metadata) {
			continue
		}
		if why := e.Metadata[metaDamaged]; why != "" {
			_ = b.bad(name, errors.New(why)) // reported
			lost++
		} else if have := info.State.Subjects[chunkSubjects+e.NUID]; have != uint64(e.Chunks) {
			_ = b.bad(name, fmt.Errorf("%d of its %d chunks cannot be read", int64(e.Chunks)-int64(have), e.Chunks))
			lost++
		}
	}
	for _, blob := range named {
		name, err := nameOf(blob)
		if err != nil {
			continue // no event that this version writes names such a blob
		}
		if _, ok := all[name]; ok {
			continue
		}
		if err := b.describeLost(ctx, name); err != nil {
			return lost, fmt.Errorf("describe lost blob %s: %w", name, err)
		}
		lost++
	}
	if err := b.acceptMissing(ctx); err != nil {
		return lost, fmt.Errorf("count what the blob store lacks: %w", err)
	}
	return lost, nil
}

// CheckBlob reads a blob that was found damaged before. An intact blob, or one that
// is gone, is reported to Options.BlobRepaired.
func (s *Store) CheckBlob(ctx context.Context, blob events.LostBlob) error {
	name, err := nameOf(blob)
	if err != nil {
		return err
	}
	_ = s.bucket.bad(name, errors.New("it was found damaged before")) // known to the caller
	_, err = s.get(ctx, name, blob.SHA256)
	switch {
	case errors.Is(err, events.ErrDamaged):
		return nil
	case errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrNotFound):
		s.bucket.good(name, "it was removed")
		return nil
	}
	return err
}
