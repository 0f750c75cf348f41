package blobs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
)

// The blobs are in an object store bucket in the form that NATS documents (ADR-20), so
// that NATS tools can read it. The exception is a small blob: its encoded form is in its
// metadata, and NATS tools show an object without bytes.
const (
	bucketName = "BLOBS"
	// Stream is the name of the stream with the blobs.
	Stream        = "OBJ_" + bucketName
	metaSubjects  = "$O." + bucketName + ".M."
	chunkSubjects = "$O." + bucketName + ".C."
)

const (
	// chunkBytes is the size of the messages of a blob, in bytes. Every server accepts
	// it, and it is large because each message waits for the disk.
	chunkBytes = 512 << 10
	// maxBlobBytes bounds a blob before compression, in bytes, so that reading a small
	// stored blob cannot fill the memory.
	maxBlobBytes = 512 << 20
	// inlineBytes is the size of an encoded blob, in bytes, up to which its metadata holds
	// it. Such a blob is one message and one wait for the disk. A heap that a script
	// changed little takes 100 to 4,000 bytes.
	inlineBytes = 8 << 10
)

// Keys of the metadata of a blob.
const (
	metaCodec  = "codec"
	metaSize   = "size" // in bytes, before compression
	metaEngine = "engine"
	metaBase   = "base" // hash of the base heap it is encoded against; absent for none
	metaKey    = "key"  // id of the content key that it is encrypted under; absent for none
	metaInline = "data" // the encoded form of a small blob, in base64; such a blob has no chunks

	codecZstd = "zstd"
)

// bucket stores blobs by name. A blob is never changed, and deleted chunks are counted
// (blobremoval.go), which distinguishes a lost blob from one that was never stored. For
// that reason the bucket writes objects itself: the client library replaces an existing
// object.
type bucket struct {
	jet    *jet.Client
	opts   Options
	store  natsjs.ObjectStore
	stream natsjs.Stream
	// onDamaged, if set, is called with the name of a blob that is found damaged.
	onDamaged func(name string)

	// writing holds the blobs that are being written, so that this process writes a blob
	// only once at a time. Guarded by mu.
	mu      sync.Mutex
	writing map[string]*blobWrite

	damage damagedBlobs
}

// blobWrite is a blob that is being written. err is valid once done is closed.
type blobWrite struct {
	done chan struct{}
	err  error
}

// open binds the bucket and creates it if it does not exist. It does nothing if it is
// bound.
func (b *bucket) open(ctx context.Context) (made bool, err error) {
	if b.stream != nil {
		return false, nil
	}
	b.store, err = b.jet.JS.ObjectStore(ctx, bucketName)
	if errors.Is(err, natsjs.ErrBucketNotFound) && !b.jet.Options.ReadExisting {
		made = true
		b.store, err = b.jet.JS.CreateObjectStore(ctx, natsjs.ObjectStoreConfig{
			Bucket: bucketName, Description: "Daybook heaps and texts, by tenant and hash", Storage: natsjs.FileStorage, Replicas: b.jet.Options.Replicas,
		})
	}
	if err == nil {
		b.stream, err = b.jet.JS.Stream(ctx, Stream)
	}
	if err != nil {
		return false, fmt.Errorf("open the blob store: %w", err)
	}
	return made, nil
}

// ping returns an error if the bucket does not answer.
func (b *bucket) ping(ctx context.Context) error {
	if _, err := b.info(ctx); err != nil {
		return fmt.Errorf("reach the blob store: %w", err)
	}
	return nil
}

func (b *bucket) info(ctx context.Context, opts ...natsjs.StreamInfoOpt) (_ *natsjs.StreamInfo, err error) {
	ctx, asked := b.jet.BoundRequest(ctx)
	defer func() { asked(&err) }()
	return b.stream.Info(ctx, opts...)
}

// blobName returns the name that a blob of a tenant is stored under.
func blobName(kind, tenant, hash string) (string, error) {
	if err := jet.CheckTokens(tenant); err != nil {
		return "", err
	}
	if !events.ValidHash(hash) {
		return "", fmt.Errorf("%q is not a hash; a hash has 64 lowercase hexadecimal characters", hash)
	}
	return kind + "/" + tenant + "/" + hash, nil
}

// basePrefix is the start of the names of base heaps.
const basePrefix = "base/"

func baseName(hash string) string { return basePrefix + hash }

// metaSubject returns the subject of the metadata of a blob.
func metaSubject(name string) string {
	return metaSubjects + base64.URLEncoding.EncodeToString([]byte(name))
}

// readMeta reads the metadata of a blob, also of a removed one, or returns
// events.ErrNotFound.
func (b *bucket) readMeta(ctx context.Context, name string) (blobMeta, error) {
	m, err := b.getOne(ctx, jet.Request{LastBySubject: metaSubject(name)})
	if err != nil {
		return blobMeta{}, err
	}
	return decodeMeta(m)
}

