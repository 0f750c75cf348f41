package streamfiles_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"daybook/internal/store/streamfiles"
)

// An index is removed only if it counts exactly one message more than the blocks hold,
// and the newest block is empty.
func TestDropFailedWrites(t *testing.T) {
	t.Parallel()
	original := written(t)
	newest, err := os.ReadFile(block(original, "3"))
	if err != nil {
		t.Fatal(err)
	}
	// The first record of the newest block stands for the message whose write failed.
	record := int(binary.LittleEndian.Uint32(newest) &^ (1 << 31))
	position := binary.LittleEndian.Uint64(newest[4:])
	index := func(last uint64) []byte {
		raw := []byte{22, 3}
		for _, v := range []uint64{last, 1 << 20, 1} {
			raw = binary.AppendUvarint(raw, v)
		}
		raw = binary.AppendVarint(raw, -12345)
		return append(binary.AppendUvarint(raw, last), "the rest of it"...)
	}
	for name, test := range map[string]struct {
		block, index []byte
		drops        bool
	}{
		"an empty block":                      {nil, index(position), true},
		"a part of a header":                  {newest[:20], index(position), false},
		"a part of a record":                  {newest[:record-1], index(position), false},
		"a record":                            {newest[:record], index(position), false},
		"an index of the stored messages":     {nil, index(position - 1), false},
		"an index of more messages":           {nil, index(position + 1), false},
		"no index":                            {nil, nil, false},
		"an index that is cut short":          {nil, index(position)[:4], false},
		"the server's index of all messages":  {nil, []byte("as it was"), false},
		"the server's index, all messages in": {newest, []byte("as it was"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(filepath.Dir(block(dir, "3")), "index.db")
			err := os.WriteFile(block(dir, "3"), test.block, 0o600)
			switch {
			case err != nil:
			case test.index == nil:
				err = os.Remove(at)
			case string(test.index) != "as it was":
				err = os.WriteFile(at, test.index, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			dropped, err := streamfiles.DropFailedWrites(dir)
			if err != nil || slices.Contains(dropped, ledger) != test.drops || len(dropped) > 1 {
				t.Errorf("indexes of %v are dropped, %v", dropped, err)
			}
			if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) != (test.drops || test.index == nil) {
				t.Errorf("the index: %v", err)
			}
		})
	}
	first := t.TempDir()
	at := filepath.Dir(block(first, "1"))
	if err := errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(block(first, "1"), nil, 0o600), os.WriteFile(filepath.Join(at, "index.db"), index(1), 0o600)); err != nil {
		t.Fatal(err)
	}
	if dropped, err := streamfiles.DropFailedWrites(first); err != nil || !slices.Equal(dropped, []string{ledger}) {
		t.Errorf("where the first event was not written, indexes of %v are dropped, %v", dropped, err)
	}
	if dropped, err := streamfiles.DropFailedWrites(t.TempDir()); err != nil || dropped != nil {
		t.Errorf("a new directory: %v, %v", dropped, err)
	}
}

// The last position is read where the server of go.mod writes it: without the last
// message, and with an empty block after it, the index of the server itself is the one
// that is removed.
func TestDropFailedWritesInTheIndexOfTheServer(t *testing.T) {
	t.Parallel()
	dir := written(t)
	raw, err := os.ReadFile(block(dir, "3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(block(dir, "4"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	last := 0
	for at := 0; at < len(raw); at += int(binary.LittleEndian.Uint32(raw[at:]) &^ (1 << 31)) {
		last = at
	}
	if err := os.WriteFile(block(dir, "3"), raw[:last], 0o600); err != nil {
		t.Fatal(err)
	}
	if dropped, err := streamfiles.DropFailedWrites(dir); err != nil || !slices.Equal(dropped, []string{ledger}) {
		t.Errorf("indexes of %v are dropped, %v", dropped, err)
	}
}
