package archive

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// The index lists for each key the frames that have events of it, by their numbers from 0. It
// consists of pages in the order of keys. An entry of a page is the key in eight bytes, big
// endian, the number of frames, the first frame, and the distance of each further frame from the
// one before it.

const (
	// pageBytes is the size from which a page is complete, in bytes. A lookup reads one page.
	pageBytes = 32 << 10
	keyBytes  = 8
)

// appendEntry appends the entry of a key to a page.
func appendEntry(dst []byte, k key, frames []uint32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(k))
	dst = binary.AppendUvarint(dst, uint64(len(frames)))
	before := uint32(0)
	for _, f := range frames {
		dst = binary.AppendUvarint(dst, uint64(f-before))
		before = f
	}
	return dst
}

// findInPage returns the frames of a key according to a page, in order, nil for none. frames is the
// number of frames in the archive. It checks the page up to the entry.
func findInPage(page []byte, k key, frames int) ([]int, error) {
	in := input{page}
	for previous, hasPrevious := key(0), false; len(in.rest) > 0; hasPrevious = true {
		if len(in.rest) < keyBytes {
			return nil, fmt.Errorf("a page of the index ends early: %w", errFormat)
		}
		at := key(binary.BigEndian.Uint64(in.rest))
		in.rest = in.rest[keyBytes:]
		n := in.number()
		if in.bad() || n == 0 || n > uint64(frames) || hasPrevious && at <= previous {
			return nil, fmt.Errorf("an entry of the index: %w", errFormat)
		}
		var list []int
		frame := uint64(0)
		for i := range n {
			distance := in.number()
			if frame += distance; in.bad() || i > 0 && distance == 0 || distance > uint64(frames) || frame >= uint64(frames) {
				return nil, fmt.Errorf("an entry of the index: %w", errFormat)
			}
			if at == k {
				list = append(list, int(frame))
			}
		}
		if at >= k {
			return list, nil
		}
		previous = at
	}
	return nil, nil
}

// pageOf returns the number of the page that a key would be in, given the first key of each page,
// or -1 if the key is below all pages.
func pageOf(first []key, k key) int {
	i, found := slices.BinarySearchFunc(first, k, cmp.Compare[key])
	if found {
		return i
	}
	return i - 1
}

// A filter tells for most keys that are not in the archive that they are not: a Bloom filter of
// ten bits for each key, of which each key sets seven. One in about a hundred keys that are not in
// the archive passes it.
const (
	filterBitsPerKey = 10
	filterHashes     = 7
	// filterPartBytes is the maximum size of a part of the filter, in bytes, without its checksum.
	filterPartBytes = 256 << 10
	// maxFilterBytes bounds the filter: 400 million subjects.
	maxFilterBytes = 512 << 20
)

type filter []byte

// newFilter returns an empty filter for a number of keys.
func newFilter(keys int64) filter {
	return make(filter, min(max(keys*filterBitsPerKey/8+1, 8), maxFilterBytes))
}

// bits calls fn with the bits of a key until fn returns false.
func (f filter) bits(k key, fn func(at, bit uint64) bool) {
	size := uint64(len(f)) * 8
	step := uint64(k)*0x9e3779b97f4a7c15 | 1
	for i := range uint64(filterHashes) {
		at := (uint64(k) + i*step) % size
		if !fn(at/8, at%8) {
			return
		}
	}
}

func (f filter) add(k key) {
	f.bits(k, func(at, bit uint64) bool {
		f[at] |= 1 << bit
		return true
	})
}

// mayHave returns false only for a key that was not added.
func (f filter) mayHave(k key) bool {
	may := true
	f.bits(k, func(at, bit uint64) bool {
		may = f[at]&(1<<bit) != 0
		return may
	})
	return may
}
