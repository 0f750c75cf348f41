package blobs

import (
	"context"
	"crypto/sha256"
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

// Where blobs are: an object store bucket in the form that NATS documents
// (ADR-20), so that its tools can read it.
const (
	bucketName = "BLOBS"
	// Stream names the stream that the blobs are stored in.
	Stream        = "OBJ_" + bucketName
	entrySubject  = "$O." + bucketName + ".M."
	chunkSubjects = "$O." + bucketName + ".C."
)

const (
	// chunkBytes is the size of the messages a blob is cut into: as large as any
	// server takes, because each waits for the disk.
	chunkBytes = 512 << 10
	// maxBlobBytes bounds a blob before compression, so that a small stored blob
	// cannot fill the memory when it is read.
	maxBlobBytes = 512 << 20
)

// Metadata of a stored blob.
const (
	metaCodec  = "codec"
	metaSize   = "size" // in bytes, before compression
	metaEngine = "engine"
	metaBase   = "base" // hash of the heap it was packed against; absent for none
	metaKey    = "key"  // names the key that it is encrypted under; absent for a plain one

	codecZstd = "zstd"
)

// bucket stores blobs named by tenant and hash. A blob is never changed, and
// what is removed is counted (blobremoval.go), which tells a blob that was lost from
// one that never was. That is why blobs are written here: the client library's
// way of putting an object replaces what is there.
type bucket struct {
	jet    *jet.Client
	opts   Options
	store  natsjs.ObjectStore
	stream natsjs.Stream
	// onBad, if set, is called with the name of a blob that was found damaged.
	onBad func(name string)

	// mu guards writing: the blobs being written now, so that two writers of
	// the same blob in this process are one.
	mu      sync.Mutex
	writing map[string]*blobWrite

	damage badBlobs
}

// blobWrite is a blob being written; err holds once done is closed.
type blobWrite struct {
	done chan struct{}
	err  error
}

// open binds the bucket, made if it does not exist. It does nothing if it is bound.
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

// ping reports whether the bucket answers.
func (b *bucket) ping(ctx context.Context) error {
	if _, err := b.info(ctx); err != nil {
		return fmt.Errorf("reach the blob store: %w", err)
	}
	return nil
}

// info reads the state of the bucket's stream.
func (b *bucket) info(ctx context.Context, opts ...natsjs.StreamInfoOpt) (_ *natsjs.StreamInfo, err error) {
	ctx, asked := b.jet.BoundRequest(ctx)
	defer func() { asked(&err) }()
	return b.stream.Info(ctx, opts...)
}

// blobName is what a tenant's blob is stored under.
func blobName(kind, tenant, hash string) (string, error) {
	if err := jet.CheckTokens(tenant); err != nil {
		return "", err
	}
	if !events.ValidHash(hash) {
		return "", fmt.Errorf("%q is not a hash: those are 64 lowercase hex characters", hash)
	}
	return kind + "/" + tenant + "/" + hash, nil
}

// basePrefix begins the names of base heaps.
const basePrefix = "base/"

func baseName(hash string) string { return basePrefix + hash }

// metaSubject is the subject of a blob's description.
func metaSubject(name string) string {
	return entrySubject + base64.URLEncoding.EncodeToString([]byte(name))
}

// blobMeta is a blob's description as it is stored.
type blobMeta struct {
	natsjs.ObjectInfo
	seq uint64
	at  time.Time
}

func decodeEntry(m events.Stored) (blobMeta, error) {
	e := blobMeta{seq: m.Seq}
	if err := json.Unmarshal(m.Body, &e.ObjectInfo); err != nil {
		return e, fmt.Errorf("%w: the description of a blob at %d: %w", events.ErrDamaged, m.Seq, err)
	}
	var err error
	if e.at, err = time.Parse(time.RFC3339Nano, jet.HeaderValue(m.Header, jet.HeaderTime)); err != nil {
		return e, fmt.Errorf("the time of message %d: %w", m.Seq, err)
	}
	return e, nil
}

// entry reads a blob's description, also of one that was removed. Without any it
// is events.ErrNotFound.
func (b *bucket) entry(ctx context.Context, name string) (blobMeta, error) {
	m, err := b.getOne(ctx, jet.Request{LastBySubject: metaSubject(name)})
	if err != nil {
		return blobMeta{}, err
	}
	return decodeEntry(m)
}

// metadata returns what is known of a blob without reading it. It is
// events.ErrRemoved for one removed on purpose, and events.ErrNotFound only when
// the blob surely never was there: where messages are missing, its description
// may be one of them, and that is damage.
func (b *bucket) metadata(ctx context.Context, name string) (*natsjs.ObjectInfo, error) {
	info, err := b.described(ctx, name)
	if !errors.Is(err, events.ErrNotFound) {
		return info, err
	}
	stream, err := b.info(ctx, natsjs.WithSubjectFilter(metaSubject(name)))
	if err != nil {
		return nil, err
	}
	if len(stream.State.Subjects) > 0 {
		// It may have come between the two questions.
		info, err := b.described(ctx, name)
		if errors.Is(err, events.ErrNotFound) {
			return nil, b.bad(name, fmt.Errorf("%w: its description cannot be read", events.ErrDamaged))
		}
		return info, err
	}
	if err := b.checkPurgeCount(ctx, stream.State); err != nil {
		return nil, fmt.Errorf("it is not there, but may have been lost: %w", err)
	}
	return nil, events.ErrNotFound
}

func (b *bucket) described(ctx context.Context, name string) (*natsjs.ObjectInfo, error) {
	e, err := b.entry(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case e.Metadata[metaDamaged] != "":
		return nil, b.bad(name, fmt.Errorf("%w: %s", events.ErrDamaged, e.Metadata[metaDamaged]))
	case e.Deleted, strings.HasPrefix(name, "heap/") && !b.readable(e.Metadata):
		return nil, events.ErrRemoved
	}
	return &e.ObjectInfo, nil
}

// getOne fetches a single message; events.ErrNotFound when there is none.
func (b *bucket) getOne(ctx context.Context, r jet.Request) (events.Stored, error) {
	m, err := b.jet.Get(ctx, Stream, r)
	if errors.Is(err, events.ErrNotFound) && b.opts.Incomplete != nil {
		if why := b.opts.Incomplete(Stream); why != nil {
			err = fmt.Errorf("it is not there, but may have been lost: %w", why)
		}
	}
	if err != nil {
		return events.Stored{}, fmt.Errorf("get from stream %s: %w", Stream, err)
	}
	return m, nil
}

// put stores a blob under its name. A name that exists costs one look-up.
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
			for errors.Is(w.err, events.ErrRemoved) { // under our hands
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
			// The other writer may only have run out of its own time.
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *bucket) write(ctx context.Context, name string, blob encodedBlob, meta map[string]string) error {
	if blob.size > maxBlobBytes {
		return fmt.Errorf("%d bytes are more than the %d MiB a blob may have", blob.size, maxBlobBytes>>20)
	}
	var after uint64
	switch e, err := b.entry(ctx, name); {
	case err == nil && !e.Deleted && b.readable(e.Metadata) && !b.isBad(name) && e.Metadata[metaDamaged] == "":
		return b.pin(ctx, e)
	case err == nil:
		after = e.seq // it exists again
	case !errors.Is(err, events.ErrNotFound):
		return err
	}
	packed := blob.bytes()
	meta[metaCodec], meta[metaSize] = codecZstd, strconv.Itoa(blob.size)
	if blob.base != "" {
		meta[metaBase] = blob.base
	}
	info := natsjs.ObjectInfo{
		ObjectMeta: natsjs.ObjectMeta{Name: name, Metadata: meta, Opts: &natsjs.ObjectMetaOptions{ChunkSize: chunkBytes}},
		Bucket:     bucketName,
		// Unique: chunks of a writer that lost, or failed, belong to no blob.
		NUID:   events.NewID(time.Now()),
		Size:   uint64(len(packed)),
		Chunks: uint32((len(packed) + chunkBytes - 1) / chunkBytes),
		Digest: digest(packed),
	}
	if err := b.writeChunks(ctx, info.NUID, packed); err != nil {
		return err
	}
	if err := b.writeEntry(ctx, info, after); err != nil {
		return err
	}
	b.good(name, "it was stored again")
	return nil
}

// writeChunks stores the packed bytes, one chunk after the other: each waits for
// the disk, which takes them one by one. They are on it when it returns.
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

// writeEntry makes the blob known in place of the description at after, 0 for
// none, unless another writer was first: it has stored the same bytes.
func (b *bucket) writeEntry(ctx context.Context, info natsjs.ObjectInfo, after uint64) error {
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

// blobSize reads the size before compression from a blob's description.
func blobSize(info *natsjs.ObjectInfo) (int, error) {
	if codec := info.Metadata[metaCodec]; codec != codecZstd {
		return 0, fmt.Errorf("it is stored as %q, which this version cannot read", codec)
	}
	size, err := strconv.Atoi(info.Metadata[metaSize])
	if err != nil || size < 0 || size > maxBlobBytes || info.Size > maxBlobBytes+maxBlobBytes/8 {
		return 0, fmt.Errorf("%w: its description says %q bytes", events.ErrDamaged, info.Metadata[metaSize])
	}
	return size, nil
}

// read fetches the stored form of a blob. Missing chunks are noticed, not
// waited for.
func (b *bucket) read(ctx context.Context, info *natsjs.ObjectInfo) ([]byte, error) {
	packed := make([]byte, 0, info.Size)
	var chunks uint32
	for from := uint64(1); chunks < info.Chunks; {
		var got uint64
		r := jet.Request{Seq: from, NextBySubject: chunkSubjects + info.NUID, Batch: jet.BatchMessages, MaxBytes: jet.BatchBytes}
		_, err := b.jet.GetBatch(ctx, Stream, r, func(m events.Stored) error {
			got = m.Seq
			chunks++
			if uint64(len(packed)+len(m.Body)) > info.Size {
				return fmt.Errorf("%w: it holds more than the %d bytes its description says", events.ErrDamaged, info.Size)
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

// pin renews the description of a blob that is stored, so that it is not
// removed before it is named.
func (b *bucket) pin(ctx context.Context, e blobMeta) error {
	if time.Since(e.at) < b.opts.BlobGracePeriod/2 || strings.HasPrefix(e.Name, basePrefix) {
		return nil
	}
	// A conflict means that somebody else renewed it, or that it was removed:
	// then it is described as such, and must be stored again.
	return b.writeEntry(ctx, e.ObjectInfo, e.seq)
}

// replace writes a description under the expected position of the one before.
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

// scan calls fn with every message stored under subjects that match, in order.
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

// entries reads the newest description under each name.
func (b *bucket) entries(ctx context.Context) (map[string]blobMeta, error) {
	all := map[string]blobMeta{}
	err := b.scan(ctx, entrySubject+">", func(m events.Stored) error {
		e, err := decodeEntry(m)
		if err == nil {
			all[e.Name] = e
		}
		return err
	})
	return all, err
}

// tombstone is the description of a blob that is no more.
func tombstone(name string) ([]byte, error) {
	return json.Marshal(natsjs.ObjectInfo{
		ObjectMeta: natsjs.ObjectMeta{Name: name}, Bucket: bucketName, NUID: events.NewID(time.Now()), Digest: digest(nil), Deleted: true,
	})
}

// readable reports whether a blob is plain, or its key is there.
func (b *bucket) readable(metadata map[string]string) bool {
	id := metadata[metaKey]
	if id == "" {
		return true
	}
	_, ok := b.opts.Keys.ContentKey(id)
	return ok
}

// encodedBlob is a blob on its way into its stored form.
type encodedBlob struct {
	size  int    // in bytes, before compression
	base  string // hash of what it is packed against; empty for none
	bytes func() []byte
}

// digest is the checksum of an object as the object store writes it.
func digest(packed []byte) string {
	sum := sha256.Sum256(packed)
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:])
}
