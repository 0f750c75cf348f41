package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"daybook/events"
	"daybook/internal/spill"
)

// Parts stores the parts of an archive.
type Parts interface {
	// Put stores a part that does not exist.
	Put(ctx context.Context, name string, part []byte) error
	// Get returns a part, or events.ErrNotFound. The caller may keep it and must not change it.
	Get(ctx context.Context, name string) ([]byte, error)
}

// indexMemory is how many bytes of the index a Writer holds before it uses a temporary file.
const indexMemory = 8 << 20

// Writer writes an archive. It holds a frame and a part of the index at a time. The caller MUST
// call Close. A Writer is not safe for concurrent use.
type Writer struct {
	parts   Parts
	m       Manifest
	encoder *zstd.Encoder
	raw     []byte // content of the next frame; empty without an event
	frame   extent
	keys    map[key]bool // of the next frame
	index   *spill.Sorted
}

// NewWriter returns a Writer of the volume that info describes. It sets the other fields of info.
func NewWriter(parts Parts, info Info) *Writer {
	info.Bytes, info.OpensLoss, info.RemovalAt, info.RemovedVolume, info.RemovedLast = 0, false, 0, 0, 0
	return &Writer{parts: parts, m: Manifest{Info: info}, encoder: newEncoder(), keys: map[key]bool{}, index: spill.NewSorted(keyBytes+4, indexMemory)}
}

// Close removes the temporary file of the Writer.
func (w *Writer) Close() { w.index.Close() }

// Add adds an event, which MUST be of the volume and after the one added before.
func (w *Writer) Add(ctx context.Context, m events.Stored) error {
	before := w.frame.last
	if len(w.raw) == 0 {
		before = m.Seq - 1
		w.raw = binary.AppendUvarint(append(w.raw, frameVersion), before)
		w.frame.first = m.Seq
	}
	w.raw = appendEvent(w.raw, before, m)
	w.frame.last = m.Seq
	if err := w.note(ctx, m); err != nil {
		return err
	}
	if len(w.raw) < frameBytes {
		return nil
	}
	return w.flush(ctx)
}

// note adds what the index and the manifest say of an event.
func (w *Writer) note(ctx context.Context, m events.Stored) error {
	for _, k := range keysOf(m.Subject) {
		w.keys[k] = true
	}
	switch rest, _ := events.WithoutVolume(m.Subject); rest {
	case events.VolumeSubject(events.LedgerTenant), events.RemovalSubject(events.LedgerTenant):
	default:
		return nil
	}
	e, err := events.Decode(m.Seq, m.Message())
	if err != nil {
		return fmt.Errorf("archive volume %d: %w", w.m.Volume, err)
	}
	switch d := e.Data.(type) {
	case *events.LedgerVolumeOpened:
		if d.Reason == events.VolumeDamaged {
			w.m.OpensLoss = true
			raw := binary.AppendUvarint([]byte{frameVersion}, m.Seq-1)
			return w.put(ctx, Opening, w.encoder.EncodeAll(appendEvent(raw, m.Seq-1, m), nil))
		}
	case *events.LedgerVolumeRemoved:
		w.m.RemovalAt, w.m.RemovedVolume, w.m.RemovedLast = m.Seq, d.Volume, d.Last
	}
	return nil
}

func (w *Writer) put(ctx context.Context, name string, part []byte) error {
	if err := w.parts.Put(ctx, name, part); err != nil {
		return fmt.Errorf("store part %s of the archive of volume %d: %w", name, w.m.Volume, err)
	}
	w.m.Bytes += uint64(len(part))
	return nil
}

// flush stores the next frame.
func (w *Writer) flush(ctx context.Context) error {
	if len(w.raw) == 0 {
		return nil
	}
	if err := w.put(ctx, w.frame.part(), w.encoder.EncodeAll(w.raw, nil)); err != nil {
		return err
	}
	w.raw = w.raw[:0]
	return w.addFrame()
}

