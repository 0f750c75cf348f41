package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// A damaged blob affects only what needs it. Its name is remembered, so that a
// writer that stores the blob again replaces it instead of relying on it.

// metaDamaged says in the description of a blob why it cannot be read. It stands in
// the place of a description that was lost: without it, the blob would seem never
// to have been stored.
const metaDamaged = "damaged"

// badBlobs are the names of the blobs that were found damaged.
type badBlobs struct {
	mu    sync.Mutex
	names map[string]bool // guarded by mu
}

// Kinds of blobs, as events.LostBlob names them.
const (
	kindHeap = "heap"
	kindText = "text"
	kindBase = "base"
)

// blobOf returns the blob that is stored under a name.
func blobOf(name string) (b events.LostBlob, ok bool) {
	if hash, isBase := strings.CutPrefix(name, basePrefix); isBase {
		return events.LostBlob{Kind: kindBase, SHA256: hash}, events.ValidHash(hash)
	}
	kind, rest, _ := strings.Cut(name, "/")
	tenant, hash, _ := strings.Cut(rest, "/")
	return events.LostBlob{Tenant: tenant, Kind: kind, SHA256: hash}, (kind == kindHeap || kind == kindText) && events.ValidHash(hash)
}

// nameOf is the reverse of blobOf.
func nameOf(b events.LostBlob) (string, error) {
	if b.Kind == kindBase {
		return baseName(b.SHA256), nil
	}
	return blobName(b.Kind, b.Tenant, b.SHA256)
}

// bad remembers and reports that a blob is damaged, and returns the error for its
// reader.
func (b *bucket) bad(name string, err error) error {
	blob, ok := blobOf(name)
	if !ok {
		return b.damaged("%s: %w", name, err)
	}
	if e, known := errors.AsType[*events.BlobDamagedError](err); known && e.Blob == blob {
		return err
	}
	b.s.heaps.drop(name)
	b.damage.mu.Lock()
	if b.damage.names == nil {
		b.damage.names = map[string]bool{}
	}
	b.damage.names[name] = true
	b.damage.mu.Unlock()
	why := strings.TrimPrefix(err.Error(), events.ErrDamaged.Error()+": ")
	if b.s.opts.BlobDamaged != nil {
		b.s.opts.BlobDamaged(blob, errors.New(why))
	}
	return &events.BlobDamagedError{Blob: blob, Why: why}
}

// errReplaced is returned for a blob that was stored again while it was read.
var errReplaced = errors.New("the blob was stored again while it was read; read it again")

// confirmBad is bad for a blob whose content cannot be read as info describes it,
// unless the blob was removed or stored again meanwhile: that is events.ErrRemoved or
// errReplaced.
func (b *bucket) confirmBad(ctx context.Context, name string, info *natsjs.ObjectInfo, err error) error {
	switch now, gone := b.describe(ctx, name); {
	case gone != nil:
		return gone
	case now.NUID != info.NUID:
		return errReplaced
	}
	return b.bad(name, err)
}

// good reports that a blob is intact that was found damaged, or is gone.
func (b *bucket) good(name, how string) {
	b.damage.mu.Lock()
	was := b.damage.names[name]
	delete(b.damage.names, name)
	b.damage.mu.Unlock()
	if blob, ok := blobOf(name); ok && was && b.s.opts.BlobRepaired != nil {
		b.s.opts.BlobRepaired(blob, how)
	}
}

func (b *bucket) isBad(name string) bool {
	b.damage.mu.Lock()
	defer b.damage.mu.Unlock()
	return b.damage.names[name]
}

// damaged makes an error of damage to the blob store that no blob can be named for.
func (b *bucket) damaged(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if b.s.opts.BlobDamaged != nil {
		b.s.opts.BlobDamaged(events.LostBlob{}, err)
	}
	return fmt.Errorf("%w: %w", err, events.ErrDamaged)
}

func (b *bucket) lacks(missing, last, purged uint64) error {
	return b.damaged("stream %s lacks %d of its %d messages, of which %d were removed on purpose", bucketStream, missing, last, purged)
}

// LacksBlobs reports whether the blob store lacks messages that were not removed on
// purpose.
func (s *Store) LacksBlobs(ctx context.Context) (bool, error) {
	info, err := s.blobs.info(ctx)
	if err != nil {
		return false, fmt.Errorf("count what the blob store lacks: %w", err)
	}
	purged, _, err := s.blobs.purged(ctx)
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
	b := s.blobs
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

// lostDescription is what metaDamaged says of a blob whose description was lost.
const lostDescription = "its description was lost"

// describeLost describes a blob whose description was lost.
func (b *bucket) describeLost(ctx context.Context, name string) error {
	body, err := json.Marshal(natsjs.ObjectInfo{
		ObjectMeta: natsjs.ObjectMeta{Name: name, Metadata: map[string]string{metaDamaged: lostDescription, metaCodec: codecZstd, metaSize: "0"}},
		Bucket:     bucketName, NUID: events.NewID(time.Now()), Digest: digest(nil),
	})
	if err != nil {
		return err
	}
	err = b.replace(ctx, name, body, 0)
	if errors.Is(err, events.ErrConflict) {
		return nil // it was stored meanwhile
	}
	if err == nil {
		_ = b.bad(name, errors.New(lostDescription)) // reported
	}
	return err
}

// CheckBlob reads a blob that was found damaged before. An intact blob, or one that
// is gone, is reported to Options.BlobRepaired.
func (s *Store) CheckBlob(ctx context.Context, blob events.LostBlob) error {
	name, err := nameOf(blob)
	if err != nil {
		return err
	}
	_ = s.blobs.bad(name, errors.New("it was found damaged before")) // known to the caller
	_, err = s.blobs.get(ctx, name, blob.SHA256)
	switch {
	case errors.Is(err, events.ErrDamaged):
		return nil
	case errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrNotFound):
		s.blobs.good(name, "it was removed")
		return nil
	}
	return err
}