// metadata reads the metadata of a blob. It returns events.ErrRemoved for a removed
// blob. It returns events.ErrNotFound only if the blob was certainly never stored: if
// messages are missing, the metadata may be among them, and the error is damage.
func (b *bucket) metadata(ctx context.Context, name string) (*natsjs.ObjectInfo, error) {
	info, err := b.readMetadata(ctx, name)
	if !errors.Is(err, events.ErrNotFound) {
		return info, err
	}
	stream, err := b.info(ctx, natsjs.WithSubjectFilter(metaSubject(name)))
	if err != nil {
		return nil, err
	}
	if len(stream.State.Subjects) > 0 {
		// It may have been stored between the two requests.
		info, err := b.readMetadata(ctx, name)
		if errors.Is(err, events.ErrNotFound) {
			return nil, b.reportDamaged(name, fmt.Errorf("%w: its metadata cannot be read", events.ErrDamaged))
		}
		return info, err
	}
	if err := b.checkPurgeCount(ctx, stream.State); err != nil {
		return nil, fmt.Errorf("not found, but possibly lost: %w", err)
	}
	return nil, events.ErrNotFound
}

func (b *bucket) readMetadata(ctx context.Context, name string) (*natsjs.ObjectInfo, error) {
	e, err := b.readMeta(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case e.Metadata[metaDamaged] != "":
		return nil, b.reportDamaged(name, fmt.Errorf("%w: %s", events.ErrDamaged, e.Metadata[metaDamaged]))
	case e.Deleted, strings.HasPrefix(name, "heap/") && !b.isReadable(e.Metadata):
		return nil, events.ErrRemoved
	}
	return &e.ObjectInfo, nil
}

// getOne returns one message, or events.ErrNotFound.
func (b *bucket) getOne(ctx context.Context, r jet.Request) (events.Stored, error) {
	m, err := b.jet.Get(ctx, Stream, r)
	if errors.Is(err, events.ErrNotFound) && b.opts.CheckComplete != nil {
		if why := b.opts.CheckComplete(Stream); why != nil {
			err = fmt.Errorf("not found, but possibly lost: %w", why)
		}
	}
	if err != nil {
		return events.Stored{}, fmt.Errorf("get from stream %s: %w", Stream, err)
	}
	return m, nil
}

