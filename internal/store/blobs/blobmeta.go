package blobs

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
)

// blobMeta is the metadata of a blob as stored, with its position and time.
type blobMeta struct {
	natsjs.ObjectInfo
	seq uint64
	at  time.Time
}

func decodeMeta(m events.Stored) (blobMeta, error) {
	e := blobMeta{seq: m.Seq}
	if err := json.Unmarshal(m.Body, &e.ObjectInfo); err != nil {
		return e, fmt.Errorf("%w: decode the metadata of a blob at position %d: %w", events.ErrDamaged, m.Seq, err)
	}
	var err error
	if e.at, err = time.Parse(time.RFC3339Nano, jet.DeliveryValue(m.Header, jet.HeaderTime)); err != nil {
		return e, fmt.Errorf("parse the time of message %d: %w", m.Seq, err)
	}
	return e, nil
}

// describe returns the metadata of a blob, with meta added. That of a small blob holds its
// encoded form.
func describe(name string, blob encodedBlob, meta map[string]string) natsjs.ObjectInfo {
	packed := blob.bytes()
	meta = maps.Clone(meta)
	meta[metaCodec], meta[metaSize] = codecZstd, strconv.Itoa(blob.size)
	if blob.base != "" {
		meta[metaBase] = blob.base
	}
	info := natsjs.ObjectInfo{
		ObjectMeta: natsjs.ObjectMeta{Name: name, Metadata: meta, Opts: &natsjs.ObjectMetaOptions{ChunkSize: chunkBytes}},
		Bucket:     bucketName,
		// Unique: chunks of a writer that lost the race or failed belong to no blob.
		NUID: events.NewID(time.Now()),
	}
	if len(packed) <= inlineBytes {
		meta[metaInline] = base64.StdEncoding.EncodeToString(packed)
		info.Digest = digest(nil)
		return info
	}
	info.Size, info.Chunks = uint64(len(packed)), uint32((len(packed)+chunkBytes-1)/chunkBytes)
	info.Digest = digest(packed)
	return info
}

// inlineOf returns the encoded form of a blob that its metadata holds. It returns false if
// the blob has chunks.
func inlineOf(info *natsjs.ObjectInfo) (packed []byte, ok bool, err error) {
	text, ok := info.Metadata[metaInline]
	if !ok {
		return nil, false, nil
	}
	if packed, err = base64.StdEncoding.DecodeString(text); err != nil {
		return nil, true, fmt.Errorf("%w: decode its metadata: %w", events.ErrDamaged, err)
	}
	return packed, true, nil
}

// blobSize returns the size in bytes before compression from the metadata of a blob.
func blobSize(info *natsjs.ObjectInfo) (int, error) {
	if codec := info.Metadata[metaCodec]; codec != codecZstd {
		return 0, fmt.Errorf("it is stored as %q, which this version cannot read", codec)
	}
	size, err := strconv.Atoi(info.Metadata[metaSize])
	if err != nil || size < 0 || size > maxBlobBytes || info.Size > maxBlobBytes+maxBlobBytes/8 {
		return 0, fmt.Errorf("%w: its metadata says %q bytes", events.ErrDamaged, info.Metadata[metaSize])
	}
	return size, nil
}

// tombstone returns the metadata that marks a blob as deleted.
func tombstone(name string) ([]byte, error) {
	return json.Marshal(natsjs.ObjectInfo{
		ObjectMeta: natsjs.ObjectMeta{Name: name}, Bucket: bucketName, NUID: events.NewID(time.Now()), Digest: digest(nil), Deleted: true,
	})
}

// digest returns the checksum of an object in the form of the object store.
func digest(packed []byte) string {
	sum := sha256.Sum256(packed)
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:])
}
