package audit

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/events"
	"daybook/internal/translog"
	"daybook/proof"
)

// eachRunEvent calls fn with the events of ended runs. Each run leaves a heap, and is the only entry of a
// session.
func eachRunEvent(t testing.TB, runs int, fn func(p hashedEvent) error) {
	buf := make([]byte, 0, 1<<10)
	id := func(kind string, n int) string { return fmt.Sprintf("01a20af7-%s-7000-8000-%012x", kind, n) }
	seq := uint64(0)
	for n := range runs {
		for i, data := range []events.Data{
			&events.ExecutionRequested{ExecutionID: id("0000", n), Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1 + 1"}})},
			&events.ExecutionStarted{ExecutionID: id("0000", n), Attempt: 1, FirstLine: 1, Seed: "00112233445566778899aabbccddeeff"},
			events.NewEnding(events.StatusCompleted, events.Ending{
				ExecutionID: id("0000", n), Attempt: 1, Content: events.Plain(events.EndingContent{}),
				Heap: &events.HeapRecord{SHA256: events.Hash(fmt.Append(nil, n)), Size: 1}, Output: &events.OutputTotals{SHA256: events.Hash(nil)},
			}),
			&events.SessionEntryRecorded{SessionID: id("0001", n), Session: "s", ExecutionID: id("0000", n), Status: events.StatusCompleted, TerminalSeq: seq + 3},
		} {
			e := events.New(events.DefaultTenant, time.Unix(1764000000, 0), data)
			e.ID = id(fmt.Sprintf("100%d", i), n)
			m, err := events.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			var p hashedEvent
			p, buf = prepare(buf, events.Stored{Seq: seq + uint64(i) + 1, Subject: m.Subject, Header: m.Header, Body: m.Body})
			if err := errors.Join(p.err, fn(p)); err != nil {
				t.Fatal(err)
			}
		}
		seq += 4
	}
}

// heapOfRuns verifies a ledger of ended runs, with a checkpoint beside for each 10th. It returns the largest
// heap during the verification, without the window of tiles.
func heapOfRuns(t testing.TB, runs int) (most uint64) {
	t.Helper()
	dir := t.TempDir()
	skey, vkey, err := note.GenerateKey(rand.Reader, "daybook/x")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out, tree, checkpoints := bufio.NewWriter(file), proof.NewTree(&recentTiles{tiles: map[proof.Tile][]byte{}}), 0
	eachRunEvent(t, runs, func(p hashedEvent) error {
		if err := tree.Add(p.leaf); err != nil || tree.Size()%40 != 0 {
			return err
		}
		c, err := proof.Checkpoint{Origin: "daybook/x", Size: tree.Size(), Root: tree.Root()}.Sign(signer)
		checkpoints++
		fmt.Fprintf(out, "%s\n", c.Note)
		return err
	})
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	tree = nil

	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	v := newVerifier(VerifyOptions{Keys: []string{vkey}, Dir: translog.Dir(dir)}, false)
	defer v.close()
	if err := v.openDir(); err != nil {
		t.Fatal(err)
	}
	n := 0
	eachRunEvent(t, runs, func(p hashedEvent) error {
		if n++; n%(runs*4/10) == 0 {
			tiles := uint64(len(v.recent.tiles)) * proof.TileWidth * 32
			most = max(most, heap()-min(heap(), before+tiles))
		}
		return v.take(t.Context(), &p)
	})
	v.finish()
	if err := v.failed(); err != nil {
		t.Fatal(err)
	}
	if r := v.report; r.Found > 0 || r.Ended != runs || r.Entries != runs || r.Checkpoints != checkpoints || r.Signed != uint64(runs*4) {
		t.Errorf("%d runs: %d ended, %d entries, %d of %d checkpoints, signed up to %d, findings %v", runs, r.Ended, r.Entries, r.Checkpoints, checkpoints, r.Signed, r.Findings)
	}
	blobs := 0
	if err := v.rules.blobs.each(func(b Blob, seq uint64) error {
		if n := int(seq-3) / 4; !b.Heap || b.Tenant != events.DefaultTenant || b.SHA256 != events.Hash(fmt.Append(nil, n)) {
			return fmt.Errorf("event %d names %+v", seq, b)
		}
		blobs++
		return nil
	}); err != nil || blobs != runs {
		t.Errorf("%d blobs of %d, %v", blobs, runs, err)
	}
	return most
}

// A verification needs no more memory for a longer history of what ended.
func TestMemoryOfVerification(t *testing.T) { // not in parallel: it measures the heap
	if testing.Short() {
		t.Skip("too slow under the race detector: 220,000 events are verified")
	}
	small := heapOfRuns(t, 5_000)
	large := heapOfRuns(t, 50_000)
	t.Logf("%d KiB for 20,000 events, %d KiB for 200,000", small>>10, large>>10)
	if large > 2*max(small, 1<<20) {
		t.Errorf("the verification of 20,000 events takes %d bytes, that of 200,000 takes %d", small, large)
	}
}

// BenchmarkMemoryOfVerification measures the memory of a verification, without the tiles of the tree.
func BenchmarkMemoryOfVerification(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(float64(heapOfRuns(b, 5_000)>>10), "KiB/20,000-events")
		b.ReportMetric(float64(heapOfRuns(b, 50_000)>>10), "KiB/200,000-events")
	}
}
