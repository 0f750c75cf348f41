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
	if b.onBad != nil {
		b.onBad(name)
	}
	b.damage.mu.Lock()
	if b.damage.names == nil {
		b.damage.names = map[string]bool{}
	}
	b.damage.names[name] = true
	b.damage.mu.Unlock()
	why := strings.TrimPrefix(err.Error(), events.ErrDamaged.Error()+": ")
	if b.opts.BlobDamaged != nil {
		b.opts.BlobDamaged(blob, errors.New(why))
	}
	return &events.BlobDamagedError{Blob: blob, Why: why}
}

// errReplaced is returned for a blob that was stored again while it was read.
var errReplaced = errors.New("the blob was stored again while it was read; read it again")

// confirmBad is bad for a blob whose content cannot be read as info describes it,
// unless the blob was removed or stored again meanwhile: that is events.ErrRemoved or
// errReplaced.
func (b *bucket) confirmBad(ctx context.Context, name string, info *natsjs.ObjectInfo, err error) error {
	switch now, gone := b.metadata(ctx, name); {
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
	if blob, ok := blobOf(name); ok && was && b.opts.BlobRepaired != nil {
		b.opts.BlobRepaired(blob, how)
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
	if b.opts.BlobDamaged != nil {
		b.opts.BlobDamaged(events.LostBlob{}, err)
	}
	return fmt.Errorf("%w: %w", err, events.ErrDamaged)
}

func (b *bucket) lacks(missing, last, purged uint64) error {
	return b.damaged("stream %s lacks %d of its %d messages, of which %d were removed on purpose", Stream, missing, last, purged)
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
