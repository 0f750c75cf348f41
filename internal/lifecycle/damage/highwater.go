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

// The file has two slots, a sector apart, which are written in turn: if a power cut
// tears one, the other stays. A slot is a position, big-endian, followed by the first 8
// bytes of the SHA-256 over markText and the position.
const (
	slotBytes    = 16
	slotDistance = 512
	markText     = "daybook mark v1"
)

// HighWaterMark keeps the highest known position in a file apart from the ledger. A
// ledger that ends below it has lost events. The mark may be behind the ledger, never
// ahead. Advance makes one small write without a sync: it survives the end of the
// process. Sync makes it survive a power cut.
//
// A HighWaterMark is safe for concurrent use. The caller MUST close it.
type HighWaterMark struct {
	position atomic.Uint64
	file     *os.File

	mu   sync.Mutex
	slot int
	err  error // of the last write
}

// ErrMarkUnreadable is returned by OpenMark, together with a mark at position 0, if no
// slot of the file has a valid checksum.
var ErrMarkUnreadable = errors.New("the high-water mark of the ledger is unreadable")

// OpenMark opens the file at path, and creates it if it does not exist.
func OpenMark(path string) (*HighWaterMark, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the high-water mark: %w", err)
	}
	raw := make([]byte, slotDistance+slotBytes)
	n, err := io.ReadFull(f, raw)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.Join(fmt.Errorf("read the high-water mark: %w", err), f.Close())
	}
	m := &HighWaterMark{file: f}
	at, readable := decodeMark(raw[:n])
	m.position.Store(at)
	if n > 0 && !readable {
		return m, fmt.Errorf("%s: %w", path, ErrMarkUnreadable)
	}
	return m, nil
}

// ReadMark returns the position in a file, or 0 if the file does not exist or no slot has a
// valid checksum. It writes nothing. Another process may write the mark during the call.
func ReadMark(path string) (uint64, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("read the high-water mark: %w", err)
	}
	at, _ := decodeMark(raw)
	return at, nil
}

// decodeMark returns the highest position of the slots with a valid checksum. readable is
// false if there is no such slot.
func decodeMark(raw []byte) (at uint64, readable bool) {
	for _, from := range []int{0, slotDistance} {
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

// Position returns the highest position given to Advance, or read from the file.
func (m *HighWaterMark) Position() uint64 { return m.position.Load() }

// Advance raises the mark to seq unless it is higher already. If the write fails, Sync
// returns the error until a later Advance succeeds, and the mark in the file stays behind.
// That makes the mark weaker, but not wrong.
func (m *HighWaterMark) Advance(seq uint64) {
	if seq <= m.position.Load() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq <= m.position.Load() {
		return
	}
	m.position.Store(seq)
	slot := encodeSlot(seq)
	_, m.err = m.file.WriteAt(slot[:], int64(m.slot*slotDistance))
	m.slot = 1 - m.slot
}

// Sync waits until the mark is on disk.
func (m *HighWaterMark) Sync() error {
	m.mu.Lock()
	err := m.err
	m.mu.Unlock()
	if err = errors.Join(err, m.file.Sync()); err != nil {
		return fmt.Errorf("write the high-water mark: %w", err)
	}
	return nil
}

// Close writes both slots, so that either one is enough, waits until they are on disk,
// and closes the file.
func (m *HighWaterMark) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	if at := m.position.Load(); at > 0 {
		slot := encodeSlot(at)
		for _, from := range []int64{0, slotDistance} {
			_, err := m.file.WriteAt(slot[:], from)
			errs = append(errs, err)
		}
		errs = append(errs, m.file.Sync())
	}
	errs = append(errs, m.file.Close())
	return errors.Join(errs...)
}
