package spill

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
)

// mostMerged is the maximum number of runs that are merged at a time.
const mostMerged = 64

// Sorted is a list of records of fixed length, sorted by their bytes. Add all records, call Sort once, and
// then At. Records that are added in order cost no sorting.
type Sorted struct {
	width, memory int
	// records are those that are not in the file yet, or all if there is no file.
	records []byte
	file    *os.File
	written int64
	// runs are the sorted parts of the file. last is the last record of the last one.
	runs []span
	last []byte
	// block are the records from an index on, read from the file.
	block   []byte
	blockAt int64
}

// span is a part of a file, in bytes.
type span struct{ from, to int64 }

// NewSorted returns an empty list of records of a length in bytes. It moves to a temporary file when they
// are longer than memory bytes together.
func NewSorted(width, memory int) *Sorted { return &Sorted{width: width, memory: max(width, memory)} }

// Add adds a record.
func (s *Sorted) Add(record []byte) error {
	if len(s.records)+s.width > s.memory {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.records = append(s.records, record[:s.width]...)
	return nil
}

// flush writes the records in memory to the file, in order. They extend the last run if none is smaller
// than its last record.
func (s *Sorted) flush() error {
	if len(s.records) == 0 {
		return nil
	}
	s.sortRecords()
	if s.file == nil {
		var err error
		if s.file, err = createFile(); err != nil {
			return err
		}
	}
	if _, err := s.file.WriteAt(s.records, s.written); err != nil {
		return fmt.Errorf("sort in a temporary file: %w", err)
	}
	from := s.written
	s.written += int64(len(s.records))
	if n := len(s.runs); n > 0 && bytes.Compare(s.last, s.records[:s.width]) <= 0 {
		s.runs[n-1].to = s.written
	} else {
		s.runs = append(s.runs, span{from, s.written})
	}
	s.last = append(s.last[:0], s.records[len(s.records)-s.width:]...)
	s.records = s.records[:0]
	if len(s.runs) >= mostMerged*mostMerged {
		return s.merge() // bounds the list of runs
	}
	return nil
}

func (s *Sorted) sortRecords() {
	if by := (byBytes{s.records, s.width, make([]byte, s.width)}); !sort.IsSorted(by) {
		sort.Sort(by)
	}
}

// Sort sorts the records. No record can be added after it.
func (s *Sorted) Sort() error {
	if s.file == nil {
		s.sortRecords()
		s.written = int64(len(s.records))
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.records = nil
	for len(s.runs) > 1 {
		if err := s.merge(); err != nil {
			return err
		}
	}
	return nil
}

// merge merges up to mostMerged neighboring runs each into one, in a new file.
func (s *Sorted) merge() error {
	to, err := createFile()
	if err != nil {
		return err
	}
	var runs []span
	var last []byte
	out := bufio.NewWriterSize(to, 1<<16)
	at := int64(0)
	for left := s.runs; len(left) > 0 && err == nil; {
		n := min(mostMerged, len(left))
		from := at
		last, err = s.mergeRuns(out, left[:n])
		for _, run := range left[:n] {
			at += run.to - run.from
		}
		runs, left = append(runs, span{from, at}), left[n:]
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		to.Close()
		return fmt.Errorf("sort in a temporary file: %w", err)
	}
	s.file.Close()
	s.file, s.runs, s.last = to, runs, last
	return nil
}

// mergeRuns writes the records of runs in order, and returns the last one.
func (s *Sorted) mergeRuns(out io.Writer, runs []span) (last []byte, err error) {
	type source struct {
		from   *bufio.Reader
		record []byte
	}
	next := func(src *source) error {
		_, err := io.ReadFull(src.from, src.record)
		return err
	}
	var list []*source
	for _, run := range runs {
		src := &source{bufio.NewReaderSize(io.NewSectionReader(s.file, run.from, run.to-run.from), 1<<14), make([]byte, s.width)}
		if err := next(src); err != nil {
			return nil, err
		}
		list = append(list, src)
	}
	for len(list) > 0 {
		first := 0
		for i := range list {
			if bytes.Compare(list[i].record, list[first].record) < 0 {
				first = i
			}
		}
		last = append(last[:0], list[first].record...)
		if _, err := out.Write(last); err != nil {
			return nil, err
		}
		switch err := next(list[first]); {
		case errors.Is(err, io.EOF):
			list = append(list[:first], list[first+1:]...)
		case err != nil:
			return nil, err
		}
	}
	return last, nil
}

// Len returns the number of records after Sort.
func (s *Sorted) Len() int64 { return s.written / int64(s.width) }

// At returns a record by its index in the order, after Sort. It is valid until the next call.
func (s *Sorted) At(i int64) ([]byte, error) {
	if s.file == nil {
		return s.records[i*int64(s.width):][:s.width], nil
	}
	const perBlock = 512
	if start := i - i%perBlock; s.block == nil || s.blockAt != start {
		n := min(perBlock, s.Len()-start)
		block := make([]byte, n*int64(s.width))
		if _, err := s.file.ReadAt(block, start*int64(s.width)); err != nil {
			return nil, fmt.Errorf("read a sorted list in a temporary file: %w", err)
		}
		s.block, s.blockAt = block, start
	}
	return s.block[(i-s.blockAt)*int64(s.width):][:s.width], nil
}

// Close removes the temporary file. The list has no further content.
func (s *Sorted) Close() {
	if s.file != nil {
		s.file.Close()
	}
	*s = Sorted{width: s.width, memory: s.memory}
}

// byBytes sorts records of a length by their bytes.
type byBytes struct {
	raw   []byte
	width int
	swap  []byte
}

func (b byBytes) Len() int           { return len(b.raw) / b.width }
func (b byBytes) at(i int) []byte    { return b.raw[i*b.width:][:b.width] }
func (b byBytes) Less(i, j int) bool { return bytes.Compare(b.at(i), b.at(j)) < 0 }
func (b byBytes) Swap(i, j int) {
	copy(b.swap, b.at(i))
	copy(b.at(i), b.at(j))
	copy(b.at(j), b.swap)
}
