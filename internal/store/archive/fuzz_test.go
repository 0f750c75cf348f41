package archive

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"daybook/events"
)

// Bytes that decode as a frame are, encoded again, a frame with the same events.
func FuzzDecodeFrame(f *testing.F) {
	enc := newEncoder()
	content := func(list ...events.Stored) []byte {
		b, before := []byte{frameVersion, 4}, uint64(4)
		for _, m := range list {
			b, before = appendEvent(b, before, m), m.Seq
		}
		return b
	}
	one := events.Stored{Seq: 5, Subject: "ledger.0001.t.exec.a", Header: map[string][]string{"a": {"1", "2"}, "b": {""}}, Body: []byte("{}")}
	f.Add(content(one), true)
	f.Add(content(one, events.Stored{Seq: 9, Subject: "x"}), true)
	f.Add(enc.EncodeAll(content(one), nil), false)
	f.Add([]byte{}, false)
	f.Add([]byte{frameVersion, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, true)
	f.Fuzz(func(t *testing.T, raw []byte, pack bool) {
		if pack { // otherwise the fuzzer would rarely come past the compression
			raw = enc.EncodeAll(raw, nil)
		}
		list, err := DecodeFrame(raw)
		if err != nil {
			return
		}
		again := binary.AppendUvarint([]byte{frameVersion}, list[0].Seq-1)
		before := list[0].Seq - 1
		for _, m := range list {
			again, before = appendEvent(again, before, m), m.Seq
		}
		other, err := DecodeFrame(enc.EncodeAll(again, nil))
		if err != nil || len(other) != len(list) {
			t.Fatalf("%d events became %d, error %v", len(list), len(other), err)
		}
		for i, m := range list {
			if o := other[i]; o.Seq != m.Seq || o.Subject != m.Subject || !bytes.Equal(o.Body, m.Body) {
				t.Fatalf("%v became %v", m, o)
			}
		}
	})
}

// A manifest that is decoded has one form.
func FuzzDecodeManifest(f *testing.F) {
	m := Manifest{Info: Info{Volume: 3, First: 10, Last: 99, OpensLoss: true, RemovalAt: 12, RemovedVolume: 1, RemovedLast: 9}, frames: []extent{{10, 20}, {21, 99}}, pages: []key{1, 1 << 63}, filterBytes: 8}
	whole := m.encode()
	f.Add(whole[:len(whole)-checksumBytes])
	f.Add([]byte{manifestVersion})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := DecodeManifest(raw); err == nil && !bytes.Equal(m.encode(), raw) {
			t.Fatalf("%x is encoded as %x", raw, m.encode())
		}
		raw = appendChecksum(slices.Clone(raw), ManifestPart) // otherwise the fuzzer would rarely come past it
		m, err := DecodeManifest(raw)
		if err != nil {
			return
		}
		if again := m.encode(); !bytes.Equal(again, raw) {
			t.Fatalf("%x is encoded as %x", raw, again)
		}
		for _, e := range m.frames {
			if first, last, ok := FrameExtent(e.part()); !ok || first != e.first || last != e.last {
				t.Fatalf("%s is decoded as %d to %d, %v", e.part(), first, last, ok)
			}
		}
	})
}

// A page gives only existing frames, in order.
func FuzzFindInPage(f *testing.F) {
	page := appendEntry(appendEntry(nil, 7, []uint32{0, 3}), 9, []uint32{2})
	f.Add(page, uint64(7), uint16(4))
	f.Add(page, uint64(9), uint16(1))
	f.Fuzz(func(t *testing.T, page []byte, k uint64, frames uint16) {
		list, err := findInPage(page, key(k), int(frames))
		if err != nil {
			return
		}
		if !slices.IsSorted(list) || len(list) != len(slices.Compact(slices.Clone(list))) {
			t.Fatalf("%v is not in order", list)
		}
		for _, n := range list {
			if n < 0 || n >= int(frames) {
				t.Fatalf("frame %d of %d", n, frames)
			}
		}
	})
}
