package streamfiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"daybook/internal/spans"
)

// Names of the server's files.
const (
	accountDir  = "jetstream/$G/streams"
	blocksDir   = "msgs"
	indexFile   = "index.db"
	metaFile    = "meta.inf"
	metaSum     = "meta.sum"
	blockSuffix = ".blk"
)

// Corruption is a place in a file that cannot be what was written.
type Corruption struct {
	// File is relative to the directory that was checked; Offset is in bytes.
	File   string
	Offset int64
	What   string
	// Torn says that nothing follows: a crash while a message was written leaves
	// the same.
	Torn bool
}

// String names the place and what is wrong.
func (f Corruption) String() string {
	return fmt.Sprintf("%s at byte %d of %s", f.What, f.Offset, f.File)
}

// Stream is what the files of a stream hold.
type Stream struct {
	Name string
	// HasConfig says that its description is there and has its checksum; Begins is
	// the first position that it gives out.
	HasConfig bool
	FirstSeq  uint64
	// First and Last are the lowest and highest positions found, 0 without any;
	// Gaps the ones between that were not.
	First, Last uint64
	// Highest is the highest position that the files tell of, also of a message
	// that was removed.
	Highest uint64
	Gaps    []spans.Span
	Faults  []Corruption
	// Opening is the oldest message, in memory of its own, also where the oldest blocks
	// are not read otherwise.
	Opening Record
	// Blocks counts the files of messages, Skipped those that were not read, which
	// are the oldest; Bytes is what was read.
	Blocks, Skipped int
	Bytes           int64
}

// Options bound a Check. The zero value reads everything.
type Options struct {
	// Newest is how many bytes of each stream are read, the newest; 0 is all.
	Newest int64
	// Names, if set, are the only streams that are read.
	Names func(stream string) bool
	// SkipNewest leaves out the block that a server may be writing to.
	SkipNewest bool
	// IsValid, if set, says whether a record that can be read is what was written.
	IsValid func(stream string, r Record) bool
	// Found, if set, is shown every record that is taken for sound; its bytes are only
	// lent.
	Found func(stream string, r Record)
	// Pace, if set, is called before a file is read, with its size in bytes.
	Pace func(ctx context.Context, bytes int64) error
}

