package jetstream_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = events.DefaultTenant

func requested(id string) events.Event {
	return events.New(tenant, time.Now(), &events.ExecutionRequested{
		ExecutionID: id, Pool: events.DefaultPool,
		Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1"}}),
	})
}

func started(id string, attempt int) events.Event {
	return events.New(tenant, time.Now(), &events.ExecutionStarted{ExecutionID: id, Attempt: attempt})
}

func newID() string { return events.NewID(time.Now()) }

func mustAppend(t testing.TB, s *jetstream.Store, e events.Event, after int64) uint64 {
	t.Helper()
	seq, err := s.Append(t.Context(), e, after)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func TestAppendExpectsThePosition(t *testing.T) {
	s := storetest.Start(t)
	id := newID()
	mustAppend(t, s, requested(id), 0)
	first := started(id, 1)
	seq := mustAppend(t, s, first, 0)

	if _, err := s.Append(t.Context(), started(id, 1), 0); !errors.Is(err, events.ErrConflict) {
		t.Errorf("a second append at the same position: %v, want a conflict", err)
	}
	again, err := s.Append(t.Context(), first, 0)
	if err != nil || again != seq {
		t.Errorf("repeating the same event: %d, %v; want %d", again, err, seq)
	}
	if got := mustAppend(t, s, started(id, 2), int64(seq)); got != seq+1 {
		t.Errorf("position %d, want %d", got, seq+1)
	}
	history, err := s.Execution(t.Context(), tenant, id)
	if err != nil || len(history) != 3 {
		t.Fatalf("history %v, %v; want requested and two started", history, err)
	}
	if history[0].Type != events.TypeExecutionRequested || history[2].Data.(*events.ExecutionStarted).Attempt != 2 {
		t.Errorf("history out of order: %v", history)
	}
	if none, err := s.Execution(t.Context(), tenant, newID()); err != nil || len(none) != 0 {
		t.Errorf("unknown execution: %v, %v", none, err)
	}
}

// One of many concurrent appends with the same expected position succeeds. The others
// get a conflict.
func TestAppendHasOneWinner(t *testing.T) {
	s := storetest.Start(t)
	for range 20 {
		id := newID()
		var won, lost atomic.Int32
		var racers sync.WaitGroup
		for range 8 {
			racers.Go(func() {
				switch _, err := s.Append(t.Context(), started(id, 1), 0); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, events.ErrConflict):
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		racers.Wait()
		if won.Load() != 1 || lost.Load() != 7 {
			t.Fatalf("%d won, %d lost", won.Load(), lost.Load())
		}
	}
}

func TestAppendRefusesLargeEvents(t *testing.T) {
	s := storetest.Start(t)
	e := events.New(tenant, time.Now(), &events.ExecutionOutput{ExecutionID: newID(), Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: strings.Repeat("x", events.MaxEventBytes)}}})})
	if _, err := s.Append(t.Context(), e, -1); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if last, _ := s.LastSeq(t.Context()); last != 0 {
		t.Errorf("something was stored: %d", last)
	}
}

func TestLedgerSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{})
	id := newID()
	mustAppend(t, s, requested(id), 0)
	hash, err := s.PutHeap(t.Context(), tenant, []byte("a heap"), "engine")
	if err != nil {
		t.Fatal(err)
	}
	server.Close()

	s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{})
	if history, err := s.Execution(t.Context(), tenant, id); err != nil || len(history) != 1 {
		t.Errorf("history after restart: %v, %v", history, err)
	}
	blob, info, err := s.Heap(t.Context(), tenant, hash)
	if err != nil || string(blob) != "a heap" || info.EngineID != "engine" || info.Size != 6 {
		t.Errorf("heap after restart: %q %+v %v", blob, info, err)
	}
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{CacheBytes: -1})
	blob := []byte(strings.Repeat("snapshot ", 100_000))
	hash, err := s.PutHeap(t.Context(), tenant, blob, "e1")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.PutHeap(t.Context(), tenant, blob, "e1"); err != nil || again != hash {
		t.Errorf("storing it again: %s, %v", again, err)
	}
	got, info, err := s.Heap(t.Context(), tenant, hash)
	if err != nil || string(got) != string(blob) || info.EngineID != "e1" {
		t.Errorf("heap: %d bytes, %+v, %v", len(got), info, err)
	}
	if _, _, err := s.Heap(t.Context(), "other", hash); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("another tenant's look at the heap: %v, want not found", err)
	}
	if _, err := s.HeapInfo(t.Context(), tenant, strings.Repeat("0", 64)); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("unknown heap: %v", err)
	}
	text, err := s.PutText(t.Context(), tenant, []byte("long text"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Text(t.Context(), tenant, text); err != nil || string(got) != "long text" {
		t.Errorf("text: %q, %v", got, err)
	}
}

// A heap with a flipped bit on disk is never returned.
func TestDamagedBlobIsNeverServed(t *testing.T) {
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{})
	// Not compressible, so that the bit flipped below is one of the heap.
	blob := make([]byte, 8000)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range blob {
		blob[i] = byte(random.Uint32())
	}
	hash, err := s.PutHeap(t.Context(), tenant, blob, "e")
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "OBJ_BLOBS", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("no message blocks found: %v", err)
	}
	raw, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	raw[4000] ^= 0x10
	if err := os.WriteFile(blocks[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{})
	if blob, _, err := s.Heap(t.Context(), tenant, hash); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("%d bytes from a damaged block, error %v; want ErrDamaged", len(blob), err)
	}
}

