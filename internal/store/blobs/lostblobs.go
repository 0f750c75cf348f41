package blobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// LacksBlobs reports whether the blob store lacks messages that were not purged.
func (s *Store) LacksBlobs(ctx context.Context) (bool, error) {
	info, err := s.bucket.info(ctx)
	if err != nil {
		return false, fmt.Errorf("count the missing messages of the blob store: %w", err)
	}
	purged, _, err := s.bucket.purgedCount(ctx)
	if errors.Is(err, events.ErrDamaged) {
		return true, nil
	}
	return err == nil && info.State.LastSeq-info.State.Msgs > purged, err
}

// FindLostBlobs reports every incomplete blob to Options.OnBlobDamaged and returns their
// number. named are the blobs that events reference. A referenced blob without metadata
// gets metadata that marks it as lost. Afterwards a blob without metadata is one that
// was never stored.
func (s *Store) FindLostBlobs(ctx context.Context, named []events.LostBlob) (lost int, err error) {
	b := s.bucket
	all, err := b.listMeta(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the blobs: %w", err)
	}
	info, err := b.info(ctx, natsjs.WithSubjectFilter(chunkSubjects+">"))
	if err != nil {
		return 0, fmt.Errorf("count the chunks of blobs: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) { // the findings are in the same order each time
		e := all[name]
		if _, ok := blobOf(name); !ok || e.Deleted || !b.isReadable(e.Metadata) {
			continue
		}
		if why := e.Metadata[metaDamaged]; why != "" {
			_ = b.reportDamaged(name, errors.New(why)) // the result is for readers only
			lost++
		} else if have := info.State.Subjects[chunkSubjects+e.NUID]; have != uint64(e.Chunks) {
			_ = b.reportDamaged(name, fmt.Errorf("%d of its %d chunks cannot be read", int64(e.Chunks)-int64(have), e.Chunks))
			lost++
		}
	}
	for _, blob := range named {
		name, err := nameOf(blob)
		if err != nil {
			continue // no event of this version references such a blob
		}
		if _, ok := all[name]; ok {
			continue
		}
		if err := b.markLost(ctx, name); err != nil {
			return lost, fmt.Errorf("store metadata for lost blob %s: %w", name, err)
		}
		lost++
	}
	if err := b.acceptMissing(ctx); err != nil {
		return lost, fmt.Errorf("count the missing messages of the blob store: %w", err)
	}
	return lost, nil
}

// CheckBlob reads a blob that was found damaged earlier. It reports a blob that is
// intact or was removed to Options.OnBlobRepaired.
func (s *Store) CheckBlob(ctx context.Context, blob events.LostBlob) error {
	name, err := nameOf(blob)
	if err != nil {
		return err
	}
	_ = s.bucket.reportDamaged(name, errors.New("it was found damaged before")) // the caller knows it
	_, err = s.get(ctx, name, blob.SHA256)
	switch {
	case errors.Is(err, events.ErrDamaged):
		return nil
	case errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrNotFound):
		s.bucket.reportIntact(name, "it was removed")
		return nil
	}
	return err
}
