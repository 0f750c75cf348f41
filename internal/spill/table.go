package spill

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/bits"
	"os"
)

// pageBytes is the length of a page of a Table: the number of its records in two bytes, and the records.
const pageBytes = 1024

// Table is a map of keys to values of fixed length. Records are never removed. After an error, a Table
// has no further content; Err returns the error.
//
// It is a hash table of pages. The first bits of the hash of a key select its page, and a record that
// finds its page full is in the next one that is not. When 7 of 10 places are taken, the number of pages
// doubles. Because the order of the pages is that of the hashes, the records move in order.
type Table struct {
	key, record int // lengths in bytes
	memory      int // the maximum length of the pages in memory, in bytes
	seed        maphash.Seed
	pages       pages
	records     int64
	err         error
}

// NewTable returns an empty table with keys and values of the given lengths in bytes, together at most
// 256. It moves to a temporary file when its pages need more than memory bytes.
func NewTable(key, value, memory int) *Table {
	t := &Table{key: key, record: key + value, memory: memory, seed: maphash.MakeSeed()}
	t.pages = pages{n: 1, raw: make([]byte, pageBytes)}
	return t
}

// perPage returns the number of places in a page.
func (t *Table) perPage() int { return (pageBytes - 2) / t.record }

// Len returns the number of keys.
func (t *Table) Len() int64 { return t.records }

// Err returns the first error: the temporary file could not be created, written or read.
func (t *Table) Err() error { return t.err }

// Get returns the value of a key, or nil if there is none. The value is valid until the next call.
func (t *Table) Get(key []byte) []byte {
	if t.err != nil {
		return nil
	}
	record, _, err := t.find(&t.pages, key)
	if err != nil {
		t.fail(err)
	}
	if record == nil {
		return nil
	}
	return record[t.key:]
}

// Put sets the value of a key.
func (t *Table) Put(key, value []byte) {
	if t.err != nil {
		return
	}
	if t.records >= t.pages.n*int64(t.perPage())*7/10 {
		if err := t.grow(); err != nil {
			t.fail(err)
			return
		}
	}
	added, err := t.put(&t.pages, key, value)
	if err != nil {
		t.fail(err)
		return
	}
	if added {
		t.records++
	}
}

// Each calls fn for each record, in no order. fn MUST NOT call the table. The key and the value are valid
// until fn returns.
func (t *Table) Each(fn func(key, value []byte) error) error {
	if t.err != nil {
		return t.err
	}
	return t.each(&t.pages, fn)
}

// Close removes the temporary file. The table has no further content.
func (t *Table) Close() {
	t.fail(os.ErrClosed)
}

func (t *Table) fail(err error) {
	if t.err == nil {
		t.err = fmt.Errorf("use a table in a temporary file: %w", err)
	}
	t.pages.close()
}

// find returns the record of a key in the current page. If there is none, the current page is the one
// with a free place for it, and next is its index.
func (t *Table) find(p *pages, key []byte) (record []byte, next int, err error) {
	home := int64(maphash.Bytes(t.seed, key) >> (64 - p.bits()))
	for at := home; ; at = (at + 1) % p.n {
		page, err := p.read(at)
		if err != nil {
			return nil, 0, err
		}
		n := int(binary.LittleEndian.Uint16(page))
		for i := range n {
			if record := t.at(page, i); bytes.Equal(record[:t.key], key) {
				return record, i, nil
			}
		}
		if n < t.perPage() {
			return nil, n, nil
		}
	}
}

// at returns a record of a page.
func (t *Table) at(page []byte, i int) []byte {
	return page[2+i*t.record : 2+(i+1)*t.record : 2+(i+1)*t.record]
}

func (t *Table) put(p *pages, key, value []byte) (added bool, err error) {
	record, next, err := t.find(p, key)
	if err != nil {
		return false, err
	}
	p.dirty = true
	if record == nil {
		added = true
		record = t.at(p.page, next)
		copy(record, key)
		binary.LittleEndian.PutUint16(p.page, uint16(next+1))
	}
	copy(record[t.key:], value)
	return added, nil
}

func (t *Table) each(p *pages, fn func(key, value []byte) error) error {
	for at := range p.n {
		page, err := p.read(at)
		if err != nil {
			return err
		}
		for i := range int(binary.LittleEndian.Uint16(page)) {
			record := t.at(page, i)
			if err := fn(record[:t.key], record[t.key:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// grow doubles the number of pages.
func (t *Table) grow() error {
	larger := pages{n: 2 * t.pages.n}
	if larger.n*pageBytes <= int64(t.memory) {
		larger.raw = make([]byte, larger.n*pageBytes)
	} else {
		var err error
		if larger.file, err = createFile(); err == nil {
			err = larger.file.Truncate(larger.n * pageBytes)
		}
		if err != nil {
			larger.close()
			return err
		}
	}
	err := t.each(&t.pages, func(key, value []byte) error {
		_, err := t.put(&larger, key, value)
		return err
	})
	if err != nil {
		larger.close()
		return err
	}
	t.pages.close()
	t.pages = larger
	return nil
}

// pages are the pages of a table, in memory or in a file. Their number n is a power of two.
type pages struct {
	n    int64
	raw  []byte   // nil if they are in a file
	file *os.File // nil if they are in memory
	// page is the current page, and index its index. In a file, dirty means that it is not written yet.
	page   []byte
	index  int64
	dirty  bool
	buffer []byte
}

// bits returns the number of bits of the hash that select a page.
func (p *pages) bits() int { return bits.TrailingZeros64(uint64(p.n)) }

// read makes a page the current one, and returns it.
func (p *pages) read(index int64) ([]byte, error) {
	if p.page != nil && p.index == index {
		return p.page, nil
	}
	if p.file == nil {
		p.page, p.index = p.raw[index*pageBytes:(index+1)*pageBytes], index
		return p.page, nil
	}
	if p.dirty {
		if _, err := p.file.WriteAt(p.page, p.index*pageBytes); err != nil {
			return nil, err
		}
		p.dirty = false
	}
	if p.buffer == nil {
		p.buffer = make([]byte, pageBytes)
	}
	p.page = nil
	if _, err := p.file.ReadAt(p.buffer, index*pageBytes); err != nil {
		return nil, err
	}
	p.page, p.index = p.buffer, index
	return p.page, nil
}

func (p *pages) close() {
	if p.file != nil {
		p.file.Close()
	}
	*p = pages{}
}