// addFrame adds the frame to the manifest and its keys to the index.
func (w *Writer) addFrame() error {
	var entry [keyBytes + 4]byte
	for k := range w.keys {
		binary.BigEndian.PutUint64(entry[:], uint64(k))
		binary.BigEndian.PutUint32(entry[keyBytes:], uint32(len(w.m.frames)))
		if err := w.index.Add(entry[:]); err != nil {
			return fmt.Errorf("index the archive of volume %d: %w", w.m.Volume, err)
		}
	}
	w.m.frames = append(w.m.frames, w.frame)
	clear(w.keys)
	return nil
}

// Finish stores the rest of the archive but its manifest.
func (w *Writer) Finish(ctx context.Context) (Manifest, error) {
	if err := w.flush(ctx); err != nil {
		return Manifest{}, err
	}
	if err := w.writeIndex(ctx); err != nil {
		return Manifest{}, err
	}
	if n := len(w.m.encode()); n > maxManifestBytes {
		return Manifest{}, fmt.Errorf("archive volume %d: its manifest of %d bytes is too large: %w", w.m.Volume, n, events.ErrTooLarge)
	}
	return w.m, nil
}

// Commit stores the manifest that Finish returned, which completes the archive.
func Commit(ctx context.Context, parts Parts, m Manifest) error {
	if err := parts.Put(ctx, ManifestPart, m.encode()); err != nil {
		return fmt.Errorf("store the manifest of the archive of volume %d: %w", m.Volume, err)
	}
	return nil
}

func (w *Writer) writeIndex(ctx context.Context) error {
	if err := w.index.Sort(); err != nil {
		return fmt.Errorf("index the archive of volume %d: %w", w.m.Volume, err)
	}
	count := int64(0)
	if err := w.entries(func(key, []uint32) error { count++; return nil }); err != nil {
		return err
	}
	known := newFilter(count)
	var page []byte
	store := func() error {
		part := pagePart(len(w.m.pages) - 1)
		defer func() { page = page[:0] }()
		return w.put(ctx, part, appendChecksum(page, fullName(w.m.Volume, part)))
	}
	err := w.entries(func(k key, frames []uint32) error {
		known.add(k)
		if len(page) == 0 {
			w.m.pages = append(w.m.pages, k)
		}
		if page = appendEntry(page, k, frames); len(page) < pageBytes {
			return nil
		}
		return store()
	})
	if err == nil && len(page) > 0 {
		err = store()
	}
	if err != nil {
		return err
	}
	w.m.filterBytes = len(known)
	for i := range w.m.filterParts() {
		name, content := filterPart(i), known[i*filterPartBytes:min((i+1)*filterPartBytes, len(known))]
		if err := w.put(ctx, name, appendChecksum(slices.Clone(content), fullName(w.m.Volume, name))); err != nil {
			return err
		}
	}
	return nil
}

// entries calls fn with each key of the sorted index and its frames.
func (w *Writer) entries(fn func(k key, frames []uint32) error) error {
	var current []byte
	var frames []uint32
	give := func() error {
		if len(frames) == 0 {
			return nil
		}
		return fn(key(binary.BigEndian.Uint64(current)), frames)
	}
	for i := range w.index.Len() {
		entry, err := w.index.At(i)
		if err != nil {
			return fmt.Errorf("index the archive of volume %d: %w", w.m.Volume, err)
		}
		if !bytes.Equal(entry[:keyBytes], current) {
			if err := give(); err != nil {
				return err
			}
			current, frames = append(current[:0], entry[:keyBytes]...), frames[:0]
		}
		frames = append(frames, binary.BigEndian.Uint32(entry[keyBytes:]))
	}
	return give()
}

// AddFrame adds an existing frame, to write the index again. The part Opening MUST NOT exist.
func (w *Writer) AddFrame(ctx context.Context, packed []byte) error {
	f, err := decodeFrame(packed)
	if err != nil {
		return fmt.Errorf("index the archive of volume %d: %w", w.m.Volume, err)
	}
	w.frame = extent{f.list[0].seq, f.list[len(f.list)-1].seq}
	for _, r := range f.list {
		if err := w.note(ctx, r.stored()); err != nil {
			return err
		}
	}
	w.m.Bytes += uint64(len(packed))
	return w.addFrame()
}
