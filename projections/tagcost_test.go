package projections_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/projections"
)

// An edit of 60 tags writes less than ten times as much as an edit of two, and less
// than ten times the size of the tags.
func TestTagEditsCost(t *testing.T) {
	t.Parallel()
	const edits = 40
	const keyBytes, valueBytes = 192, 240
	written := func(count int) int64 {
		path := filepath.Join(t.TempDir(), "projections.db")
		s := open(t, projections.Options{Path: path})
		size := func() int64 {
			info, err := os.Stat(path + "-wal")
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		before, start := size(), time.Now()
		for n := range edits {
			tags := map[string]string{}
			for i := range count {
				tags[strings.Repeat(events.Hash(fmt.Append(nil, n, i)), keyBytes/64)] = strings.Repeat("v", valueBytes)
			}
			b := events.Event{Seq: uint64(n + 1), Type: events.TypeHeapTagged, Tenant: tenant, Time: began, Data: tagged(events.Hash(fmt.Append(nil, n)), tags, events.EditSet, 0)}
			if err := s.Apply(t.Context(), []events.Event{b}); err != nil {
				t.Fatal(err)
			}
		}
		defer func() { // frees space on request
			if err := s.TruncateLog(t.Context()); err != nil || size() != 0 {
				t.Errorf("after EmptyLog the log has %d bytes: %v", size(), err)
			}
		}()
		t.Logf("%d edits of %d tags: %d KiB, %v", edits, count, (size()-before)>>10, time.Since(start))
		return size() - before
	}
	few, many := written(2), written(60)
	if many >= 10*few {
		t.Errorf("edits of 60 tags write %d bytes, more than ten times the %d of edits of two", many, few)
	}
	if size := int64(edits * 60 * (keyBytes + valueBytes)); many >= 10*size {
		t.Errorf("edits with %d bytes of tags write %d", size, many)
	}
}