// put stores a blob under its name. It costs one lookup if the blob exists.
func (b *bucket) put(ctx context.Context, name string, blob encodedBlob, meta map[string]string) error {
	for {
		b.mu.Lock()
		w, others := b.writing[name]
		if !others {
			w = &blobWrite{done: make(chan struct{})}
			b.writing[name] = w
		}
		b.mu.Unlock()
		if !others {
			w.err = b.write(ctx, name, blob, meta)
			for errors.Is(w.err, events.ErrRemoved) { // removed during the write
				w.err = b.write(ctx, name, blob, meta)
			}
			b.mu.Lock()
			delete(b.writing, name)
			b.mu.Unlock()
			close(w.done)
			return w.err
		}
		select {
		case <-w.done:
			if w.err == nil {
				return nil
			}
			// The other writer may have failed because its own context ended.
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *bucket) write(ctx context.Context, name string, blob encodedBlob, meta map[string]string) error {
	if blob.size > maxBlobBytes {
		return fmt.Errorf("%d bytes are more than the %d MiB a blob may have", blob.size, maxBlobBytes>>20)
	}
	// Most small blobs are new, so they are stored without a lookup.
	if blob.size <= maxInMemory && !b.isDamaged(name) && len(blob.bytes()) <= inlineBytes {
		body, err := json.Marshal(describe(name, blob, meta))
		if err != nil {
			return err
		}
		err = b.replace(ctx, name, body, 0)
		_, unwritable := errors.AsType[*events.UnwritableError](err)
		if !unwritable && !errors.Is(err, events.ErrConflict) {
			return err
		}
		// It is stored already, or may be.
	}
	var after uint64
	switch e, err := b.readMeta(ctx, name); {
	case err == nil && !e.Deleted && b.isReadable(e.Metadata) && !b.isDamaged(name) && e.Metadata[metaDamaged] == "":
		return b.pin(ctx, e)
	case err == nil:
		after = e.seq // a tombstone or unusable metadata is replaced
	case !errors.Is(err, events.ErrNotFound):
		return err
	}
	info := describe(name, blob, meta)
	if info.Chunks > 0 {
		if err := b.writeChunks(ctx, info.NUID, blob.bytes()); err != nil {
			return err
		}
	}
	if err := b.writeMeta(ctx, info, after); err != nil {
		return err
	}
	b.reportIntact(name, "it was stored again")
	return nil
}

// writeChunks stores the encoded bytes, one chunk after the other, because each waits
// for the disk and the disk takes one at a time. They are on disk when it returns.
func (b *bucket) writeChunks(ctx context.Context, id string, packed []byte) error {
	for len(packed) > 0 {
		n := min(len(packed), chunkBytes)
		if err := b.publish(ctx, &nats.Msg{Subject: chunkSubjects + id, Data: packed[:n]}); err != nil {
			return err
		}
		packed = packed[n:]
	}
	return nil
}

func (b *bucket) publish(ctx context.Context, m *nats.Msg) error {
	_, err := b.jet.Publish(ctx, m)
	return err
}

// writeMeta stores the metadata of a blob if the previous one is at position after, 0
// for none. If another writer was first, it has stored the same bytes.
func (b *bucket) writeMeta(ctx context.Context, info natsjs.ObjectInfo, after uint64) error {
	body, err := json.Marshal(info)
	if err != nil {
		return err
	}
	m := nats.NewMsg(metaSubject(info.Name))
	m.Data = body
	m.Header.Set(natsjs.ExpectedLastSubjSeqHeader, strconv.FormatUint(after, 10))
	err = b.publish(ctx, m)
	if jet.IsConflict(err) {
		_, err = b.metadata(ctx, info.Name)
	}
	return err
}

// read reads the encoded form of a blob. It does not wait for missing chunks; they are
// damage.
func (b *bucket) read(ctx context.Context, info *natsjs.ObjectInfo) ([]byte, error) {
	if packed, ok, err := inlineOf(info); ok {
		return packed, err
	}
	packed := make([]byte, 0, info.Size)
	var chunks uint32
	for from := uint64(1); chunks < info.Chunks; {
		var got uint64
		r := jet.Request{Seq: from, NextBySubject: chunkSubjects + info.NUID, Batch: jet.BatchMessages, MaxBytes: jet.BatchBytes}
		_, err := b.jet.GetBatch(ctx, Stream, r, func(m events.Stored) error {
			got = m.Seq
			chunks++
			if uint64(len(packed)+len(m.Body)) > info.Size {
				return fmt.Errorf("%w: it holds more than the %d bytes in its metadata", events.ErrDamaged, info.Size)
			}
			packed = append(packed, m.Body...)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if got == 0 {
			break
		}
		from = got + 1
	}
	if chunks != info.Chunks || uint64(len(packed)) != info.Size {
		if err := b.jet.Starved(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: it lacks %d of its %d bytes", events.ErrDamaged, info.Size-uint64(len(packed)), info.Size)
	}
	return packed, nil
}

// pin stores the metadata of a blob again, so that the blob is not removed before an
// event references it.
func (b *bucket) pin(ctx context.Context, e blobMeta) error {
	if time.Since(e.at) < b.opts.BlobGracePeriod/2 || strings.HasPrefix(e.Name, basePrefix) {
		return nil
	}
	// On a conflict another writer pinned the blob, or it was removed. writeMeta then
	// returns events.ErrRemoved, and the blob must be stored again.
	return b.writeMeta(ctx, e.ObjectInfo, e.seq)
}

// replace stores metadata if the previous one is at position seq.
func (b *bucket) replace(ctx context.Context, name string, body []byte, seq uint64) error {
	m := nats.NewMsg(metaSubject(name))
	m.Data = body
	m.Header.Set(natsjs.ExpectedLastSubjSeqHeader, strconv.FormatUint(seq, 10))
	err := b.publish(ctx, m)
	if jet.IsConflict(err) {
		return events.ErrConflict
	}
	return err
}

// scan calls fn with every message on matching subjects, in order of position.
func (b *bucket) scan(ctx context.Context, subjects string, fn func(events.Stored) error) error {
	for from := uint64(1); ; {
		var got uint64
		r := jet.Request{Seq: from, NextBySubject: subjects, Batch: jet.BatchMessages, MaxBytes: jet.BatchBytes}
		_, err := b.jet.GetBatch(ctx, Stream, r, func(m events.Stored) error {
			got = m.Seq
			return fn(m)
		})
		if err != nil {
			return err
		}
		if got == 0 {
			return nil
		}
		from = got + 1
	}
}

// isReadable reports whether a blob is not encrypted or its content key is available.
func (b *bucket) isReadable(metadata map[string]string) bool {
	id := metadata[metaKey]
	if id == "" {
		return true
	}
	_, ok := b.opts.Keys.ContentKey(id)
	return ok
}

// encodedBlob is a blob that is being encoded. bytes waits for the encoded form.
type encodedBlob struct {
	size  int    // in bytes, before compression
	base  string // hash of the base heap; empty for none
	bytes func() []byte
}
