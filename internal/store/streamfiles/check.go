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

// Names of the files of the server.
const (
	accountDir  = "jetstream/$G/streams"
	blocksDir   = "msgs"
	indexFile   = "index.db"
	metaFile    = "meta.inf"
	metaSum     = "meta.sum"
	blockSuffix = ".blk"
)

// Corruption is a place in a file whose content cannot be what was written.
type Corruption struct {
	// File is relative to the checked directory. Offset is in bytes.
	File   string
	Offset int64
	What   string
	// IsTorn reports whether the place reaches to the end of the newest block. A crash
	// during the write of a message leaves the same.
	IsTorn bool
}

// String returns the place and the fault.
func (f Corruption) String() string {
	return fmt.Sprintf("%s at byte %d of %s", f.What, f.Offset, f.File)
}

// Stream is the result of Check for one stream.
type Stream struct {
	Name string
	// HasConfig reports whether the stored configuration exists and matches its checksum.
	// FirstSeq is the first position of the stream according to it.
	HasConfig bool
	FirstSeq  uint64
	// First and Last are the lowest and the highest position found, 0 for none.
	First, Last uint64
	// Highest is the highest position in the files, including deleted messages. Gaps are
	// the missing positions between First and Last.
	Highest uint64
	Gaps    []spans.Span
	Faults  []Corruption
	// Opening is the oldest message, in memory of its own. It is read even if the oldest
	// blocks are skipped.
	Opening Record
	// Blocks is the number of blocks. Skipped is the number of oldest blocks that were
	// not read. Bytes is the number of bytes read.
	Blocks, Skipped int
	Bytes           int64
	// Checked are the blocks without a fault, by name, also those that were not read because
	// Options.Checked has them.
	Checked map[string]CheckedBlock
}

// Options limit a Check. The zero value reads everything.
type Options struct {
	// Newest is how many of the newest bytes of each stream are read, without those that need not
	// be read because of Checked. 0 means all.
	Newest int64
	// Names, if set, selects the streams to read.
	Names func(stream string) bool
	// SkipNewest skips the block that a running server may write to.
	SkipNewest bool
	// IsValid, if set, reports whether a readable record is the one that was written.
	IsValid func(stream string, r Record) bool
	// Checked are blocks that are not read unless they have changed. Their records are not passed
	// to IsValid and OnRecord.
	Checked Checked
	// OnRecord, if set, is called with every intact record. It MUST NOT keep or change the
	// slices of the record.
	OnRecord func(stream string, r Record)
	// OnDeleted, if set, is called with the position of every deleted message, possibly more
	// than once. OnRecord may have been called with the message before.
	OnDeleted func(stream string, seq uint64)
	// Pace, if set, is called with the size in bytes of each block before it is read.
	Pace func(ctx context.Context, bytes int64) error
	// Settle, if set, waits until a running server has completed the change of a volume: it writes the
	// configuration of a stream and its checksum one after the other. Settle is called if the two do not
	// match, and they are then read again. A stream that was removed meanwhile is left out.
	Settle func(ctx context.Context) error
}

// Check reads the streams in the directory of a server, and returns their content and
// faults. The server MUST NOT be running, except with Options.SkipNewest and Settle. A missing
// directory holds no streams. Check returns an error only if a file cannot be read,
// Options.Pace or Options.Settle fails, or ctx is done. It changes no file.
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
		if errors.Is(err, errRemoved) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("check stream %s: %w", e.Name(), err)
		}
		streams = append(streams, s)
	}
	return streams, nil
}

// Names returns the names of the streams in the directory of a server. A missing
// directory holds no streams.
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

// isStream reports whether an entry is the directory of a stream. The server renames a
// stream that it deletes to a name that starts with a dot, and removes such directories
// at its start.
func isStream(e fs.DirEntry) bool { return e.IsDir() && !strings.HasPrefix(e.Name(), ".") }

// errRemoved is returned for a stream that a running server removed while its configuration was read.
var errRemoved = errors.New("the stream was removed")