func TestFollowAndRead(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	const before, after = 2500, 10
	for range before {
		mustAppend(t, s, requested(newID()), 0)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	got := make(chan uint64, before+after)
	done := make(chan error, 1)
	go func() {
		done <- s.Follow(ctx, 100, func(batch []events.Event, last uint64) error {
			for _, e := range batch {
				got <- e.Seq
			}
			if last < batch[len(batch)-1].Seq {
				t.Errorf("last known position %d is before %d", last, batch[len(batch)-1].Seq)
			}
			return nil
		})
	}()
	for want := uint64(101); want <= before; want++ {
		if seq := <-got; seq != want {
			t.Fatalf("position %d, want %d", seq, want)
		}
	}
	for i := range uint64(after) { // live
		mustAppend(t, s, requested(newID()), 0)
		if seq := <-got; seq != before+i+1 {
			t.Fatalf("live position %d, want %d", seq, before+i+1)
		}
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow ended with %v", err)
	}
	list, err := s.Read(t.Context(), 2, 1000)
	if err != nil || len(list) != 1000 || list[0].Seq != 3 {
		t.Errorf("Read: %d events, %v", len(list), err)
	}
	if list, err := s.Read(t.Context(), before+after, 10); err != nil || len(list) != 0 {
		t.Errorf("Read past the end: %v, %v", list, err)
	}
}

func TestOutputOfOneExecution(t *testing.T) {
	s := storetest.Start(t)
	mine, other := newID(), newID()
	chunk := func(id string, n int64) events.Event {
		return events.New(tenant, time.Now(), &events.ExecutionOutput{ExecutionID: id, Attempt: 1, FirstLine: n})
	}
	// 600 executions share 256 subjects, so some share the subject of this one.
	for range 600 {
		mustAppend(t, s, chunk(newID(), 1), -1)
	}
	mustAppend(t, s, chunk(mine, 1), -1)
	mustAppend(t, s, chunk(other, 1), -1)
	mustAppend(t, s, chunk(mine, 2), -1)
	var lines []int64
	_, err := s.EachAbout(t.Context(), events.OutSubject(tenant, mine), mine, 0, func(e events.Event) error {
		lines = append(lines, e.Data.(*events.ExecutionOutput).FirstLine)
		return nil
	})
	if err != nil || len(lines) != 2 || lines[0] != 1 || lines[1] != 2 {
		t.Errorf("lines %v, %v", lines, err)
	}
	last := mustAppend(t, s, chunk(mine, 3), -1)
	for until, want := range map[uint64]int{last: 3, last - 1: 2, 0: 0} {
		count := 0
		if err := s.EachAboutUntil(t.Context(), events.OutSubject(tenant, mine), mine, 0, until, func(events.Event) error { count++; return nil }); err != nil || count != want {
			t.Errorf("until %d: %d chunks, want %d, %v", until, count, want, err)
		}
	}
}

func TestSessionsAndTags(t *testing.T) {
	s := storetest.Start(t)
	session := events.SessionID(tenant, "s")
	subject := events.SessionSubject(tenant, session)
	if _, err := s.Last(t.Context(), subject); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("no entries yet: %v", err)
	}
	entry := func(i int64, id string) events.Event {
		return events.New(tenant, time.Now(), &events.SessionEntryRecorded{SessionID: session, Index: i, ExecutionID: id})
	}
	a, b := newID(), newID()
	first := mustAppend(t, s, entry(0, a), 0)
	mustAppend(t, s, entry(1, b), int64(first))
	last, err := s.Last(t.Context(), subject)
	if err != nil || last.Data.(*events.SessionEntryRecorded).Index != 1 {
		t.Errorf("last entry %+v, %v", last, err)
	}
	if e, err := s.Next(t.Context(), subject, 0); err != nil || e.Seq != first {
		t.Errorf("first entry: %+v, %v", e, err)
	}
	if e, err := s.Next(t.Context(), subject, first); err != nil || e.Seq != last.Seq {
		t.Errorf("entry after the first: %+v, %v", e, err)
	}
	if _, err := s.Next(t.Context(), subject, last.Seq); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("entry after the last: %v", err)
	}
	enough, calls := errors.New("enough"), 0
	if _, err := s.Each(t.Context(), subject, 0, func(events.Event) error { calls++; return enough }); err != enough || calls != 1 {
		t.Errorf("each entry up to the first: %d calls, %v", calls, err)
	}
	if end, err := s.Each(t.Context(), subject, last.Seq, nil); err != nil || end != last.Seq {
		t.Errorf("no entry after %d; the last is at %d, %v", last.Seq, end, err)
	}

	heap, neighbour := strings.Repeat("ab", 32), "ab"+strings.Repeat("0", 62)
	mine, other := events.HeapSubject(tenant, heap), events.HeapSubject(tenant, neighbour)
	lastOf := func(want, wantNewer uint64) {
		t.Helper()
		got, newer, err := s.LastWithOther(t.Context(), mine, other)
		if err != nil || got.Seq != want || newer != wantNewer {
			t.Errorf("the last edit is at %d, and a newer one at %d, %v; want %d and %d", got.Seq, newer, err, want, wantNewer)
		}
	}
	edit := func(h string, after uint64) uint64 {
		t.Helper()
		return mustAppend(t, s, events.New(tenant, time.Now(), &events.HeapTagged{Heap: h, Edit: events.EditSet}), int64(after))
	}
	lastOf(0, 0)
	newer := edit(neighbour, 0)
	lastOf(0, newer)
	pos := edit(heap, 0)
	lastOf(pos, 0)
	newer = edit(neighbour, newer)
	lastOf(pos, newer)
	lastOf(edit(heap, pos), 0)
	for _, pattern := range []string{tenant + ".heap.*", "*.heap." + heap, tenant + ".heap"} {
		if _, _, err := s.LastWithOther(t.Context(), mine, pattern); err == nil {
			t.Errorf("the pattern %s is accepted", pattern)
		}
	}
}
