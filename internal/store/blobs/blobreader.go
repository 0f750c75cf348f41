package blobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/store/jet"
)

// maxWindow is how far back the packed form of a blob refers, in bytes: what
// reading it in pieces holds in memory.
const maxWindow = 8 << 20

// inMemory is the size up to which a blob is unpacked at once: the state of a
// decoder that reads in pieces takes more.
const inMemory = 1 << 20

// BlobReader reads a blob in pieces and checks it against its hash. Read returns
// events.ErrDamaged in place of io.EOF when the content is not what the hash says:
// what was read before it MUST NOT be used then. The caller MUST call Close. It is
// not safe for concurrent use.
type BlobReader struct {
	want  string
	size  int64
	src   io.Reader
	close func()
	sum   hash.Hash
	read  int64
	err   error
	// ended, if set, is called once with how the reading ended: io.EOF, or an error
	// that it may replace.
	ended func(error) error
}

// Size is the length of the content, in bytes, as the blob store describes it. A
// blob that has another length is damaged.
func (r *BlobReader) Size() int64 { return r.size }

// Read implements io.Reader.
func (r *BlobReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.src.Read(p)
	_, _ = r.sum.Write(p[:n]) // never fails
	r.read += int64(n)
	switch {
	case r.read > r.size:
		r.err = fmt.Errorf("%w: it holds more than the %d bytes its description says", events.ErrDamaged, r.size)
	case errors.Is(err, io.EOF):
		r.err = r.verify()
	case err != nil:
		r.err = err
	}
	if r.err != nil && r.ended != nil {
		r.err = r.ended(r.err)
	}
	return n, r.err
}

// verify returns io.EOF for content that has the size and the hash.
func (r *BlobReader) verify() error {
	if r.read != r.size {
		return fmt.Errorf("%w: it holds %d bytes, its description says %d", events.ErrDamaged, r.read, r.size)
	}
	if got := hex.EncodeToString(r.sum.Sum(nil)); got != r.want {
		return fmt.Errorf("%w: its bytes have the hash %s", events.ErrDamaged, got)
	}
	return io.EOF
}

// Close frees what reading held. It never fails.
func (r *BlobReader) Close() error {
	if r.close != nil {
		r.close()
		r.close = nil
	}
	return nil
}

// OpenBlob is OpenHeap or OpenText. The size is that of the content, in bytes.
func (s *Store) OpenBlob(ctx context.Context, tenant string, heap bool, hash string) (content io.ReadCloser, size int64, err error) {
	var r *BlobReader
	if heap {
		r, _, err = s.OpenHeap(ctx, tenant, hash)
	} else {
		r, err = s.OpenText(ctx, tenant, hash)
	}
	if err != nil {
		return nil, 0, err
	}
	return r, r.size, nil
}

// OpenHeap returns a reader of a tenant's heap. Errors are those of Heap; the
// reader may return damage too.
func (s *Store) OpenHeap(ctx context.Context, tenant, hash string) (*BlobReader, events.HeapInfo, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap: %w", err)
	}
	if kept, ok := s.cache.get(name); ok {
		r, err := s.unpackInPieces(ctx, bytes.NewReader(kept.packed), kept.base, hash, kept.info.Size)
		if err != nil {
			return nil, events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
		}
		return r, kept.info, nil
	}
	r, info, err := s.openBlob(ctx, name, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
	}
	return r, heapInfo(hash, int(r.size), info), nil
}

// OpenText returns a reader of a tenant's text as it is stored: one that is
// encrypted stays so. Errors are those of RawText; the reader may return
// damage too.
func (s *Store) OpenText(ctx context.Context, tenant, hash string) (*BlobReader, error) {
	name, err := blobName("text", tenant, hash)
	if err != nil {
		return nil, fmt.Errorf("read text: %w", err)
	}
	r, _, err := s.openBlob(ctx, name, hash)
	if err != nil {
		return nil, fmt.Errorf("read text %s: %w", hash, err)
	}
	return r, nil
}

// VerifyHeap reads a tenant's heap from the blob store, in pieces, and checks its
// hash. It neither reads nor changes the cache of heaps: a check of old heaps does not
// take the place of heaps in use. It waits for memory that other answers hold, and keeps
// none. Errors are those of Heap.
func (s *Store) VerifyHeap(ctx context.Context, tenant, hash string) (info events.HeapInfo, err error) {
	err = budget.Retry(ctx, func() error {
		return budget.Piece(ctx, func() (err error) {
			info, err = s.verifyHeap(ctx, tenant, hash)
			return err
		})
	})
	return info, err
}

func (s *Store) verifyHeap(ctx context.Context, tenant, hash string) (events.HeapInfo, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return events.HeapInfo{}, fmt.Errorf("read heap: %w", err)
	}
	r, info, err := s.openBlob(ctx, name, hash)
	if err != nil {
		return events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
	}
	defer func() { _ = r.Close() }() // it never fails
	if _, err := io.Copy(io.Discard, r); err != nil {
		return events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
	}
	return heapInfo(hash, int(r.size), info), nil
}

