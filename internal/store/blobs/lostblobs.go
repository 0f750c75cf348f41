package blobs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/spill"
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
	all, err := b.readMetaTable(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the blobs: %w", err)
	}
	defer all.close()
	damaged, err := b.listDamaged(ctx, all)
	if err != nil {
		return 0, err
	}
	for _, blob := range damaged {
		_ = b.reportDamaged(blob.name, blob.why) // the result is for readers only
	}
	lost = len(damaged)
	for _, blob := range named {
		name, err := nameOf(blob)
		if err != nil {
			continue // no event of this version references such a blob
		}
		if _, ok := all.get(name); ok {
			continue
		}
		if err := all.table.Err(); err != nil {
			return lost, fmt.Errorf("list the blobs: %w", err)
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

// damagedBlob is a blob and the reason why it cannot be read.
type damagedBlob struct {
	name string
	why  error
}

// listDamaged lists the incomplete blobs, in the order of their names. It holds only these in
// memory, and while the chunks are counted the list of their subjects.
func (b *bucket) listDamaged(ctx context.Context, all *metaTable) (damaged []damagedBlob, err error) {
	counts, err := b.countChunks(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the chunks of blobs: %w", err)
	}
	defer counts.Close()
	var marked []string
	err = all.each(func(l listedMeta) error {
		if _, ok := blobOf(l.name); !ok || l.deleted || l.isUnreadable {
			return nil
		}
		if l.isMarked {
			marked = append(marked, l.name)
			return nil
		}
		have := uint64(0)
		if raw := counts.Get(l.owner[:]); raw != nil {
			have = binary.BigEndian.Uint64(raw)
		}
		if have != l.chunks {
			damaged = append(damaged, damagedBlob{l.name, fmt.Errorf("%d of its %d chunks cannot be read", int64(l.chunks)-int64(have), l.chunks)})
		}
		return counts.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list the blobs: %w", err)
	}
	for _, name := range marked {
		e, err := b.readMeta(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read the metadata of blob %s: %w", name, err)
		}
		if why := e.Metadata[metaDamaged]; why != "" { // otherwise it was stored again since
			damaged = append(damaged, damagedBlob{name, errors.New(why)})
		}
	}
	slices.SortFunc(damaged, func(a, b damagedBlob) int { return strings.Compare(a.name, b.name) })
	return damaged, nil
}

// countChunks counts the stored chunks of each chunkOwner. The caller MUST close the table.
func (b *bucket) countChunks(ctx context.Context) (*spill.Table, error) {
	info, err := b.info(ctx, natsjs.WithSubjectFilter(chunkSubjects+">"))
	if err != nil {
		return nil, err
	}
	counts := spill.NewTable(len(chunkOwner{}), 8, metaTableMemory)
	for subject, n := range info.State.Subjects {
		owner := chunkOwnerOf(strings.TrimPrefix(subject, chunkSubjects))
		counts.Put(owner[:], binary.BigEndian.AppendUint64(nil, n))
	}
	if err := counts.Err(); err != nil {
		counts.Close()
		return nil, err
	}
	return counts, nil
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
