package archive

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"daybook/events"
)

// Info describes the volume of an archive.
type Info struct {
	Volume events.Volume
	// First and Last are the positions of its first and last event.
	First, Last uint64
	// Began and Ended are the times at which its first and last event were stored.
	Began, Ended time.Time
	// Bytes is the size of the archive in bytes, without its manifest.
	Bytes uint64
	// OpensLoss reports whether its first event records lost positions. The archive then has the
	// part Opening, a frame with that event alone.
	OpensLoss bool
	// RemovalAt is the position of the last event in it that records a removal of a volume, 0 for
	// none. RemovedVolume and RemovedLast are the volume and the position in that event.
	RemovalAt     uint64
	RemovedVolume events.Volume
	RemovedLast   uint64
}

// Manifest lists the parts of an archive.
type Manifest struct {
	Info
	// frames are the frames, in order.
	frames []extent
	// pages holds the first key of each page of the index.
	pages []key
	// filterBytes is the size of the filter, without the checksums of its parts.
	filterBytes int
}

// extent is the range of positions of a frame.
type extent struct{ first, last uint64 }

// Names of parts.
const (
	ManifestPart = "manifest"
	Opening      = "opening"
)

// framePrefix is the beginning of the names of frames.
const framePrefix = "frame."

// FrameExtent returns the first and the last position of the frame with a name. It returns false
// for the name of another part.
func FrameExtent(part string) (first, last uint64, ok bool) {
	rest, ok := strings.CutPrefix(part, framePrefix)
	if !ok {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(rest, "-")
	first, err1 := strconv.ParseUint(from, 10, 64)
	last, err2 := strconv.ParseUint(to, 10, 64)
	e := extent{first, last}
	return first, last, err1 == nil && err2 == nil && 0 < first && first <= last && e.part() == part
}

// FramePart returns the name of the frame with the positions first to last.
func FramePart(first, last uint64) string { return fmt.Sprintf("%s%d-%d", framePrefix, first, last) }

func (e extent) part() string { return FramePart(e.first, e.last) }

func pagePart(i int) string   { return fmt.Sprintf("index.%d", i) }
func filterPart(i int) string { return fmt.Sprintf("filter.%d", i) }

// Parts returns the names of all parts but the manifest.
func (m Manifest) Parts() []string {
	var list []string
	if m.OpensLoss {
		list = append(list, Opening)
	}
	for _, f := range m.frames {
		list = append(list, f.part())
	}
	for i := range m.pages {
		list = append(list, pagePart(i))
	}
	for i := range m.filterParts() {
		list = append(list, filterPart(i))
	}
	return list
}

func (m Manifest) filterParts() int { return (m.filterBytes + filterPartBytes - 1) / filterPartBytes }

const (
	manifestVersion = 1
	// maxManifestBytes is the maximum size of a manifest: that of a message of a NATS server.
	maxManifestBytes = 1000 << 10
)

func (m Manifest) encode() []byte {
	b := binary.AppendUvarint(nil, manifestVersion)
	loss := uint64(0)
	if m.OpensLoss {
		loss = 1
	}
	for _, n := range []uint64{
		uint64(m.Volume), m.First, m.Last, uint64(m.Began.UnixNano()), uint64(m.Ended.UnixNano()), m.Bytes,
		loss, m.RemovalAt, uint64(m.RemovedVolume), m.RemovedLast, uint64(len(m.frames)),
	} {
		b = binary.AppendUvarint(b, n)
	}
	before := m.First - 1
	for _, f := range m.frames {
		b = binary.AppendUvarint(binary.AppendUvarint(b, f.first-before-1), f.last-f.first)
		before = f.last
	}
	b = binary.AppendUvarint(b, uint64(len(m.pages)))
	for _, k := range m.pages {
		b = binary.BigEndian.AppendUint64(b, uint64(k))
	}
	return appendChecksum(binary.AppendUvarint(b, uint64(m.filterBytes)), ManifestPart)
}

// DecodeManifest decodes a manifest, which may come from anyone.
func DecodeManifest(raw []byte) (Manifest, error) {
	bad := func(what string) (Manifest, error) {
		return Manifest{}, fmt.Errorf("the %s of a manifest: %w", what, errFormat)
	}
	content, err := withoutChecksum(raw, ManifestPart)
	if err != nil {
		return Manifest{}, fmt.Errorf("a manifest: %w", err)
	}
	in := input{content}
	if in.number() != manifestVersion {
		return bad("version")
	}
	n := make([]uint64, 11)
	for i := range n {
		n[i] = in.number()
	}
	m := Manifest{Info: Info{
		First: n[1], Last: n[2], Began: time.Unix(0, int64(n[3])).UTC(), Ended: time.Unix(0, int64(n[4])).UTC(), Bytes: n[5],
		OpensLoss: n[6] == 1, RemovalAt: n[7], RemovedLast: n[9],
	}}
	if in.bad() || n[0] == 0 || n[0] > math.MaxInt32 || n[8] >= n[0] || m.First == 0 || m.Last < m.First || m.Last > math.MaxInt64 || n[6] > 1 {
		return bad("volume")
	}
	m.Volume, m.RemovedVolume = events.Volume(n[0]), events.Volume(n[8])
	removes := m.RemovalAt > 0
	if removes && (m.RemovalAt < m.First || m.RemovalAt > m.Last || m.RemovedVolume == 0 || m.RemovedLast >= m.First) || !removes && (m.RemovedVolume > 0 || m.RemovedLast > 0) {
		return bad("removal")
	}
	if n[10] > uint64(len(in.rest)) {
		return bad("number of frames")
	}
	before := m.First - 1
	for range n[10] {
		gap, more := in.number(), in.number()
		f := extent{before + 1 + gap, 0}
		if f.last = f.first + more; in.bad() || gap > m.Last || more > m.Last || f.last > m.Last {
			return bad("frames")
		}
		m.frames, before = append(m.frames, f), f.last
	}
	pages := in.number()
	if in.bad() || pages > uint64(len(in.rest)/keyBytes) {
		return bad("number of pages")
	}
	for range pages {
		k := key(binary.BigEndian.Uint64(in.rest))
		in.rest = in.rest[keyBytes:]
		if len(m.pages) > 0 && k <= m.pages[len(m.pages)-1] {
			return bad("pages")
		}
		m.pages = append(m.pages, k)
	}
	size := in.number()
	if in.bad() || len(in.rest) > 0 || size < 8 || size > maxFilterBytes {
		return bad("filter")
	}
	m.filterBytes = int(size)
	return m, nil
}
