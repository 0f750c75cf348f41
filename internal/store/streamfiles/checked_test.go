package streamfiles_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"daybook/internal/spans"
	"daybook/internal/store/streamfiles"
)

// editUnseen changes a file and keeps its time, as a disk does that loses a bit.
func editUnseen(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	edit(t, path, change)
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// A check with the blocks of an earlier one finds the same without reading them, and reads a block again
// if its size or time is another.
func TestCheckedBlocksAreNotReadAgain(t *testing.T) {
	t.Parallel()
	dir := written(t)
	full := check(t, dir, streamfiles.Options{})
	recorded := streamfiles.Checked{}
	for name, s := range full {
		if len(s.Checked) != s.Blocks {
			t.Errorf("%s has %d blocks, of which %d are recorded", name, s.Blocks, len(s.Checked))
		}
		recorded[name] = s.Checked
	}
	raw, err := json.Marshal(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var read streamfiles.Checked
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatal(err)
	}
	options := streamfiles.Options{Checked: read, OnRecord: func(stream string, r streamfiles.Record) {
		t.Errorf("position %d of %s is read again", r.Seq, stream)
	}}
	same := cmp.Options{cmpopts.IgnoreFields(streamfiles.Stream{}, "Bytes"), cmpopts.IgnoreUnexported(streamfiles.Record{})}
	again := check(t, dir, options)
	if diff := cmp.Diff(full, again, same); diff != "" {
		t.Errorf("with the blocks of the first check (-first +second):\n%s", diff)
	}
	for name, s := range again {
		if s.Bytes != 0 {
			t.Errorf("%d bytes of %s are read again", s.Bytes, name)
		}
	}

	flip := func(raw []byte) []byte { raw[third(raw)+1000] ^= 4; return raw }
	editUnseen(t, block(dir, "1"), flip)
	if faults := check(t, dir, options)[ledger].Faults; len(faults) != 0 {
		t.Errorf("a block with the same size and time is read: %v", faults)
	}
	options.OnRecord = nil
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(block(dir, "1"), later, later); err != nil {
		t.Fatal(err)
	}
	s := check(t, dir, options)[ledger]
	if diff := cmp.Diff([]spans.Span{{From: 3, To: 3}}, s.Gaps); len(s.Faults) == 0 || diff != "" {
		t.Errorf("after the block changed, the check finds %v and the gaps (-want +got):\n%s", s.Faults, diff)
	}
	if _, ok := s.Checked["1.blk"]; ok {
		t.Error("a block with a fault is recorded")
	}
	edit(t, block(dir, "1"), flip)
	if s := check(t, dir, options)[ledger]; len(s.Faults) != 0 || len(s.Checked) != s.Blocks {
		t.Errorf("after the repair %d of %d blocks are recorded, with faults %v", len(s.Checked), s.Blocks, s.Faults)
	}
}

func TestMissingCheckedBlocksAreGaps(t *testing.T) {
	t.Parallel()
	dir := written(t)
	full := check(t, dir, streamfiles.Options{})[ledger]
	middle := full.Checked["2.blk"]
	if err := os.Remove(block(dir, "2")); err != nil {
		t.Fatal(err)
	}
	s := check(t, dir, streamfiles.Options{Checked: streamfiles.Checked{ledger: full.Checked}})[ledger]
	if diff := cmp.Diff([]spans.Span{{From: middle.First, To: middle.Last}}, s.Gaps); diff != "" || s.Last != full.Last {
		t.Errorf("without its second block the ledger ends at %d, with the gaps (-want +got):\n%s", s.Last, diff)
	}
}

// Only bytes that have to be read count for Options.Newest.
func TestNewestCountsUncheckedBlocks(t *testing.T) {
	t.Parallel()
	dir := written(t)
	full := check(t, dir, streamfiles.Options{})[ledger]
	delete(full.Checked, "2.blk")
	s := check(t, dir, streamfiles.Options{Newest: full.Checked["1.blk"].Size + 1<<20, Checked: streamfiles.Checked{ledger: full.Checked}})[ledger]
	if s.Skipped != 0 || s.First != full.First || s.Last != full.Last || len(s.Gaps) != 0 || len(s.Checked) != full.Blocks {
		t.Errorf("the check skips %d blocks and finds positions %d to %d with gaps %v", s.Skipped, s.First, s.Last, s.Gaps)
	}
}
