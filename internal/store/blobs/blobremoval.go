package blobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
)

// A blob is removed in three steps, and a crash may follow each of them: its metadata
// is replaced by a tombstone, the chunks that then belong to no blob are counted, with the
// replaced metadata that holds small blobs, and they are purged. The count is in the metadata of an object of its own. If more
// messages are missing than were ever counted, that is damage.
//
// A pinned blob cannot be removed during the grace period. A writer that stores an
// existing blob pins it by writing its metadata again, unless that happened within half
// of the period. RemoveBlob does not replace metadata that was written after the blob
// was listed. Therefore a stored blob is not removed if the event that references it
// follows within half of Options.BlobGracePeriod.

// StoredBlobs calls fn with every stored heap and text, in no particular order. It
// returns an error of fn unchanged. Base heaps are not included: they stay as long as
// the ledger, because other heaps are encoded against them.
func (s *Store) StoredBlobs(ctx context.Context, fn func(events.BlobInfo) error) error {
	all, err := s.bucket.readMetaTable(ctx)
	if err != nil {
		return fmt.Errorf("list the blobs: %w", err)
	}
	defer all.close()
	return all.each(func(e listedMeta) error {
		kind, rest, _ := strings.Cut(e.name, "/")
		tenant, hash, ok := strings.Cut(rest, "/")
		if e.deleted || !ok || kind != "heap" && kind != "text" || !events.ValidHash(hash) {
			return nil
		}
		if e.size < 0 {
			return fmt.Errorf("list the blobs: %w", s.bucket.sizeError(ctx, e.name))
		}
		return fn(events.BlobInfo{Tenant: tenant, Heap: kind == "heap", SHA256: hash, Size: e.size, StoredAt: e.at, Version: e.seq})
	})
}

// RemoveBlob removes a blob that StoredBlobs listed. It returns false and keeps the
// blob if it was stored or pinned within the grace period or after it was listed.
// PurgeOrphanChunks frees the disk space of removed blobs.
func (s *Store) RemoveBlob(ctx context.Context, info events.BlobInfo) (removed bool, err error) {
	kind := "text"
	if info.Heap {
		kind = "heap"
	}
	name, err := blobName(kind, info.Tenant, info.SHA256)
	if err != nil {
		return false, fmt.Errorf("remove blob: %w", err)
	}
	if time.Since(info.StoredAt) < s.opts.BlobGracePeriod {
		return false, nil
	}
	body, err := tombstone(name)
	if err != nil {
		return false, err
	}
	switch err := s.bucket.replace(ctx, name, body, info.Version); {
	case errors.Is(err, events.ErrConflict):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("remove blob %s: %w", name, err)
	}
	s.cache.drop(name)
	s.bucket.reportIntact(name, "it was removed")
	return true, nil
}

// PurgeOrphanChunks deletes the chunks of removed blobs and of unfinished uploads, and the
// small blobs in replaced metadata. It returns the number of messages deleted; each has up
// to 512 KiB.
func (s *Store) PurgeOrphanChunks(ctx context.Context) (chunks uint64, err error) {
	b := s.bucket
	all, err := b.readMetaTable(ctx)
	if err != nil {
		return 0, fmt.Errorf("purge orphan chunks: %w", err)
	}
	defer all.close()
	owned, err := all.owners()
	if err != nil {
		return 0, fmt.Errorf("purge orphan chunks: %w", err)
	}
	defer owned.Close()
	info, err := b.info(ctx, natsjs.WithSubjectFilter(chunkSubjects+">"))
	if err != nil {
		return 0, fmt.Errorf("purge orphan chunks: %w", err)
	}
	var stray []string
	err = all.each(func(e listedMeta) error {
		if e.replacedInline {
			chunks += e.replaced
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("purge orphan chunks: %w", err)
	}
	for subject, n := range info.State.Subjects {
		owner := chunkOwnerOf(strings.TrimPrefix(subject, chunkSubjects))
		if owned.Get(owner[:]) != nil {
			continue
		}
		if err := owned.Err(); err != nil {
			return 0, fmt.Errorf("purge orphan chunks: %w", err)
		}
		m, err := b.getOne(ctx, jet.Request{LastBySubject: subject})
		if errors.Is(err, events.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("purge orphan chunks: %w", err)
		}
		if at, err := time.Parse(time.RFC3339Nano, jet.DeliveryValue(m.Header, jet.HeaderTime)); err != nil || time.Since(at) < s.opts.BlobGracePeriod {
			continue // an upload may still complete it
		}
		stray, chunks = append(stray, subject), chunks+n
	}
	if chunks == 0 {
		return 0, nil
	}
	if err := b.addPurged(ctx, chunks); err != nil {
		return 0, fmt.Errorf("purge orphan chunks: %w", err)
	}
	for _, subject := range stray {
		if err := b.stream.Purge(ctx, natsjs.WithPurgeSubject(subject)); err != nil {
			return 0, fmt.Errorf("purge orphan chunks: %w", err)
		}
	}
	err = all.each(func(e listedMeta) error {
		if !e.replacedInline {
			return nil
		}
		// Up to the listed position: metadata that was stored since is not counted.
		return b.stream.Purge(ctx, natsjs.WithPurgeSubject(metaSubject(e.name)), natsjs.WithPurgeSequence(e.seq))
	})
	if err != nil {
		return 0, fmt.Errorf("purge replaced metadata: %w", err)
	}
	return chunks, nil
}

// DropLostBlobs marks blobs that cannot be read as removed, so that they can be stored
// again, and counts the missing messages of the bucket as known.
func (s *Store) DropLostBlobs(ctx context.Context, list []events.LostBlob) error {
	for _, l := range list {
		name, err := blobName(l.Kind, l.Tenant, l.SHA256)
		if err != nil {
			return fmt.Errorf("drop lost blob: %w", err)
		}
		// Lost metadata is replaced too, because the blob did exist.
		e, err := s.bucket.readMeta(ctx, name)
		if err == nil && e.Deleted {
			continue
		}
		if err != nil && !errors.Is(err, events.ErrNotFound) {
			return fmt.Errorf("drop lost blob %s: %w", name, err)
		}
		body, err := tombstone(name)
		if err != nil {
			return err
		}
		if err := s.bucket.replace(ctx, name, body, e.seq); err != nil {
			return fmt.Errorf("drop lost blob %s: %w", name, err)
		}
		s.cache.drop(name)
	}
	return s.bucket.acceptMissing(ctx)
}
