package translog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"daybook/internal/spill"
	"daybook/proof"
)

// eachNote calls fn with each note in a file of checkpoints: its offset, its length in the file, and its
// bytes, which are valid after fn returns. A note is a text, an empty line and lines of signatures. A note
// that a crash cut short, and what is longer than a note can be, is skipped. eachNote stops if fn fails.
func eachNote(r io.Reader, fn func(at int64, length int, signed []byte) error) error {
	// The file has parts, with an empty line between two of them.
	const longest = proof.MaxNoteBytes + 2
	type part struct {
		at     int64
		length int64
		raw    []byte // the first bytes
		ended  bool   // the last byte is a newline
	}
	var text, now part
	hasText, at := false, int64(0)
	endPart := func() error {
		switch {
		case !bytes.HasPrefix(now.raw, []byte("\u2014 ")):
			text, now, hasText = now, text, true
		case hasText:
			hasText = false
			if text.length > longest || now.length > longest {
				break
			}
			start := bytes.TrimLeft(text.raw, "\n")
			signed := append(bytes.Clone(start), "\n\n"...)
			signed = append(append(signed, bytes.TrimRight(now.raw, "\n")...), '\n')
			from := text.at + text.length - int64(len(start))
			if err := fn(from, int(now.at+now.length-from), signed); err != nil {
				return err
			}
		}
		now = part{at: at, raw: now.raw[:0]}
		return nil
	}
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := lines.ReadSlice('\n') // or a part of a long line
		at += int64(len(line))
		if now.ended && len(line) == 1 && line[0] == '\n' {
			now.length-- // the newline before the empty line belongs to no part
			if int64(len(now.raw)) > now.length {
				now.raw = now.raw[:now.length]
			}
			if err := endPart(); err != nil {
				return err
			}
		} else if len(line) > 0 {
			now.length += int64(len(line))
			now.ended = line[len(line)-1] == '\n'
			now.raw = append(now.raw, line[:min(len(line), longest+1-min(longest+1, len(now.raw)))]...)
		}
		switch {
		case errors.Is(err, io.EOF):
			return endPart()
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// keptCheckpoints are the checkpoints in the files, in the order of their sizes; those of one size are in
// the order in which they were written. In memory are a few of their places, or all if they are few: the
// others are in a temporary file. It is not safe for concurrent use.
type keptCheckpoints struct {
	files []keptFile
	// places has for each checkpoint its size, its place and its length, in 8, 8 and 4 bytes.
	places *spill.Sorted
	// last is the note that was written last, or nil.
	last []byte
	// open is the full file that was read last.
	open     *os.File
	openPath string
}

// keptFile is a file of checkpoints. A place is an offset in all files together, and from the place of
// its first byte.
type keptFile struct {
	path   string
	from   int64
	newest *os.File // the file that is not full
}

const placeBytes = 20

// placesInMemory is the maximum length of the places in memory, in bytes.
const placesInMemory = 1 << 20

// openKept finds the checkpoints in the files, unverified. The caller MUST close the result.
func openKept(dir string) (*keptCheckpoints, error) {
	k := &keptCheckpoints{places: spill.NewSorted(placeBytes, placesInMemory)}
	err := k.scan(dir)
	if err == nil {
		err = k.places.Sort()
	}
	if err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func (k *keptCheckpoints) scan(dir string) error {
	numbers, err := fullCheckpointFiles(dir)
	if err != nil {
		return err
	}
	at := int64(0)
	for _, n := range numbers {
		f, err := os.Open(fullCheckpointFile(dir, n))
		if err != nil {
			return err
		}
		length, err := k.scanFile(f, at)
		f.Close()
		if err != nil {
			return err
		}
		k.files = append(k.files, keptFile{path: f.Name(), from: at})
		at += length
	}
	f, err := os.Open(filepath.Join(dir, fileCheckpoints))
	if err != nil {
		return ignoreMissing(err)
	}
	k.files = append(k.files, keptFile{from: at, newest: f}) // it may be renamed
	_, err = k.scanFile(f, at)
	return err
}

// scanFile adds the places of the checkpoints in a file, and returns the length of the file.
func (k *keptCheckpoints) scanFile(f *os.File, from int64) (int64, error) {
	var place [placeBytes]byte
	length, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	return length, eachNote(io.NewSectionReader(f, 0, length), func(at int64, n int, signed []byte) error {
		c, err := proof.ParseCheckpoint(signed)
		if err != nil {
			return nil //nolint:nilerr // a damaged copy
		}
		binary.BigEndian.PutUint64(place[:], c.Size)
		binary.BigEndian.PutUint64(place[8:], uint64(from+at))
		binary.BigEndian.PutUint32(place[16:], uint32(n))
		k.last = c.Note
		return k.places.Add(place[:])
	})
}

// len returns the number of checkpoints.
func (k *keptCheckpoints) len() int64 { return k.places.Len() }

// at returns a checkpoint by its index in the order.
func (k *keptCheckpoints) at(i int64) (proof.Checkpoint, error) {
	place, err := k.places.At(i)
	if err != nil {
		return proof.Checkpoint{}, err
	}
	at, n := int64(binary.BigEndian.Uint64(place[8:])), binary.BigEndian.Uint32(place[16:])
	in := 0
	for in+1 < len(k.files) && k.files[in+1].from <= at {
		in++
	}
	file := k.files[in]
	f := file.newest
	if f == nil {
		if k.openPath != file.path {
			opened, err := os.Open(file.path)
			if err != nil {
				return proof.Checkpoint{}, err
			}
			k.closeOpen()
			k.open, k.openPath = opened, file.path
		}
		f = k.open
	}
	raw := make([]byte, n, n+1)
	if _, err := f.ReadAt(raw, at-file.from); err != nil {
		return proof.Checkpoint{}, fmt.Errorf("read a checkpoint in %s: %w", f.Name(), err)
	}
	c, err := proof.ParseCheckpoint(append(bytes.TrimRight(raw, "\n"), '\n'))
	if err != nil {
		return c, fmt.Errorf("%s was changed while it was read: %w", f.Name(), err)
	}
	return c, nil
}

func (k *keptCheckpoints) closeOpen() {
	if k.open != nil {
		k.open.Close()
	}
}

func (k *keptCheckpoints) close() {
	k.places.Close()
	k.closeOpen()
	for _, f := range k.files {
		if f.newest != nil {
			f.newest.Close()
		}
	}
}