// Check reads the streams below the directory of a server that does not run. No
// directory is no stream. The error says that a file could not be read; what is
// wrong with those that could is in the streams.
func Check(ctx context.Context, dir string, opts Options) ([]Stream, error) {
	list, err := os.ReadDir(filepath.Join(dir, accountDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("check the streams: %w", err)
	}
	var streams []Stream
	for _, e := range list {
		if !isStream(e) || opts.Names != nil && !opts.Names(e.Name()) {
			continue
		}
		s, err := checkStream(ctx, dir, e.Name(), opts)
		if err != nil {
			return nil, fmt.Errorf("check stream %s: %w", e.Name(), err)
		}
		streams = append(streams, s)
	}
	return streams, nil
}

// Names lists the streams below the directory of a server. No directory is no stream.
func Names(dir string) ([]string, error) {
	list, err := os.ReadDir(filepath.Join(dir, accountDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the streams: %w", err)
	}
	var names []string
	for _, e := range list {
		if isStream(e) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// isStream reports whether an entry is the directory of a stream. The server moves a
// stream that it deletes to a name with a dot in front, and removes what it finds
// there when it starts.
func isStream(e fs.DirEntry) bool { return e.IsDir() && !strings.HasPrefix(e.Name(), ".") }

func checkStream(ctx context.Context, dir, name string, opts Options) (Stream, error) {
	s := Stream{Name: name, FirstSeq: 1}
	at := filepath.Join(accountDir, name)
	var err error
	if s.HasConfig, s.FirstSeq, err = describe(filepath.Join(dir, at), name); err != nil {
		return s, err
	}
	if !s.HasConfig {
		s.Faults = append(s.Faults, Corruption{File: filepath.Join(at, metaFile), What: "the description of the stream does not have its checksum"})
	}
	blocks, err := blocksOf(filepath.Join(dir, at, blocksDir))
	if err != nil {
		return s, err
	}
	if opts.SkipNewest && len(blocks) > 0 {
		blocks = blocks[:len(blocks)-1]
	}
	s.Blocks = len(blocks)
	for left := size(blocks); opts.Newest > 0 && left > opts.Newest && s.Skipped < len(blocks)-1; s.Skipped++ {
		left -= blocks[s.Skipped].size
	}
	if s.Skipped > 0 {
		if err := s.readOpening(filepath.Join(dir, at, blocksDir, blocks[0].name), blocks[0].number); err != nil {
			return s, err
		}
	}
	var buf []byte // of one block after the other: they have 8 MiB each
	for i, b := range blocks[s.Skipped:] {
		if opts.Pace != nil {
			if err := opts.Pace(ctx, b.size); err != nil {
				return s, err
			}
		}
		if err := ctx.Err(); err != nil {
			return s, err
		}
		file := filepath.Join(at, blocksDir, b.name)
		raw, err := readInto(buf, filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a server at work has taken it away
		}
		if err != nil {
			return s, err
		}
		buf = raw
		if err := s.readBlock(file, raw, b, !opts.SkipNewest && s.Skipped+i == len(blocks)-1, opts); err != nil {
			return s, err
		}
	}
	return s, nil
}

// readInto returns the content of a file, in buf if that is large enough.
func readInto(buf []byte, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(slices.Grow(buf[:0], int(info.Size())+bytes.MinRead))
	_, err = b.ReadFrom(f)
	return b.Bytes(), err
}

// readBlock adds what a block holds, whose content is raw.
func (s *Stream) readBlock(file string, raw []byte, b block, newest bool, opts Options) error {
	s.Bytes += int64(len(raw))
	if bytes.HasPrefix(raw, packedMagic) {
		s.Faults = append(s.Faults, Corruption{File: file, What: "the block is compressed, which no ledger's is"})
		return nil
	}
	sum, err := newSums(s.Name, b.number)
	if err != nil {
		return err
	}
	at := 0 // where the next record begins
	found := func(r Record) {
		begins := at
		at += len(r.raw)
		if opts.IsValid != nil && !r.gone && r.Seq != 0 && !opts.IsValid(s.Name, r) {
			s.Faults = append(s.Faults, Corruption{File: file, Offset: int64(begins), What: fmt.Sprintf("position %d is not what was recorded", r.Seq)})
			s.Highest = max(s.Highest, r.Seq) // the position was given out
			return
		}
		s.found(r)
		if opts.Found != nil && !r.gone {
			opts.Found(s.Name, r)
		}
	}
	sum.scan(raw, s.Last, found, func(from, to int, what string) {
		at = to
		s.Faults = append(s.Faults, Corruption{File: file, Offset: int64(from), What: what, Torn: newest && to == len(raw)})
	})
	return nil
}

func (s *Stream) found(r Record) {
	s.Highest = max(s.Highest, r.Seq)
	switch {
	case r.gone || r.Seq == 0:
	case s.First == 0:
		s.First, s.Last = r.Seq, r.Seq
		if s.Skipped == 0 {
			s.Opening = r.clone()
		}
	case r.Seq > s.Last:
		if r.Seq > s.Last+1 {
			s.Gaps = append(s.Gaps, spans.Span{From: s.Last + 1, To: r.Seq - 1})
		}
		s.Last = r.Seq
	}
}

// readOpening reads the first message of the oldest block.
func (s *Stream) readOpening(path string, number int) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxOpening))
	if err != nil {
		return err
	}
	sum, err := newSums(s.Name, number)
	if err != nil {
		return err
	}
	if r, wrong := sum.record(raw); wrong == "" && !r.gone {
		s.Opening = r.clone()
	}
	return nil
}

// maxOpening bounds what is read for the first message of a block.
const maxOpening = 1 << 20

func (r Record) clone() Record {
	return Record{Seq: r.Seq, Subject: bytes.Clone(r.Subject), Header: bytes.Clone(r.Header), Body: bytes.Clone(r.Body)}
}

// block is a file of messages.
type block struct {
	name   string
	number int
	size   int64
}

// blocksOf lists the blocks of a stream, oldest first.
func blocksOf(dir string) ([]block, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var blocks []block
	for _, e := range list {
		name, ok := strings.CutSuffix(e.Name(), blockSuffix)
		n, err := strconv.Atoi(name)
		if !ok || err != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, block{e.Name(), n, info.Size()})
	}
	slices.SortFunc(blocks, func(a, b block) int { return a.number - b.number })
	return blocks, nil
}

func size(blocks []block) (n int64) {
	for _, b := range blocks {
		n += b.size
	}
	return n
}
