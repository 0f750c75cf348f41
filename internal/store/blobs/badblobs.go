package blobs

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

// A damaged blob affects only the operations that need it. Its name is kept in memory:
// a writer of the same blob then replaces the damaged one, and does not rely on it.

// metaDamaged is the key of the reason why a blob cannot be read. markLost stores it in
// place of metadata that was lost; without it, such a blob would seem never to have been
// stored.
const metaDamaged = "damaged"

// damagedBlobs holds the names of the blobs that were found damaged.
type damagedBlobs struct {
	mu    sync.Mutex
	names map[string]bool // guarded by mu
}

// Kinds of blobs, as events.LostBlob names them.
const (
	kindHeap = "heap"
	kindText = "text"
	kindBase = "base"
)

// blobOf returns the blob that is stored under a name. It returns false if the name is
// not one of a blob.
func blobOf(name string) (b events.LostBlob, ok bool) {
	if hash, isBase := strings.CutPrefix(name, basePrefix); isBase {
		return events.LostBlob{Kind: kindBase, SHA256: hash}, events.ValidHash(hash)
	}
	kind, rest, _ := strings.Cut(name, "/")
	tenant, hash, _ := strings.Cut(rest, "/")
	return events.LostBlob{Tenant: tenant, Kind: kind, SHA256: hash}, (kind == kindHeap || kind == kindText) && events.ValidHash(hash)
}

// nameOf is the inverse of blobOf.
func nameOf(b events.LostBlob) (string, error) {
	if b.Kind == kindBase {
		return baseName(b.SHA256), nil
	}
	return blobName(b.Kind, b.Tenant, b.SHA256)
}

// reportDamaged records and reports that a blob is damaged, and returns the error for its reader.
func (b *bucket) reportDamaged(name string, err error) error {
	blob, ok := blobOf(name)
	if !ok {
		return b.storeDamagedf("%s: %w", name, err)
	}
	if e, known := errors.AsType[*events.BlobDamagedError](err); known && e.Blob == blob {
		return err
	}
	if b.onDamaged != nil {
		b.onDamaged(name)
	}
	b.damage.mu.Lock()
	if b.damage.names == nil {
		b.damage.names = map[string]bool{}
	}
	b.damage.names[name] = true
	b.damage.mu.Unlock()
	why := strings.TrimPrefix(err.Error(), events.ErrDamaged.Error()+": ")
	if b.opts.OnBlobDamaged != nil {
		b.opts.OnBlobDamaged(blob, errors.New(why))
	}
	return &events.BlobDamagedError{Blob: blob, Why: why}
}

// errReplaced is returned for a blob that was stored again during the reading.
var errReplaced = errors.New("the blob was stored again during the reading; read it again")

// confirmDamaged is reportDamaged for a blob whose content does not match info. If the
// blob was removed or stored again since info was read, it returns events.ErrRemoved or
// errReplaced.
func (b *bucket) confirmDamaged(ctx context.Context, name string, info *natsjs.ObjectInfo, err error) error {
	switch now, readErr := b.metadata(ctx, name); {
	case readErr != nil:
		return readErr
	case now.NUID != info.NUID:
		return errReplaced
	}
	return b.reportDamaged(name, err)
}

// reportIntact reports that a damaged blob is intact again or was removed.
func (b *bucket) reportIntact(name, how string) {
	b.damage.mu.Lock()
	was := b.damage.names[name]
	delete(b.damage.names, name)
	b.damage.mu.Unlock()
	if blob, ok := blobOf(name); ok && was && b.opts.OnBlobRepaired != nil {
		b.opts.OnBlobRepaired(blob, how)
	}
}

func (b *bucket) isDamaged(name string) bool {
	b.damage.mu.Lock()
	defer b.damage.mu.Unlock()
	return b.damage.names[name]
}

// storeDamagedf returns an error for damage to the blob store that concerns no particular
// blob.
func (b *bucket) storeDamagedf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if b.opts.OnBlobDamaged != nil {
		b.opts.OnBlobDamaged(events.LostBlob{}, err)
	}
	return fmt.Errorf("%w: %w", err, events.ErrDamaged)
}

func (b *bucket) missingMessages(missing, last, purged uint64) error {
	return b.storeDamagedf("stream %s lacks %d of its %d messages, of which %d were purged", Stream, missing, last, purged)
}

// lostMetadata is the value of metaDamaged for a blob whose metadata was lost.
const lostMetadata = "its description was lost"

// markLost writes metadata for a blob whose metadata was lost.
func (b *bucket) markLost(ctx context.Context, name string) error {
	body, err := json.Marshal(natsjs.ObjectInfo{
		ObjectMeta: natsjs.ObjectMeta{Name: name, Metadata: map[string]string{metaDamaged: lostMetadata, metaCodec: codecZstd, metaSize: "0"}},
		Bucket:     bucketName, NUID: events.NewID(time.Now()), Digest: digest(nil),
	})
	if err != nil {
		return err
	}
	err = b.replace(ctx, name, body, 0)
	if errors.Is(err, events.ErrConflict) {
		return nil // the blob was stored since
	}
	if err == nil {
		_ = b.reportDamaged(name, errors.New(lostMetadata)) // the result is for readers only
	}
	return err
}
