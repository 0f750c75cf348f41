package spill

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// A table has what a map has, in memory and in a file, also with keys of few values.
func TestTableIsAMap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ key, value, memory, ops, keys int }{
		{20, 9, 1 << 20, 3000, 2000}, {20, 9, 0, 20000, 15000}, {8, 16, 4096, 20000, 1 << 40}, {37, 9, 0, 3000, 50}, {200, 56, 0, 500, 400},
	} {
		r := rand.New(rand.NewPCG(1, uint64(tt.ops)))
		table, want := NewTable(tt.key, tt.value, tt.memory), map[string]string{}
		defer table.Close()
		for range tt.ops {
			key, value := make([]byte, tt.key), make([]byte, tt.value)
			binary.BigEndian.PutUint64(key, uint64(r.IntN(tt.keys)))
			binary.BigEndian.PutUint64(value, r.Uint64())
			if got := table.Get(key); string(got) != want[string(key)] {
				t.Fatalf("%v: the key %x has %x, want %x", tt, key, got, want[string(key)])
			}
			if r.IntN(3) > 0 {
				table.Put(key, value)
				want[string(key)] = string(value)
			}
		}
		got := map[string]string{}
		err := table.Each(func(key, value []byte) error {
			if _, twice := got[string(key)]; twice {
				t.Errorf("%v: the key %x is there twice", tt, key)
			}
			got[string(key)] = string(value)
			return nil
		})
		if err != nil || table.Err() != nil || !maps.Equal(got, want) || table.Len() != int64(len(want)) {
			t.Errorf("%v: %d records, %v, %v; want %d", tt, len(got), err, table.Err(), len(want))
		}
		if isInFile := table.pages.file != nil; isInFile != (table.pages.n*pageBytes > int64(tt.memory) && table.pages.n > 1) {
			t.Errorf("%v: in a file: %v, with %d pages", tt, isInFile, table.pages.n)
		}
	}
}

// A failing file ends a table with an error.
func TestTableFails(t *testing.T) {
	t.Parallel()
	table := NewTable(8, 8, 0)
	key := make([]byte, 8)
	for i := range uint64(1000) {
		binary.BigEndian.PutUint64(key, i)
		table.Put(key, key)
	}
	if table.Err() != nil || table.Len() != 1000 {
		t.Fatal(table.Len(), table.Err())
	}
	table.pages.file.Close()
	for i := range uint64(1000) {
		binary.BigEndian.PutUint64(key, i)
		table.Get(key)
	}
	if !errors.Is(table.Err(), os.ErrClosed) || table.Each(nil) == nil || table.Get(key) != nil {
		t.Errorf("after its file was closed: %v", table.Err())
	}
}

// A sorted list has the added records in order, from memory and from a file, whatever the order of adding.
func TestSorted(t *testing.T) {
	t.Parallel()
	const width = 12
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 100, 20000} {
		for name, next := range map[string]func(i int) uint64{
			"in order":       func(i int) uint64 { return uint64(i) },
			"backward":       func(i int) uint64 { return uint64(n - i) },
			"shuffled":       func(int) uint64 { return r.Uint64N(1000) },
			"equal":          func(int) uint64 { return 7 },
			"neighbors swap": func(i int) uint64 { return uint64(i ^ 1) },
		} {
			for _, memory := range []int{0, 5 * width, 1 << 20} {
				s := NewSorted(width, memory)
				want := make([][]byte, 0, n)
				for i := range n {
					record := make([]byte, width)
					binary.BigEndian.PutUint64(record, next(i))
					record[width-1] = byte(r.IntN(3))
					want = append(want, record)
					if err := s.Add(record); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Sort(); err != nil {
					t.Fatal(err)
				}
				slices.SortFunc(want, bytes.Compare)
				if s.Len() != int64(n) || len(s.runs) > 1 {
					t.Fatalf("%d records %s: %d, in %d runs", n, name, s.Len(), len(s.runs))
				}
				for step := range 2 * n { // forward, and backward
					i := min(step, 2*n-1-step)
					if got, err := s.At(int64(i)); err != nil || !bytes.Equal(got, want[i]) {
						t.Fatalf("%d records %s, %d bytes of memory: record %d is %x, %v; want %x", n, name, memory, i, got, err, want[i])
					}
				}
				s.Close()
			}
		}
	}
}
