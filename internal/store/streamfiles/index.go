package streamfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// An index starts with two bytes for its format. These varints follow: the number of
// messages, their bytes, the first position, its time and the last position.
const indexStart = 2

// DropFailedWrites removes each index that counts a message whose write failed, and
// returns the names of the streams of these indexes. The server of the directory MUST NOT
// be running. At its next start it rebuilds a missing index from the messages.
//
// If a disk has no space for the first message of a block, the server stops with an
// index that counts the message. At its next start it trusts the index more than the
// blocks and assigns the position after it to the next message. The stream then has a
// gap where nothing was ever stored. Such a stream ends with an empty block, and its
// index counts one message more than the blocks hold.
func DropFailedWrites(dir string) (streams []string, err error) {
	list, err := os.ReadDir(filepath.Join(dir, accountDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the indexes of the streams: %w", err)
	}
	for _, e := range list {
		if !isStream(e) {
			continue
		}
		messages := filepath.Join(dir, accountDir, e.Name(), blocksDir)
		failed, err := countsFailedWrite(messages, e.Name())
		if err == nil && failed {
			err = removeSynced(filepath.Join(messages, indexFile))
			streams = append(streams, e.Name())
		}
		if err != nil {
			return streams, fmt.Errorf("read the index of stream %s: %w", e.Name(), err)
		}
	}
	return streams, nil
}

// countsFailedWrite reports whether the index of a stream counts a message whose write
// failed as the first one of a block.
func countsFailedWrite(messages, stream string) (bool, error) {
	blocks, err := blocksOf(messages)
	if err != nil || len(blocks) == 0 || blocks[len(blocks)-1].size > 0 {
		return false, err
	}
	counted, ok, err := lastInIndex(filepath.Join(messages, indexFile))
	if err != nil || !ok || len(blocks) == 1 {
		return ok && counted == 1, err
	}
	before := blocks[len(blocks)-2]
	raw, err := os.ReadFile(filepath.Join(messages, before.name))
	if err != nil {
		return false, err
	}
	s, err := newSums(stream, before.number)
	if err != nil {
		return false, err
	}
	var stored uint64
	s.scan(raw, 0, func(r Record) { stored = max(stored, r.Seq) }, func(int, int, string) {})
	return stored > 0 && counted == stored+1, nil
}

// lastInIndex returns the last position in an index. ok is false if the file does not
// exist or is no index.
func lastInIndex(path string) (last uint64, ok bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil || len(raw) < indexStart {
		return 0, false, err
	}
	raw = raw[indexStart:]
	for field := range 5 {
		var n int
		if field == 3 { // the time is signed
			_, n = binary.Varint(raw)
		} else {
			last, n = binary.Uvarint(raw)
		}
		if n <= 0 {
			return 0, false, nil
		}
		raw = raw[n:]
	}
	return last, true, nil
}
