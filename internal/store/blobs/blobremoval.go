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

// Removing a blob takes three steps, each of which may be the last before a
// crash: its description is replaced by one that says "deleted", the chunks
// that thereby belong to no blob are counted, and then purged. The count, on
// the description of an object that is none, is what missing messages are
// measured against: more of them than were ever counted is damage.
//
// A blob somebody relies on is safe from removal for a while: whoever stores
// one that exists renews its description, unless that was done lately, and a
// description renewed after it was listed is not replaced. So there is no
// moment at which storing a blob succeeds and the blob then goes, as long as
// the event that names it follows within half of Options.Settle.

// StoredBlobs calls fn with every heap and text that is stored, in no order.
// Base heaps are not among them: they live as long as the ledger, because heaps
// are stored against them.
func (s *Store) StoredBlobs(ctx context.Context, fn func(events.BlobInfo) error) error {
	all, err := s.bucket.entries(ctx)
	if err != nil {
		return fmt.Errorf("list the blobs: %w", err)
	}
	for name, e := range all {
		kind, rest, _ := strings.Cut(name, "/")
		tenant, hash, ok := strings.Cut(rest, "/")
		if e.Deleted || !ok || kind != "heap" && kind != "text" || !events.ValidHash(hash) {
			continue
		}
		size, err := blobSize(&e.ObjectInfo)
		if err != nil {
			return fmt.Errorf("list the blobs: %s: %w", name, err)
		}
		if err := fn(events.BlobInfo{Tenant: tenant, Heap: kind == "heap", SHA256: hash, Size: int64(size), StoredAt: e.at, Version: e.seq}); err != nil {
			return err
		}
	}
	return nil
}

// RemoveBlob removes a blob as it was listed. It reports false, and leaves it,
// when somebody has relied on it lately, or since it was listed. Its room comes
// free with PurgeOrphanChunks.
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
	s.bucket.good(name, "it was removed")
	return true, nil
}

// PurgeOrphanChunks gives back the room of what belongs to no blob: removed ones,
// and what writers left that did not get to their end. It returns how many
// chunks, of up to 512 KiB, went.
func (s *Store) PurgeOrphanChunks(ctx context.Context) (chunks uint64, err error) {
	b := s.bucket
	all, err := b.entries(ctx)
	if err != nil {
		return 0, fmt.Errorf("reclaim the room of blobs: %w", err)
	}
	owned := make(map[string]bool, len(all))
	for _, e := range all {
		if !e.Deleted {
			owned[e.NUID] = true
		}
	}
	info, err := b.info(ctx, natsjs.WithSubjectFilter(chunkSubjects+">"))
	if err != nil {
		return 0, fmt.Errorf("reclaim the room of blobs: %w", err)
	}
	var stray []string
	for subject, n := range info.State.Subjects {
		if owned[strings.TrimPrefix(subject, chunkSubjects)] {
			continue
		}
		m, err := b.getOne(ctx, jet.Request{LastBySubject: subject})
		if errors.Is(err, events.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("reclaim the room of blobs: %w", err)
		}
		if at, err := time.Parse(time.RFC3339Nano, jet.HeaderValue(m.Header, jet.HeaderTime)); err != nil || time.Since(at) < s.opts.BlobGracePeriod {
			continue // it may become a blob yet
		}
		stray, chunks = append(stray, subject), chunks+n
	}
	if len(stray) == 0 {
		return 0, nil
	}
	if err := b.count(ctx, chunks); err != nil {
		return 0, fmt.Errorf("reclaim the room of blobs: %w", err)
	}
	for _, subject := range stray {
		if err := b.stream.Purge(ctx, natsjs.WithPurgeSubject(subject)); err != nil {
			return 0, fmt.Errorf("reclaim the room of blobs: %w", err)
		}
	}
	return chunks, nil
}

// DropLostBlobs makes blobs that cannot be read ones that are not there, so that
// they can be stored again, and counts what is missing of the bucket as known.
func (s *Store) DropLostBlobs(ctx context.Context, list []events.LostBlob) error {
	for _, l := range list {
		name, err := blobName(l.Kind, l.Tenant, l.SHA256)
		if err != nil {
			return fmt.Errorf("give up blob: %w", err)
		}
		// A description that was lost is replaced too: the blob did exist.
		e, err := s.bucket.entry(ctx, name)
		if err == nil && e.Deleted {
			continue
		}
		if err != nil && !errors.Is(err, events.ErrNotFound) {
			return fmt.Errorf("give up blob %s: %w", name, err)
		}
		body, err := tombstone(name)
		if err != nil {
			return err
		}
		if err := s.bucket.replace(ctx, name, body, e.seq); err != nil {
			return fmt.Errorf("give up blob %s: %w", name, err)
		}
		s.cache.drop(name)
	}
	return s.bucket.acceptMissing(ctx)
}