// openBlob returns a reader of a blob. A blob that is encrypted is decrypted in memory,
// in its packed form. Damage is a *events.BlobDamagedError and is reported.
func (s *Store) openBlob(ctx context.Context, name, hash string) (*BlobReader, *natsjs.ObjectInfo, error) {
	info, err := s.bucket.metadata(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.openDescribed(ctx, name, hash, info)
	if errors.Is(err, events.ErrDamaged) {
		return nil, nil, s.bucket.confirmBad(ctx, name, info, err)
	}
	if err != nil {
		return nil, nil, err
	}
	r.ended = func(err error) error {
		switch {
		case errors.Is(err, io.EOF):
			s.bucket.good(name, "it was read again and is intact")
		case errors.Is(err, events.ErrDamaged):
			return s.bucket.confirmBad(ctx, name, info, err)
		}
		return err
	}
	return r, info, nil
}

func (s *Store) openDescribed(ctx context.Context, name, hash string, info *natsjs.ObjectInfo) (*BlobReader, error) {
	size, err := blobSize(info)
	if err != nil {
		return nil, err
	}
	base, err := baseOf(name, info)
	if err != nil {
		return nil, err
	}
	var packed io.Reader = &chunkReader{ctx: ctx, b: s.bucket, info: info, from: 1}
	if isEncryptedHeap(name, info) {
		if err := budget.TakeOnce(ctx, 2*int(info.Size)); err != nil {
			return nil, err
		}
		whole, err := s.readPacked(ctx, name, info)
		if err != nil {
			return nil, err
		}
		packed = bytes.NewReader(whole)
	}
	return s.unpackInPieces(ctx, packed, base, hash, int64(size))
}

// unpackInPieces returns a reader of a packed blob. It takes what that holds from
// the account that ctx carries.
func (s *Store) unpackInPieces(ctx context.Context, packed io.Reader, base, hash string, size int64) (*BlobReader, error) {
	p, err := s.bases.decoderFor(ctx, base)
	if err != nil {
		return nil, err
	}
	r := &BlobReader{want: hash, size: size, sum: sha256.New()}
	if size <= inMemory {
		// Its packed form may be longer, by less than a block's header for each block.
		if err := budget.TakeOnce(ctx, 2*int(size)+1<<10); err != nil {
			return nil, err
		}
		r.src = &lazyReader{fill: func() ([]byte, error) {
			raw, err := io.ReadAll(packed)
			if err != nil {
				return nil, err
			}
			blob, err := p.decompress(raw, int(size))
			if err != nil {
				return nil, fmt.Errorf("%w: %w", events.ErrDamaged, err)
			}
			return blob, nil
		}}
		return r, nil
	}
	window := min(size, maxWindow)
	if err := budget.TakeOnce(ctx, int(window)+2*chunkBytes); err != nil {
		return nil, err
	}
	d, err := p.unpackStream(packed, uint64(window))
	if err != nil {
		return nil, err
	}
	r.src, r.close = damagedReader{d}, d.Close
	return r, nil
}

// lazyReader reads what fill returns, which is called once.
type lazyReader struct {
	fill func() ([]byte, error)
	from *bytes.Reader
}

func (r *lazyReader) Read(p []byte) (int, error) {
	if r.from == nil {
		blob, err := r.fill()
		if err != nil {
			return 0, err
		}
		r.from = bytes.NewReader(blob)
	}
	return r.from.Read(p)
}

// damagedReader marks the errors of a decoder as damage, but not those of the
// blob store below it.
type damagedReader struct{ io.Reader }

func (r damagedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, events.ErrDamaged) {
		return n, err
	}
	if _, below := errors.AsType[*chunkError](err); below {
		return n, err
	}
	return n, fmt.Errorf("%w: decompress: %w", events.ErrDamaged, err)
}

// chunkError is a chunk that could not be read now.
type chunkError struct{ err error }

func (e *chunkError) Error() string { return e.err.Error() }
func (e *chunkError) Unwrap() error { return e.err }

// chunkReader reads the packed form of a blob, a chunk at a time.
type chunkReader struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the answer it serves
	b      *bucket
	info   *natsjs.ObjectInfo
	from   uint64
	chunks uint32
	bytes  uint64
	left   []byte
}

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if r.chunks == r.info.Chunks {
			if r.bytes != r.info.Size {
				return 0, fmt.Errorf("%w: it lacks %d of its %d bytes", events.ErrDamaged, r.info.Size-r.bytes, r.info.Size)
			}
			return 0, io.EOF
		}
		m, err := r.b.getOne(r.ctx, jet.Request{Seq: r.from, NextBySubject: chunkSubjects + r.info.NUID})
		switch {
		case errors.Is(err, events.ErrNotFound):
			return 0, fmt.Errorf("%w: it lacks %d of its %d bytes", events.ErrDamaged, r.info.Size-r.bytes, r.info.Size)
		case err != nil:
			return 0, &chunkError{err}
		}
		r.chunks++
		if r.bytes += uint64(len(m.Body)); r.bytes > r.info.Size {
			return 0, fmt.Errorf("%w: it holds more than the %d bytes its description says", events.ErrDamaged, r.info.Size)
		}
		r.from, r.left = m.Seq+1, m.Body
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// baseOf returns the hash of the base that a blob is packed against, empty for
// none.
func baseOf(name string, info *natsjs.ObjectInfo) (string, error) {
	base := info.Metadata[metaBase]
	if base != "" && strings.HasPrefix(name, basePrefix) {
		return "", fmt.Errorf("%w: a base heap has the base %q itself", events.ErrDamaged, base)
	}
	return base, nil
}

func isEncryptedHeap(name string, info *natsjs.ObjectInfo) bool {
	return info.Metadata[metaKey] != "" && strings.HasPrefix(name, "heap/")
}

// readPacked reads the packed form of a blob, decrypted where a heap is encrypted.
func (s *Store) readPacked(ctx context.Context, name string, info *natsjs.ObjectInfo) ([]byte, error) {
	packed, err := s.bucket.read(ctx, info)
	if err != nil || !isEncryptedHeap(name, info) {
		return packed, err
	}
	tenant, _, _ := strings.Cut(strings.TrimPrefix(name, "heap/"), "/")
	packed, err = events.DecryptBlob(tenant, info.Metadata[metaKey], packed, s.opts.Keys)
	if errors.Is(err, events.ErrShredded) {
		return nil, events.ErrRemoved
	}
	return packed, err
}
