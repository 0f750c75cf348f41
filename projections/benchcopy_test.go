package projections_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"daybook/projections"
)

// BenchmarkRebuildFromCopy prints, for ledgers of small runs, the time of a rebuild from the first
// event and of one that begins with a copy of the first three quarters, the sizes of file and copy
// for each execution, the time of writing the copy, and the longest time that a batch of 4 events
// took to be applied meanwhile and otherwise.
func BenchmarkRebuildFromCopy(b *testing.B) {
	for _, executions := range []int{20_000, 80_000} {
		feed := smallRuns(4 * executions)
		last, copied := uint64(len(feed.all())), len(feed.all())*3/4
		dir, c := b.TempDir(), new(copies)
		opts := projections.Options{Path: filepath.Join(dir, "live.db"), CopyDir: filepath.Join(dir, "copies"), RecordedCopies: c.recorded}
		from := &memoryLedger{list: feed.all()[:copied], more: make(chan struct{})}
		if _, err := projections.Rebuild(b.Context(), projections.Options{Path: opts.Path}, from, uint64(copied)); err != nil {
			b.Fatal(err)
		}
		s, err := projections.Open(b.Context(), opts)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.WriteCopy(b.Context(), 1, c.record); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		live := opts
		live.CopyDir = filepath.Join(dir, "live")
		b.Run(fmt.Sprintf("write/%d", executions), func(b *testing.B) { benchWriteCopy(b, live, new(copies), feed, copied) })
		rebuilt := opts
		rebuilt.Path = filepath.Join(dir, "rebuilt.db")
		for _, from := range []string{"copy", "start"} {
			how := rebuilt
			if from == "start" {
				how.CopyDir = ""
			}
			b.Run(fmt.Sprintf("%s/%d", from, executions), func(b *testing.B) {
				perEvent(b, last, func() error {
					at, err := projections.Rebuild(b.Context(), how, feed, last)
					if (at > 0) != (from == "copy") {
						b.Fatalf("the rebuild began at %d", at)
					}
					return err
				})
			})
		}
	}
}

func benchWriteCopy(b *testing.B, opts projections.Options, c *copies, feed *memoryLedger, copied int) {
	b.Helper()
	s := open(b, opts)
	var alone, meanwhile time.Duration
	applyNext := func(longest *time.Duration) {
		next := int(s.Applied())
		if next+4 > len(feed.all()) {
			return
		}
		began := time.Now()
		if err := s.Apply(b.Context(), feed.all()[next:next+4]); err != nil {
			b.Fatal(err)
		}
		*longest = max(*longest, time.Since(began))
	}
	for range 200 {
		applyNext(&alone)
	}
	for b.Loop() {
		done := make(chan error, 1)
		go func() {
			_, err := s.WriteCopy(b.Context(), 1, c.record)
			done <- err
		}()
		for isDone := false; !isDone; {
			select {
			case err := <-done:
				if isDone = true; err != nil {
					b.Fatal(err)
				}
			default:
				applyNext(&meanwhile)
			}
		}
	}
	list, err := filepath.Glob(filepath.Join(opts.CopyDir, "*"))
	if err != nil || len(list) != 1 {
		b.Fatal(list, err)
	}
	for path, unit := range map[string]string{opts.Path: "file-B/execution", list[0]: "copy-B/execution", opts.Path + "-wal": "log-B/execution"} {
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/float64(copied/4), unit)
	}
	b.ReportMetric(float64(alone.Microseconds())/1000, "apply-ms")
	b.ReportMetric(float64(meanwhile.Microseconds())/1000, "apply-beside-ms")
}
