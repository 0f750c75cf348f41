package retention

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/spill"
)

// tableMemory is the size in bytes from which a list of blobs is in a temporary file.
const tableMemory = 8 << 20

// storedBlobs lists the stored blobs in memory that does not grow with their number. It is not safe
// for concurrent use.
type storedBlobs struct {
	// blobs has a record for each blob: by tenant, kind and hash, its size, the time at which it was
	// stored, and its version.
	blobs *spill.Table
	// named has the hash of each blob that is old enough to be an orphan, and whether an event
	// names it. unnamed is the number of those that none names so far.
	named   *spill.Table
	unnamed int
}

const (
	blobKeyBytes   = 4 + 1 + 32
	blobValueBytes = 3 * 8
)

func newStoredBlobs() *storedBlobs {
	return &storedBlobs{blobs: spill.NewTable(blobKeyBytes, blobValueBytes, tableMemory), named: spill.NewTable(32, 1, tableMemory)}
}

// close removes the temporary files.
func (s *storedBlobs) close() {
	s.blobs.Close()
	s.named.Close()
}

// err returns the first error of a temporary file.
func (s *storedBlobs) err() error { return cmp.Or(s.blobs.Err(), s.named.Err()) }

func blobKey(k heapKey, isHeap bool) (key [blobKeyBytes]byte) {
	binary.BigEndian.PutUint32(key[:], k.tenant)
	if isHeap {
		key[4] = 1
	}
	copy(key[5:], k.hash[:])
	return key
}

// add adds a blob. mayBeOrphan says that it is an orphan unless an event names it.
func (s *storedBlobs) add(k heapKey, b events.BlobInfo, mayBeOrphan bool) error {
	value := make([]byte, 0, blobValueBytes)
	for _, n := range []uint64{uint64(b.Size), uint64(b.StoredAt.UnixNano()), b.Version} {
		value = binary.BigEndian.AppendUint64(value, n)
	}
	key := blobKey(k, b.Heap)
	s.blobs.Put(key[:], value)
	if mayBeOrphan && s.named.Get(k.hash[:]) == nil {
		s.named.Put(k.hash[:], []byte{0})
		s.unnamed++
	}
	return s.err()
}

// markNamed notes that an event names a hash.
func (s *storedBlobs) markNamed(hash [32]byte) {
	if v := s.named.Get(hash[:]); v != nil && v[0] == 0 {
		s.named.Put(hash[:], []byte{1})
		s.unnamed--
	}
}

// get returns a blob. It returns false if it is not stored, or after an error.
func (s *storedBlobs) get(f *heapState, k heapKey, isHeap bool) (events.BlobInfo, bool) {
	key := blobKey(k, isHeap)
	value := s.blobs.Get(key[:])
	if value == nil {
		return events.BlobInfo{}, false
	}
	return decodeBlob(f, key[:], value), true
}

func decodeBlob(f *heapState, key, value []byte) events.BlobInfo {
	return events.BlobInfo{
		Tenant: f.names[binary.BigEndian.Uint32(key)], Heap: key[4] == 1, SHA256: hex.EncodeToString(key[5:]),
		Size: int64(binary.BigEndian.Uint64(value)), StoredAt: time.Unix(0, int64(binary.BigEndian.Uint64(value[8:]))).UTC(), Version: binary.BigEndian.Uint64(value[16:]),
	}
}

// eachUnnamed calls fn with the blobs that may be orphans and that no event names, in no order. Blobs
// with the same hash that are not old enough are among them.
func (s *storedBlobs) eachUnnamed(f *heapState, fn func(events.BlobInfo) error) error {
	if s.unnamed == 0 {
		return s.err()
	}
	err := s.blobs.Each(func(key, value []byte) error {
		if v := s.named.Get(key[5:]); v == nil || v[0] != 0 {
			return s.named.Err()
		}
		return fn(decodeBlob(f, key, value))
	})
	return cmp.Or(err, s.err())
}

// dueHeaps are the heaps that a pass collects, longest unused first.
type dueHeaps struct {
	// order has the time of the last use, the hash and the tenant of each.
	order *spill.Sorted
	// unfinished are the blobs of heaps whose collection was recorded before.
	unfinished []events.BlobInfo
}

const dueBytes = 8 + 32 + 4

func newDueHeaps() *dueHeaps { return &dueHeaps{order: spill.NewSorted(dueBytes, tableMemory)} }

// close removes the temporary file.
func (d *dueHeaps) close() { d.order.Close() }

// add adds a heap. used is the time of its last use, in ms since 1970 UTC.
func (d *dueHeaps) add(k heapKey, used int64) error {
	record := make([]byte, 0, dueBytes)
	record = binary.BigEndian.AppendUint64(record, uint64(max(used, 0)))
	record = append(record, k.hash[:]...)
	return d.order.Add(binary.BigEndian.AppendUint32(record, k.tenant))
}

func (d *dueHeaps) sort() error { return d.order.Sort() }

// each calls fn with up to batch heaps at a time.
func (d *dueHeaps) each(f *heapState, stored *storedBlobs, batch int, fn func([]candidate) error) error {
	for from := int64(0); from < d.order.Len(); from += int64(batch) {
		var list []candidate
		for i := from; i < min(from+int64(batch), d.order.Len()); i++ {
			record, err := d.order.At(i)
			if err != nil {
				return err
			}
			k := heapKey{tenant: binary.BigEndian.Uint32(record[40:]), hash: [32]byte(record[8:40])}
			b, ok := stored.get(f, k, true)
			if !ok {
				return stored.err()
			}
			h := f.heaps[k]
			list = append(list, candidate{blob: b, producedAt: h.producedAt, used: h.used, Collected: Collected{
				Tenant: b.Tenant, Heap: b.SHA256, Size: h.size, LastUse: events.FormatTime(time.UnixMilli(h.used)),
			}})
		}
		slices.SortFunc(list, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.Heap, b.Heap), cmp.Compare(a.Tenant, b.Tenant))
		})
		if err := fn(list); err != nil {
			return err
		}
	}
	return nil
}
