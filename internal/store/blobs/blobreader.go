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

// maxWindow is the maximum distance of references in the encoded form of a blob, in
// bytes. A reader that reads in pieces holds as many bytes in memory.
const maxWindow = 8 << 20

// maxInMemory is the size in bytes up to which a blob is decoded at once. A decoder that
// reads in pieces needs more memory than that.
const maxInMemory = 1 << 20

// blobReader reads a blob in pieces and verifies it against its hash. If the content
// does not match, Read returns events.ErrDamaged in place of io.EOF, and the caller
// MUST NOT use the bytes read before. The caller MUST call Close. A blobReader is not
// safe for concurrent use.
type blobReader struct {
	want  string
	size  int64
	src   io.Reader
	close func()
	sum   hash.Hash
	read  int64
	err   error
	// onEnd, if set, is called once with the result of the reading: io.EOF or an error.
	// Its result replaces that.
	onEnd func(error) error
}

// Size returns the length of the content in bytes, according to the metadata of the
// blob. A blob with a different length is damaged.
func (r *blobReader) Size() int64 { return r.size }

// Read implements io.Reader.
func (r *blobReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.src.Read(p)
	_, _ = r.sum.Write(p[:n]) // never fails
	r.read += int64(n)
	switch {
	case r.read > r.size:
		r.err = fmt.Errorf("%w: it holds more than the %d bytes in its metadata", events.ErrDamaged, r.size)
	case errors.Is(err, io.EOF):
		r.err = r.verify()
	case err != nil:
		r.err = err
	}
	if r.err != nil && r.onEnd != nil {
		r.err = r.onEnd(r.err)
	}
	return n, r.err
}

// verify returns io.EOF if size and hash of the content match.
func (r *blobReader) verify() error {
	if r.read != r.size {
		return fmt.Errorf("%w: it holds %d bytes, its metadata says %d", events.ErrDamaged, r.read, r.size)
	}
	if got := hex.EncodeToString(r.sum.Sum(nil)); got != r.want {
		return fmt.Errorf("%w: its bytes have the hash %s", events.ErrDamaged, got)
	}
	return io.EOF
}

// Close releases the memory of the reader. It always returns nil.
func (r *blobReader) Close() error {
	if r.close != nil {
		r.close()
		r.close = nil
	}
	return nil
}

// OpenBlob returns a reader of a heap, or of a text as it is stored. size is the length
// of the content in bytes. The caller MUST close content. The errors are those of Heap or
// RawText; the reader may also return events.ErrDamaged.
func (s *Store) OpenBlob(ctx context.Context, tenant string, heap bool, hash string) (content io.ReadCloser, size int64, err error) {
	var r *blobReader
	if heap {
		r, _, err = s.openHeap(ctx, tenant, hash)
	} else {
		r, err = s.openText(ctx, tenant, hash)
	}
	if err != nil {
		return nil, 0, err
	}
	return r, r.size, nil
}

// openHeap returns a reader of a heap. It returns the errors of Heap; the reader may
// also return events.ErrDamaged.
func (s *Store) openHeap(ctx context.Context, tenant, hash string) (*blobReader, events.HeapInfo, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap: %w", err)
	}
	if kept, ok := s.cache.get(name); ok {
		r, err := s.decodeInPieces(ctx, bytes.NewReader(kept.packed), kept.base, hash, kept.info.Size)
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

// openText returns a reader of a text as it is stored; it does not decrypt. It returns
// the errors of RawText; the reader may also return events.ErrDamaged.
func (s *Store) openText(ctx context.Context, tenant, hash string) (*blobReader, error) {
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

// VerifyHeap reads a heap from the blob store in pieces and verifies its hash. It does
// not use the cache, so that a check of old heaps does not evict heaps in use. It waits
// for memory that other requests hold, and keeps none. It returns the errors of Heap.
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
	defer func() { _ = r.Close() }() // always returns nil
	if _, err := io.Copy(io.Discard, r); err != nil {
		return events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
	}
	return heapInfo(hash, int(r.size), info), nil
}

// openBlob returns a reader of a blob. An encrypted heap is decrypted in memory, in its
// encoded form. Damage is reported and returned as *events.BlobDamagedError.
func (s *Store) openBlob(ctx context.Context, name, hash string) (*blobReader, *natsjs.ObjectInfo, error) {
	info, err := s.bucket.metadata(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.openDescribed(ctx, name, hash, info)
	if errors.Is(err, events.ErrDamaged) {
		return nil, nil, s.bucket.confirmDamaged(ctx, name, info, err)
	}
	if err != nil {
		return nil, nil, err
	}
	r.onEnd = func(err error) error {
		switch {
		case errors.Is(err, io.EOF):
			s.bucket.reportIntact(name, "it was read again and is intact")
		case errors.Is(err, events.ErrDamaged):
			return s.bucket.confirmDamaged(ctx, name, info, err)
		}
		return err
	}
	return r, info, nil
}

func (s *Store) openDescribed(ctx context.Context, name, hash string, info *natsjs.ObjectInfo) (*blobReader, error) {
	size, err := blobSize(info)
	if err != nil {
		return nil, err
	}
	base, err := baseOf(name, info)
	if err != nil {
		return nil, err
	}
	var packed io.Reader = &chunkReader{ctx: ctx, b: s.bucket, info: info, from: 1}
	if small, ok, err := inlineOf(info); err != nil {
		return nil, err
	} else if ok {
		packed = bytes.NewReader(small)
	}
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
	return s.decodeInPieces(ctx, packed, base, hash, int64(size))
}

// decodeInPieces returns a reader of an encoded blob. It takes the memory of the reader
// from the account in ctx.
func (s *Store) decodeInPieces(ctx context.Context, packed io.Reader, base, hash string, size int64) (*blobReader, error) {
	p, err := s.bases.decoderFor(ctx, base)
	if err != nil {
		return nil, err
	}
	r := &blobReader{want: hash, size: size, sum: sha256.New()}
	if size <= maxInMemory {
		// The encoded form may be longer than the blob, by less than a header for each block.
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
	d, err := p.decodeStream(packed, uint64(window))
	if err != nil {
		return nil, err
	}
	r.src, r.close = damagedReader{d}, d.Close
	return r, nil
}

// lazyReader reads the bytes that fill returns. It calls fill once.
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

// damagedReader marks errors of a decoder as damage, except those of the blob store
// below.
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

// chunkError is a chunk that cannot be read now.
type chunkError struct{ err error }

func (e *chunkError) Error() string { return e.err.Error() }
func (e *chunkError) Unwrap() error { return e.err }

// chunkReader reads the encoded form of a blob, one chunk at a time.
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
			return 0, fmt.Errorf("%w: it holds more than the %d bytes in its metadata", events.ErrDamaged, r.info.Size)
		}
		r.from, r.left = m.Seq+1, m.Body
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// baseOf returns the hash of the base heap that a blob is encoded against, or "" for
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

// readPacked reads the encoded form of a blob. It decrypts encrypted heaps.
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