func checkStream(ctx context.Context, dir, name string, opts Options) (Stream, error) {
	s := Stream{Name: name, FirstSeq: 1}
	at := filepath.Join(accountDir, name)
	var err error
	if s.HasConfig, s.FirstSeq, err = checkStoredConfig(filepath.Join(dir, at), name); err != nil {
		return s, err
	}
	if !s.HasConfig && opts.Settle != nil {
		if err := opts.Settle(ctx); err != nil {
			return s, err
		}
		if _, err := os.Stat(filepath.Join(dir, at)); errors.Is(err, fs.ErrNotExist) {
			return s, errRemoved
		}
		if s.HasConfig, s.FirstSeq, err = checkStoredConfig(filepath.Join(dir, at), name); err != nil {
			return s, err
		}
	}
	if !s.HasConfig {
		s.Faults = append(s.Faults, Corruption{File: filepath.Join(at, metaFile), What: "the configuration of the stream does not match its checksum"})
	}
	blocks, err := blocksOf(filepath.Join(dir, at, blocksDir))
	if err != nil {
		return s, err
	}
	if opts.SkipNewest && len(blocks) > 0 {
		blocks = blocks[:len(blocks)-1]
	}
	s.Blocks = len(blocks)
	left := int64(0) // bytes to read
	for _, b := range blocks {
		left += opts.toRead(name, b)
	}
	for ; opts.Newest > 0 && left > opts.Newest && s.Skipped < len(blocks)-1; s.Skipped++ {
		left -= opts.toRead(name, blocks[s.Skipped])
	}
	if s.Skipped > 0 {
		if err := s.readOpening(filepath.Join(dir, at, blocksDir, blocks[0].name), blocks[0].number); err != nil {
			return s, err
		}
	}
	var buf []byte // reused for all blocks, which have up to 8 MiB each
	s.Checked = make(map[string]CheckedBlock, len(blocks))
	for i, b := range blocks[s.Skipped:] {
		if c, ok := opts.Checked.find(name, b); ok {
			if s.First == 0 && s.Skipped == 0 && c.First > 0 {
				if err := s.readOpening(filepath.Join(dir, at, blocksDir, b.name), b.number); err != nil {
					return s, err
				}
			}
			s.add(c)
			s.Checked[b.name] = c
			continue
		}
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
			continue // a running server has removed it
		}
		if err != nil {
			return s, err
		}
		buf = raw
		got, err := readBlock(name, file, raw, b, s.Last, !opts.SkipNewest && s.Skipped+i == len(blocks)-1, opts)
		if err != nil {
			return s, err
		}
		s.Bytes += int64(len(raw))
		if s.First == 0 && s.Skipped == 0 && got.First > 0 {
			s.Opening = got.opening
		}
		s.add(got.CheckedBlock)
		if s.Faults = append(s.Faults, got.faults...); len(got.faults) == 0 {
			s.Checked[b.name] = got.CheckedBlock
		}
	}
	return s, nil
}

// readInto returns the content of a file. It uses buf if that is large enough.
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

// blockContent is the content of one block.
type blockContent struct {
	CheckedBlock
	faults []Corruption
	// opening is the first message, in memory of its own.
	opening Record
}

// readBlock reads a block with the content raw. after is the position before the block.
func readBlock(stream, file string, raw []byte, b block, after uint64, newest bool, opts Options) (blockContent, error) {
	c := blockContent{CheckedBlock: CheckedBlock{Size: b.size, ModTime: b.modTime}}
	if bytes.HasPrefix(raw, packedMagic) {
		c.faults = append(c.faults, Corruption{File: file, What: "the block is compressed, and blocks of a ledger never are"})
		return c, nil
	}
	sum, err := newSums(stream, b.number)
	if err != nil {
		return c, err
	}
	at := 0 // offset of the next record
	found := func(r Record) {
		begins := at
		at += len(r.raw)
		if opts.IsValid != nil && !r.isDeleted && r.Seq != 0 && !opts.IsValid(stream, r) {
			c.faults = append(c.faults, Corruption{File: file, Offset: int64(begins), What: fmt.Sprintf("position %d is not what was recorded", r.Seq)})
			c.Highest = max(c.Highest, r.Seq) // the position was assigned
			return
		}
		if !r.isDeleted && r.Seq > 0 && c.First == 0 {
			c.opening = r.clone()
		}
		c.found(r)
		switch {
		case r.isDeleted && opts.OnDeleted != nil:
			opts.OnDeleted(stream, r.Seq)
		case !r.isDeleted && opts.OnRecord != nil:
			opts.OnRecord(stream, r)
		}
	}
	sum.scan(raw, after, found, func(from, to int, what string) {
		at = to
		c.faults = append(c.faults, Corruption{File: file, Offset: int64(from), What: what, IsTorn: newest && to == len(raw)})
	})
	return c, nil
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
	// In a stream that begins after position 1, the server writes a deleted message first.
	for len(raw) > 0 {
		r, wrong := sum.record(raw)
		if wrong != "" {
			break
		}
		if !r.isDeleted && r.Seq > 0 {
			s.Opening = r.clone()
			break
		}
		raw = raw[len(r.raw):]
	}
	return nil
}

// maxOpening bounds the bytes that are read for the first message of a block.
const maxOpening = 1 << 20

func (r Record) clone() Record {
	return Record{Seq: r.Seq, Subject: bytes.Clone(r.Subject), Header: bytes.Clone(r.Header), Body: bytes.Clone(r.Body)}
}

// block is a file with messages.
type block struct {
	name    string
	number  int
	size    int64
	modTime int64 // in nanoseconds since 1970
}

// blocksOf returns the blocks of a stream, oldest first.
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
		blocks = append(blocks, block{e.Name(), n, info.Size(), info.ModTime().UnixNano()})
	}
	slices.SortFunc(blocks, func(a, b block) int { return a.number - b.number })
	return blocks, nil
}

// toRead returns how many bytes of a block a Check reads.
func (o Options) toRead(stream string, b block) int64 {
	if _, ok := o.Checked.find(stream, b); ok {
		return 0
	}
	return b.size
}
