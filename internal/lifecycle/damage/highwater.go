package damage

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// A mark's file has two slots, a sector apart, which are written in turn: one
// that a power cut tears leaves the other. A slot is a position, big-endian, and
// the first 8 bytes of the SHA-256 over the text below and the position.
const (
	slotBytes = 16
	slotApart = 512
	markText  = "daybook mark v1"
)

// HighWaterMark is the highest position known to be on record, in a file apart from the
// ledger: a ledger that ends before it has lost its end. Raising it costs one
// small write, which the disk is not waited for; it survives the process, and
// Sync makes it survive the machine. It may be behind, never ahead.
//
// It is safe for concurrent use. The caller closes it.
type HighWaterMark struct {
	at   atomic.Uint64
	file *os.File

	mu   sync.Mutex
	slot int
	err  error // of the last write
}

// ErrMarkUnreadable is returned by OpenMark, with a mark that begins at 0, for a
// file that has no slot with its checksum.
var ErrMarkUnreadable = errors.New("the mark of how far the ledger had come is unreadable")

// OpenMark opens a file, made if it does not exist.
func OpenMark(path string) (*HighWaterMark, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the mark: %w", err)
	}
	raw := make([]byte, slotApart+slotBytes)
	n, err := io.ReadFull(f, raw)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.Join(fmt.Errorf("read the mark: %w", err), f.Close())
	}
	m := &HighWaterMark{file: f}
	at, readable := decodeMark(raw[:n])
	m.at.Store(at)
	if n > 0 && !readable {
		return m, fmt.Errorf("%s: %w", path, ErrMarkUnreadable)
	}
	return m, nil
}

// ReadMark returns the position that a file marks, and 0 for a file that does not exist
// or is unreadable. It writes nothing; another process may write the mark meanwhile.
func ReadMark(path string) (uint64, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("read the mark: %w", err)
	}
	at, _ := decodeMark(raw)
	return at, nil
}

// decodeMark is the highest position of the slots that have their checksum.
func decodeMark(raw []byte) (at uint64, readable bool) {
	for _, from := range []int{0, slotApart} {
		if len(raw) < from+slotBytes {
			continue
		}
		pos := binary.BigEndian.Uint64(raw[from:])
		if slot := encodeSlot(pos); string(slot[:]) == string(raw[from:from+slotBytes]) {
			at, readable = max(at, pos), true
		}
	}
	return at, readable
}

func encodeSlot(at uint64) (slot [slotBytes]byte) {
	binary.BigEndian.PutUint64(slot[:], at)
	sum := sha256.Sum256(append([]byte(markText), slot[:8]...))
	copy(slot[8:], sum[:8])
	return slot
}

// Position is the position marked.
func (m *HighWaterMark) Position() uint64 { return m.at.Load() }

// Advance marks a position unless a higher one is. A write that fails is told by
// Sync: the mark stays behind, which makes it weaker, not wrong.
func (m *HighWaterMark) Advance(seq uint64) {
	if seq <= m.at.Load() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq <= m.at.Load() {
		return
	}
	m.at.Store(seq)
	slot := encodeSlot(seq)
	_, m.err = m.file.WriteAt(slot[:], int64(m.slot*slotApart))
	m.slot = 1 - m.slot
}

// Sync waits until the mark is on disk.
func (m *HighWaterMark) Sync() error {
	m.mu.Lock()
	err := m.err
	m.mu.Unlock()
	if err = errors.Join(err, m.file.Sync()); err != nil {
		return fmt.Errorf("mark how far the ledger has come: %w", err)
	}
	return nil
}

// Close writes both slots, so that either will do, and closes the file.
func (m *HighWaterMark) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	if at := m.at.Load(); at > 0 {
		slot := encodeSlot(at)
		for _, from := range []int64{0, slotApart} {
			_, err := m.file.WriteAt(slot[:], from)
			errs = append(errs, err)
		}
		errs = append(errs, m.file.Sync())
	}
	errs = append(errs, m.file.Close())
	return errors.Join(errs...)
}
