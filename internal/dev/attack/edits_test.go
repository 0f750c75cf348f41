package attack_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
)

// A client that sets large sets of tags on unknown heaps, as fast as it can, does not
// delay the reads of another tenant, causes no log line for each edit, and uses disk space
// of a few times the size of the tags.
func TestTagEdits(t *testing.T) {
	attack(t, "TestTagEditsCost in projections, TestUnappliedChanges in internal/web/access")
	s := startServer(t)
	loud, quiet := s.token("loud", "read,run"), s.token("quiet", "read,run")
	alone := s.baseline(quiet)
	before := s.storedBytes()

	const clients, tags, keyBytes, valueBytes = 4, 60, 200, 240
	var edits, refused atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var storm sync.WaitGroup
	for client := range clients {
		storm.Go(func() {
			c := stormer{s, loud, map[string]int{}}
			for n := 0; ctx.Err() == nil; n++ {
				heap := events.Hash(fmt.Append(nil, client, n))
				set := map[string]string{}
				for i := range tags {
					key := events.Hash(fmt.Append(nil, heap, i))
					set[strings.Repeat(key, 4)[:keyBytes]] = strings.Repeat(key, 4)[:valueBytes]
				}
				c.send("edit", http.MethodPut, "/api/heaps/"+heap+"/tags", map[string]any{"tags": set})
				edits.Add(int64(c.answers["edit 200"]))
				refused.Add(int64(c.answers["edit 429"]))
				clear(c.answers)
			}
		})
	}
	// Wait until the storm has started.
	for edits.Load() < choose[int64](100, 1000) && !t.Failed() {
		time.Sleep(10 * time.Millisecond) // polls another process
	}
	beside := s.probe(quiet, probes())
	stop()
	storm.Wait()
	s.compare("edits of tags", alone, beside)

	// An edit stores the event, its row in the history, the current tags, and the
	// index of tags.
	n := edits.Load()
	took := (s.storedBytes() - before) / n
	t.Logf("%d edits, %d refused, %d KiB on the disk for each", n, refused.Load(), took>>10)
	if size := int64(tags * (keyBytes + valueBytes)); took > 6*size {
		t.Errorf("an edit with %d bytes of tags takes %d bytes on the disk", size, took)
	}
	if lines := strings.Count(s.log.String(), "level=WARN"); lines > 5 {
		t.Errorf("the log has %d warnings:\n%.2000s", lines, s.log.String())
	}
}

// storedBytes returns the size of all files of the data directory, in bytes. The log of the
// projections does not count, because it is overwritten from its start.
func (s *server) storedBytes() (size int64) {
	s.t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, "-wal") {
			return err
		}
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return size
}
