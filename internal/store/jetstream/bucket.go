package jetstream

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
	"daybook/internal/resources/budget"
)

// Where blobs are: an object store bucket in the form that NATS documents
// (ADR-20), so that its tools can read it.
const (
	bucketName    = "BLOBS"
	bucketStream  = "OBJ_" + bucketName
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

	codecZstd = "zstd"
)

// bucket stores blobs named by tenant and hash. A blob is never changed, and
// what is removed is counted (remove.go), which tells a blob that was lost from
// one that never was. That is why blobs are written here: the client library's
// way of putting an object replaces what is there.
type bucket struct {
	s      *Store
	store  natsjs.ObjectStore
	stream natsjs.Stream

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

// openBucket binds the bucket, made if it does not exist.
func (s *Store) openBucket(ctx context.Context) (b *bucket, made bool, err error) {
	b = &bucket{s: s, writing: map[string]*blobWrite{}}
	b.store, err = s.jet.JS.ObjectStore(ctx, bucketName)
	if errors.Is(err, natsjs.ErrBucketNotFound) && !s.jet.Options.Existing {
		made = true
		b.store, err = s.jet.JS.CreateObjectStore(ctx, natsjs.ObjectStoreConfig{
			Bucket: bucketName, Description: "Daybook heaps and texts, by tenant and hash", Storage: natsjs.FileStorage, Replicas: s.jet.Options.Replicas,
		})
	}
	if err == nil {
		b.stream, err = s.jet.JS.Stream(ctx, bucketStream)
	}
	if err != nil {
		return nil, false, fmt.Errorf("open the blob store: %w", err)
	}
	return b, made, nil
}

// reach reports whether the bucket answers.
func (b *bucket) reach(ctx context.Context) error {
	if _, err := b.info(ctx); err != nil {
		return fmt.Errorf("reach the blob store: %w", err)
	}
	return nil
}

// info reads the state of the bucket's stream.
func (b *bucket) info(ctx context.Context, opts ...natsjs.StreamInfoOpt) (_ *natsjs.StreamInfo, err error) {
	ctx, asked := b.s.jet.BoundRequest(ctx)
	defer func() { asked(&err) }()
	return b.stream.Info(ctx, opts...)
}

// blobName is what a tenant's blob is stored under.
func blobName(kind, tenant, hash string) (string, error) {
	if err := CheckTokens(tenant); err != nil {
		return "", err
	}
	if !events.ValidHash(hash) {
		return "", fmt.Errorf("%q is not a hash: those are 64 lowercase hex characters", hash)
	}
	return kind + "/" + tenant + "/" + hash, nil
}

// entryOf is the subject of a blob's description.
func entryOf(name string) string {
	return entrySubject + base64.URLEncoding.EncodeToString([]byte(name))
}

// entry is a blob's description as it is stored.
type entry struct {
	natsjs.ObjectInfo
	seq uint64
	at  time.Time
}

func decodeEntry(m events.Stored) (entry, error) {
	e := entry{seq: m.Seq}
	if err := json.Unmarshal(m.Body, &e.ObjectInfo); err != nil {
		return e, fmt.Errorf("%w: the description of a blob at %d: %w", events.ErrDamaged, m.Seq, err)
	}
	var err error
	if e.at, err = time.Parse(time.RFC3339Nano, HeaderValue(m.Header, HeaderTime)); err != nil {
		return e, fmt.Errorf("the time of message %d: %w", m.Seq, err)
	}
	return e, nil
}

// entry reads a blob's description, also of one that was removed. Without any it
// is events.ErrNotFound.
func (b *bucket) entry(ctx context.Context, name string) (entry, error) {
	m, err := b.s.getOne(ctx, bucketStream, Request{LastBySubject: entryOf(name)})
	if err != nil {
		return entry{}, err
	}
	return decodeEntry(m)
}

// describe returns what is known of a blob without reading it. It is
// events.ErrRemoved for one removed on purpose, and events.ErrNotFound only when
// the blob surely never was there: where messages are missing, its description
// may be one of them, and that is damage.
func (b *bucket) describe(ctx context.Context, name string) (*natsjs.ObjectInfo, error) {
	info, err := b.described(ctx, name)
	if !errors.Is(err, events.ErrNotFound) {
		return info, err
	}
	stream, err := b.info(ctx, natsjs.WithSubjectFilter(entryOf(name)))
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
	if err := b.checkWhole(ctx, stream.State); err != nil {
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

// put stores a blob under its name. A name that exists costs one look-up.
func (b *bucket) put(ctx context.Context, name string, blob packed, meta map[string]string) error {
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

func (b *bucket) write(ctx context.Context, name string, blob packed, meta map[string]string) error {
	if blob.size > maxBlobBytes {
		return fmt.Errorf("%d bytes are more than the %d MiB a blob may have", blob.size, maxBlobBytes>>20)
	}
	var after uint64
	switch e, err := b.entry(ctx, name); {
	case err == nil && !e.Deleted && b.readable(e.Metadata) && !b.isBad(name) && e.Metadata[metaDamaged] == "":
		return b.relyOn(ctx, e)
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
	_, err := b.s.jet.Publish(ctx, m)
	return err
}

// writeEntry makes the blob known in place of the description at after, 0 for
// none, unless another writer was first: it has stored the same bytes.
func (b *bucket) writeEntry(ctx context.Context, info natsjs.ObjectInfo, after uint64) error {
	body, err := json.Marshal(info)
	if err != nil {
		return err
	}
	m := nats.NewMsg(entryOf(info.Name))
	m.Data = body
	m.Header.Set(natsjs.ExpectedLastSubjSeqHeader, strconv.FormatUint(after, 10))
	err = b.publish(ctx, m)
	if IsConflict(err) {
		_, err = b.describe(ctx, info.Name)
	}
	return err
}

// gotBlob is a blob that was read whole.
type gotBlob struct {
	blob, packed []byte
	base         string // hash of the heap it is packed against; empty for none
	info         *natsjs.ObjectInfo
}

// get reads a blob back and checks it against its hash: events.ErrNotFound, or
// *events.BlobDamagedError saying what is wrong. What it holds is taken from the
// account that ctx carries.
func (b *bucket) get(ctx context.Context, name, hash string) (gotBlob, error) {
	info, err := b.describe(ctx, name)
	for err == nil {
		var got gotBlob
		if got, err = b.content(ctx, name, hash, info); err == nil {
			b.good(name, "it was read again and is intact")
			return got, nil
		}
		if !errors.Is(err, events.ErrDamaged) {
			break
		}
		if err = b.confirmBad(ctx, name, info, err); errors.Is(err, errReplaced) {
			info, err = b.describe(ctx, name)
		}
	}
	return gotBlob{}, err
}

// content reads the bytes of a blob that is described.
func (b *bucket) content(ctx context.Context, name, hash string, info *natsjs.ObjectInfo) (gotBlob, error) {
	got := gotBlob{info: info}
	size, err := blobSize(info)
	if err != nil {
		return gotBlob{}, err
	}
	if err := budget.Take(ctx, size); err != nil {
		return gotBlob{}, err
	}
	if got.base, err = baseOf(name, info); err != nil {
		return gotBlob{}, err
	}
	if got.packed, err = b.readPacked(ctx, name, info); err != nil {
		return gotBlob{}, err
	}
	p, err := b.unpackingFor(ctx, got.base)
	if err != nil {
		return gotBlob{}, err
	}
	if got.blob, err = p.decompress(got.packed, size); err != nil {
		return gotBlob{}, fmt.Errorf("%w: %w", events.ErrDamaged, err)
	}
	if sum := events.Hash(got.blob); sum != hash {
		return gotBlob{}, fmt.Errorf("%w: its bytes have the hash %s", events.ErrDamaged, sum)
	}
	return got, nil
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
		r := Request{Seq: from, NextBySubject: chunkSubjects + info.NUID, Batch: BatchMessages, MaxBytes: BatchBytes}
		_, err := b.s.getBatch(ctx, bucketStream, r, func(m events.Stored) error {
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
		if err := b.s.jet.Starved(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: it lacks %d of its %d bytes", events.ErrDamaged, info.Size-uint64(len(packed)), info.Size)
	}
	return packed, nil
}
