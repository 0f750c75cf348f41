package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"daybook/events"
	"daybook/internal/spill"
)

// The rules need what ended: a request, a start or a call of a run that ended is a finding however late it
// is, and so is a session entry that states another end; a collected heap may have been left by any run
// before. So nothing can be forgotten. It is kept in tables of internal/spill, whose memory does not grow.

// tableMemory is the maximum length of a table in memory, in bytes.
const tableMemory = 256 << 10

// numbers numbers names.
type numbers struct {
	of    map[string]uint32
	names []string
}

func (n *numbers) number(name string) uint32 {
	i, ok := n.of[name]
	if !ok {
		if n.of == nil {
			n.of = map[string]uint32{}
		}
		i = uint32(len(n.names))
		n.of[name], n.names = i, append(n.names, name)
	}
	return i
}

// runKey is a tenant and an id.
type runKey [4 + 16]byte

// ended is the position of the end of an execution, and its status.
type ended struct {
	seq    uint64
	status events.Status
}

// endedRuns are the ended executions. It is a map in a spill.Table.
type endedRuns struct{ table *spill.Table }

var endStatuses = []events.Status{events.StatusCompleted, events.StatusFailed, events.StatusTimedOut, events.StatusCancelled}

func newEndedRuns() endedRuns { return endedRuns{spill.NewTable(len(runKey{}), 9, tableMemory)} }

func (e endedRuns) get(k runKey) (ended, bool) {
	v := e.table.Get(k[:])
	if v == nil {
		return ended{}, false
	}
	return ended{binary.BigEndian.Uint64(v), endStatuses[v[8]]}, true
}

func (e endedRuns) put(k runKey, end ended) {
	e.table.Put(k[:], append(binary.BigEndian.AppendUint64(nil, end.seq), byte(slices.Index(endStatuses, end.status))))
}

// entries are the index of the next entry of a session and the position of the last one.
type entries struct {
	next int64
	seen uint64
}

// sessionEntries are the entries of sessions. It is a map in a spill.Table.
type sessionEntries struct{ table *spill.Table }

func newSessionEntries() sessionEntries {
	return sessionEntries{spill.NewTable(len(runKey{}), 16, tableMemory)}
}

func (s sessionEntries) get(k runKey) entries {
	v := s.table.Get(k[:])
	if v == nil {
		return entries{}
	}
	return entries{int64(binary.BigEndian.Uint64(v)), binary.BigEndian.Uint64(v[8:])}
}

func (s sessionEntries) put(k runKey, e entries) {
	s.table.Put(k[:], binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(e.next)), e.seen))
}

// blobState is what the events say about a blob, and the position of the one that counts.
type blobState struct {
	kind blobKind
	seq  uint64
}

type blobKind byte

const (
	// blobUnnamed: no event names it, or a text was lost since.
	blobUnnamed blobKind = iota
	// blobNamed: an event names it. The position is that of the first one.
	blobNamed
	// heapCollected: an event recorded the heap as collected, and none names it since.
	heapCollected
	// heapLost: an event recorded the heap as lost, and none names it since. It may still be collected later.
	heapLost
)

// namedBlobs are the blobs that events name. It is a map in a spill.Table.
type namedBlobs struct {
	table   *spill.Table
	tenants *numbers
	// odd has the beginnings of the first mostFindings hashes that are not 32 bytes in hex, by the SHA-256 of
	// the text. No blob has such a hash.
	odd map[[sha256.Size]byte]string
}

type blobKey [4 + 1 + 32]byte

// In the fifth byte of a blobKey.
const (
	isHeap = 1 << iota
	isOdd
)

func newNamedBlobs(tenants *numbers) *namedBlobs {
	return &namedBlobs{table: spill.NewTable(len(blobKey{}), 9, tableMemory), tenants: tenants, odd: map[[sha256.Size]byte]string{}}
}

func (n *namedBlobs) key(b Blob) (k blobKey) {
	binary.BigEndian.PutUint32(k[:], n.tenants.number(b.Tenant))
	if b.Heap {
		k[4] |= isHeap
	}
	if raw, err := hex.DecodeString(b.SHA256); err == nil && len(raw) == 32 && hex.EncodeToString(raw) == b.SHA256 {
		copy(k[5:], raw)
	} else {
		k[4] |= isOdd
		sum := sha256.Sum256([]byte(b.SHA256))
		copy(k[5:], sum[:])
		if n.odd[sum] == "" && len(n.odd) < mostFindings {
			n.odd[sum] = fmt.Sprintf("%.80q", b.SHA256)
		}
	}
	return k
}

func (n *namedBlobs) get(b Blob) blobState {
	k := n.key(b)
	v := n.table.Get(k[:])
	if v == nil {
		return blobState{}
	}
	return blobState{blobKind(v[8]), binary.BigEndian.Uint64(v)}
}

func (n *namedBlobs) put(b Blob, s blobState) {
	k := n.key(b)
	n.table.Put(k[:], append(binary.BigEndian.AppendUint64(nil, s.seq), byte(s.kind)))
}

// each calls fn with each blob that is named, and the position of the first event that names it, in no
// order. fn MUST NOT use n.
func (n *namedBlobs) each(fn func(b Blob, seq uint64) error) error {
	return n.table.Each(func(k, v []byte) error {
		if blobKind(v[8]) != blobNamed {
			return nil
		}
		b := Blob{Tenant: n.tenants.names[binary.BigEndian.Uint32(k)], Heap: k[4]&isHeap != 0, SHA256: hex.EncodeToString(k[5:])}
		if k[4]&isOdd != 0 {
			b.SHA256 = cmp.Or(n.odd[[sha256.Size]byte(k[5:])], "with a malformed hash")
		}
		return fn(b, binary.BigEndian.Uint64(v))
	})
}

// failed returns why a table cannot be used, or nil.
func (r *rules) failed() error {
	return errors.Join(r.ended.table.Err(), r.sessions.table.Err(), r.blobs.table.Err())
}

// close removes the temporary files.
func (r *rules) close() {
	r.ended.table.Close()
	r.sessions.table.Close()
	r.blobs.table.Close()
}
