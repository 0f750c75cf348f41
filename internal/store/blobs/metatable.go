package blobs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/spill"
)

// metaTableMemory is the size in bytes from which a metaTable is in a temporary file: more than
// 40,000 blobs.
const metaTableMemory = 8 << 20

// metaTable lists the newest metadata of each blob in memory that does not grow with their number.
// It keeps of the metadata what the removal of blobs and the search for lost ones need. It is not
// safe for concurrent use.
type metaTable struct {
	table *spill.Table
	// prefixes are the names up to the hash, of which there are two for each tenant, and whole
	// names without a hash. A key begins with the number of its prefix.
	prefixes []string
	numbers  map[string]uint32
}

// listedMeta is what a metaTable keeps of a blob.
type listedMeta struct {
	name string
	seq  uint64
	at   time.Time
	// size is the size in bytes before compression, -1 if the metadata does not say it.
	size    int64
	deleted bool
	// isInline reports whether the metadata holds the encoded form. replaced is the number of
	// earlier messages with metadata of the blob that are still stored, and replacedInline
	// reports whether one of them holds an encoded form.
	isInline, replacedInline bool
	replaced                 uint64
	// isMarked reports whether the metadata marks the blob as damaged, and isUnreadable whether its
	// content key is not available.
	isMarked, isUnreadable bool
	// chunks is the number of chunks. owner stands for their subject.
	chunks uint64
	owner  chunkOwner
}

// chunkOwner is a hash of the id that the subject of a blob's chunks ends with.
type chunkOwner [16]byte

func chunkOwnerOf(id string) (o chunkOwner) {
	sum := sha256.Sum256([]byte(id))
	copy(o[:], sum[:])
	return o
}

const (
	metaKeyBytes   = 4 + sha256.Size
	metaValueBytes = 8 + 8 + 8 + 8 + 8 + 1 + len(chunkOwner{})
)

// Flags in the value of a metaTable.
const (
	flagDeleted = 1 << iota
	flagInline
	flagReplacedInline
	flagMarked
	flagUnreadable
)

// readMetaTable reads the metadata of all blobs. The caller MUST call close.
func (b *bucket) readMetaTable(ctx context.Context) (*metaTable, error) {
	t := &metaTable{table: spill.NewTable(metaKeyBytes, metaValueBytes, metaTableMemory), numbers: map[string]uint32{}}
	err := b.scan(ctx, metaSubjects+">", func(m events.Stored) error {
		e, err := decodeMeta(m)
		if err != nil {
			return err
		}
		t.add(e, b.isReadable(e.Metadata))
		return t.table.Err()
	})
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// close removes the temporary file.
func (t *metaTable) close() { t.table.Close() }

// key returns the key of a name.
func (t *metaTable) key(name string) (k [metaKeyBytes]byte) {
	prefix := name
	if at := strings.LastIndexByte(name, '/') + 1; events.ValidHash(name[at:]) {
		prefix = name[:at]
		_, _ = hex.Decode(k[4:], []byte(name[at:])) // it is a hash
	}
	n, ok := t.numbers[prefix]
	if !ok {
		n = uint32(len(t.prefixes))
		t.numbers[prefix], t.prefixes = n, append(t.prefixes, prefix)
	}
	binary.BigEndian.PutUint32(k[:], n)
	return k
}

// get returns what is kept of a blob. It returns false for one without metadata.
func (t *metaTable) get(name string) (listedMeta, bool) {
	k := t.key(name)
	raw := t.table.Get(k[:])
	if raw == nil {
		return listedMeta{}, false
	}
	l := decodeListed(raw)
	l.name = name
	return l, true
}

// add adds metadata that is newer than all before. isReadable reports whether the blob is not
// encrypted or its content key is available.
func (t *metaTable) add(e blobMeta, isReadable bool) {
	k := t.key(e.Name)
	_, inline := e.Metadata[metaInline]
	l := listedMeta{
		seq: e.seq, at: e.at, size: -1, deleted: e.Deleted, isInline: inline, isMarked: e.Metadata[metaDamaged] != "", isUnreadable: !isReadable,
		chunks: uint64(e.Chunks), owner: chunkOwnerOf(e.NUID),
	}
	if size, err := blobSize(&e.ObjectInfo); err == nil {
		l.size = int64(size)
	}
	if raw := t.table.Get(k[:]); raw != nil {
		before := decodeListed(raw)
		l.replaced = before.replaced + 1
		l.replacedInline = before.replacedInline || before.isInline
	}
	t.table.Put(k[:], l.encode())
}

func (l listedMeta) encode() []byte {
	var flags byte
	if l.deleted {
		flags |= flagDeleted
	}
	if l.isInline {
		flags |= flagInline
	}
	if l.replacedInline {
		flags |= flagReplacedInline
	}
	if l.isMarked {
		flags |= flagMarked
	}
	if l.isUnreadable {
		flags |= flagUnreadable
	}
	raw := make([]byte, 0, metaValueBytes)
	for _, n := range []uint64{l.seq, uint64(l.at.UnixNano()), uint64(l.size), l.replaced, l.chunks} {
		raw = binary.BigEndian.AppendUint64(raw, n)
	}
	return append(append(raw, flags), l.owner[:]...)
}

func decodeListed(raw []byte) (l listedMeta) {
	number := func() uint64 {
		n := binary.BigEndian.Uint64(raw)
		raw = raw[8:]
		return n
	}
	l.seq, l.at, l.size, l.replaced, l.chunks = number(), time.Unix(0, int64(number())).UTC(), int64(number()), number(), number()
	l.deleted, l.isInline, l.replacedInline = raw[0]&flagDeleted != 0, raw[0]&flagInline != 0, raw[0]&flagReplacedInline != 0
	l.isMarked, l.isUnreadable = raw[0]&flagMarked != 0, raw[0]&flagUnreadable != 0
	copy(l.owner[:], raw[1:])
	return l
}

// each calls fn with each blob, in no particular order. It returns an error of fn unchanged.
func (t *metaTable) each(fn func(listedMeta) error) error {
	return t.table.Each(func(key, value []byte) error {
		l := decodeListed(value)
		l.name = t.prefixes[binary.BigEndian.Uint32(key)]
		if strings.HasSuffix(l.name, "/") {
			l.name += hex.EncodeToString(key[4:])
		}
		return fn(l)
	})
}

// owners returns the chunkOwner of each blob that exists. The caller MUST close the table.
func (t *metaTable) owners() (*spill.Table, error) {
	owned := spill.NewTable(len(chunkOwner{}), 1, metaTableMemory)
	err := t.each(func(l listedMeta) error {
		if !l.deleted {
			owned.Put(l.owner[:], []byte{1})
		}
		return owned.Err()
	})
	if err != nil {
		owned.Close()
		return nil, err
	}
	return owned, nil
}

// sizeError returns why the metadata of a blob does not say its size.
func (b *bucket) sizeError(ctx context.Context, name string) error {
	e, err := b.readMeta(ctx, name)
	if err == nil {
		_, err = blobSize(&e.ObjectInfo)
	}
	if err == nil {
		err = errors.New("its metadata changed; try again")
	}
	return fmt.Errorf("%s: %w", name, err)
}
