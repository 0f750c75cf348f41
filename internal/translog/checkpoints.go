package translog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"daybook/internal/durable"
	"daybook/proof"
)

// The files of checkpoints contain every checkpoint, oldest first, each followed by an empty line. They
// are a copy, apart from the stream, of the checkpoints in the stream, and have those that are not recorded
// too. New ones are appended to "checkpoints". When that file is full, it is renamed to "checkpoints.000001",
// or the next number, and stays as it is.
//
// The order is that of writing. The sizes usually have the same order, but not always: the sizes of a
// successor origin start again, and a person can edit the files. So a reader sorts them.

// checkpointsFileBytes is the length from which on no more checkpoints are appended to a file.
const checkpointsFileBytes = 64 << 20

// storeCheckpoint writes a signed checkpoint to the file and offers it to the witnesses. An event
// with this checkpoint is recorded already or will be. The checkpoint becomes the newest one unless
// a larger one is known.
func (l *Log) storeCheckpoint(c proof.Checkpoint) error {
	l.checkpointsMu.Lock()
	err := keepCheckpoint(l.opts.Dir, c.Note, l.checkpointsFileBytes)
	l.checkpointsMu.Unlock()
	if err != nil {
		return fmt.Errorf("store the checkpoint: %w", err)
	}
	remove := durable.Remove
	if l.opts.NoSync {
		remove = func(path string) error { return ignoreMissing(os.Remove(path)) }
	}
	if err := remove(l.acceptedPath()); err != nil {
		return fmt.Errorf("end the acceptance of damage: %w", err)
	}
	if l.opts.OnCheckpointStored != nil {
		l.opts.OnCheckpointStored()
	}
	l.mu.Lock()
	if c.Size > l.latest.Size && c.Origin == l.keys.Origin { // else the origin ended meanwhile
		l.latest = c
	}
	if l.unstored != nil && l.unstored.Size == c.Size {
		l.unstored = nil
	}
	l.wake()
	l.mu.Unlock()
	if l.copies != nil {
		l.copies.offer(c.Note)
	}
	if l.witnesses != nil {
		l.witnesses.wake()
	}
	return nil
}

// keepCheckpoint appends a signed note to the file "checkpoints". If the file has a length of at least
// full, it is renamed first.
func keepCheckpoint(dir string, signed []byte, full int64) error {
	path := filepath.Join(dir, fileCheckpoints)
	if info, err := os.Stat(path); err == nil && info.Size() >= full {
		if err := rotateCheckpoints(dir); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	// A process that was killed during a write may have left an incomplete note.
	var tail [2]byte
	if end > 0 {
		if _, err := f.ReadAt(tail[:], max(0, end-2)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if string(tail[:]) != "\n\n" {
			signed = append([]byte("\n\n"), signed...)
		}
	}
	_, err = f.Write(append(bytes.Clone(signed), '\n'))
	return err
}

// rotateCheckpoints renames the file "checkpoints". The new name is on disk before another file takes the old
// one.
func rotateCheckpoints(dir string) error {
	full, err := fullCheckpointFiles(dir)
	if err != nil {
		return err
	}
	next := 1
	if n := len(full); n > 0 {
		next = full[n-1] + 1
	}
	if err := os.Rename(filepath.Join(dir, fileCheckpoints), fullCheckpointFile(dir, next)); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// fullCheckpointFile returns the path of a full file by its number.
func fullCheckpointFile(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%s.%06d", fileCheckpoints, number))
}

// fullCheckpointFiles returns the numbers of the full files, in order.
func fullCheckpointFiles(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var numbers []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), fileCheckpoints+".")
		if n, err := strconv.Atoi(digits); ok && err == nil && fullCheckpointFile(dir, n) == filepath.Join(dir, e.Name()) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// lastCheckpoint returns the last checkpoint in the files that one of the keys signed. It reads only the
// last proof.MaxNoteBytes bytes of the files. If there is no such checkpoint, the Note of the result is nil.
func lastCheckpoint(dir string, vkeys []string) (last proof.Checkpoint, err error) {
	numbers, err := fullCheckpointFiles(dir)
	if err != nil {
		return last, err
	}
	paths := []string{filepath.Join(dir, fileCheckpoints)}
	for _, n := range slices.Backward(numbers) {
		paths = append(paths, fullCheckpointFile(dir, n))
	}
	left := int64(proof.MaxNoteBytes)
	for _, path := range paths {
		n, err := readTail(path, left, func(_ int64, _ int, signed []byte) error {
			if c, err := proof.OpenCheckpoint(signed, vkeys...); err == nil {
				last = c
			}
			return nil
		})
		if err != nil {
			return proof.Checkpoint{}, err
		}
		if left -= n; last.Note != nil || left <= 0 {
			break
		}
	}
	return last, nil
}

// readTail calls fn with each note in the last bytes of a file, up to a number. It returns how many bytes
// it read.
func readTail(path string, most int64, fn func(at int64, length int, signed []byte) error) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	n := min(end, most)
	return n, eachNote(io.NewSectionReader(f, end-n, n), fn)
}

// NewestCheckpoint returns the newest checkpoint in an audit directory that a key of the directory
// signed. It reports false if there is none, or if the files cannot be read.
func NewestCheckpoint(dir string) (proof.Checkpoint, bool) {
	keys, err := readVKeys(dir)
	if err != nil {
		return proof.Checkpoint{}, false
	}
	c, err := lastCheckpoint(dir, keys)
	return c, err == nil && c.Note != nil
}
