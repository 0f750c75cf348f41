package translog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"daybook/proof"
)

// The file "checkpoints" contains every checkpoint, oldest first, each followed by an empty line.
// It is a copy, apart from the stream, of the checkpoints in the stream.

// storeCheckpoint writes a signed checkpoint to the file and offers it to the witness. An event
// with this checkpoint is recorded already or will be. The checkpoint becomes the newest one unless
// a larger one is known.
func (l *Log) storeCheckpoint(c proof.Checkpoint) error {
	l.checkpointsMu.Lock()
	err := keepCheckpoint(l.opts.Dir, c.Note)
	l.checkpointsMu.Unlock()
	if err != nil {
		return fmt.Errorf("store the checkpoint: %w", err)
	}
	if l.opts.OnCheckpointStored != nil {
		l.opts.OnCheckpointStored()
	}
	l.mu.Lock()
	if c.Size > l.latest.Size {
		l.latest = c
	}
	if l.unstored != nil && l.unstored.Size == c.Size {
		l.unstored = nil
	}
	l.wake()
	l.mu.Unlock()
	if l.witness != nil {
		l.witness.offer(c.Note)
	}
	return nil
}

// keepCheckpoint appends a signed note to the file.
func keepCheckpoint(dir string, signed []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, fileCheckpoints), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
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

// lastCheckpoint returns the last checkpoint in the file that one of the keys signed. It reads only
// the last proof.MaxNoteBytes bytes of the file. If there is no such checkpoint, the Note of the
// result is nil.
func lastCheckpoint(dir string, vkeys []string) (proof.Checkpoint, error) {
	f, err := os.Open(filepath.Join(dir, fileCheckpoints))
	if errors.Is(err, os.ErrNotExist) {
		return proof.Checkpoint{}, nil
	}
	if err != nil {
		return proof.Checkpoint{}, err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return proof.Checkpoint{}, err
	}
	raw, err := io.ReadAll(io.NewSectionReader(f, max(0, end-proof.MaxNoteBytes), proof.MaxNoteBytes))
	if err != nil {
		return proof.Checkpoint{}, err
	}
	var last proof.Checkpoint
	for _, signed := range splitNotes(raw) {
		if c, err := proof.OpenCheckpoint(signed, vkeys...); err == nil {
			last = c
		}
	}
	return last, nil
}

// keptCheckpoints returns all stored checkpoints, unverified. It skips a note cut short by a
// crash.
func keptCheckpoints(dir string) ([]proof.Checkpoint, error) {
	raw, err := os.ReadFile(filepath.Join(dir, fileCheckpoints))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []proof.Checkpoint
	for _, signed := range splitNotes(raw) {
		if c, err := proof.ParseCheckpoint(signed); err == nil {
			list = append(list, c)
		}
	}
	return list, nil
}

// splitNotes splits the file into notes. A note is a text, an empty line and lines of signatures.
func splitNotes(raw []byte) [][]byte {
	var notes [][]byte
	var text []byte
	for part := range bytes.SplitSeq(raw, []byte("\n\n")) {
		if !bytes.HasPrefix(part, []byte("\u2014 ")) {
			text = part
			continue
		}
		if text != nil {
			signed := append(bytes.Clone(bytes.TrimLeft(text, "\n")), "\n\n"...)
			signed = append(signed, bytes.TrimRight(part, "\n")...)
			notes = append(notes, append(signed, '\n'))
		}
		text = nil
	}
	return notes
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
