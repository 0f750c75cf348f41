package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/spans"
	"daybook/proof"
)

// memoryLedger is a ledger in memory.
type memoryLedger struct {
	mu   sync.Mutex
	list []events.Stored // without lost positions
	last uint64
	grew chan struct{}
}

func newMemoryLedger() *memoryLedger { return &memoryLedger{grew: make(chan struct{})} }

func (m *memoryLedger) add(e events.Event) error {
	msg, err := events.Encode(e)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	m.list = append(m.list, events.Stored{Seq: m.last, Subject: msg.Subject, Header: msg.Header, Body: msg.Body})
	close(m.grew)
	m.grew = make(chan struct{})
	return nil
}

// fill appends events. They have the same content, because only their leaves matter.
func (m *memoryLedger) fill(t testing.TB, n int) {
	t.Helper()
	e := events.New(events.DefaultTenant, time.Now(), &events.ExecutionRequested{
		ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1 + 1"}}),
	})
	for range n {
		if err := m.add(e); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *memoryLedger) Append(_ context.Context, e events.Event, _ int64) (uint64, error) {
	err := m.add(e)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, err
}

func (m *memoryLedger) EachStored(_ context.Context, subject string, fn func(events.Stored, events.Event) error) error {
	m.mu.Lock()
	list := slices.Clone(m.list)
	m.mu.Unlock()
	for _, s := range list {
		if s.Subject != subject {
			continue
		}
		e, err := events.Decode(s.Seq, s.Message())
		if err == nil {
			err = fn(s, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryLedger) LastSeq(context.Context) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, nil
}

func (m *memoryLedger) ReadRaw(_ context.Context, after uint64, limit int) ([]events.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, _ := slices.BinarySearchFunc(m.list, after+1, func(s events.Stored, seq uint64) int { return int(s.Seq) - int(seq) })
	return slices.Clone(m.list[i:min(len(m.list), i+limit)]), nil
}

func (m *memoryLedger) FollowRaw(ctx context.Context, after uint64, fn func([]events.Stored, uint64) error) error {
	for {
		m.mu.Lock()
		grew, last := m.grew, m.last
		m.mu.Unlock()
		batch, err := m.ReadRaw(ctx, after, 4096)
		if err != nil {
			return err
		}
		if len(batch) > 0 {
			if err := fn(batch, last); err != nil {
				return err
			}
			after = batch[len(batch)-1].Seq
			continue
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// edited returns events with another payload than the recorded one, as a store does whose files were
// edited together with their checksums.
type edited struct {
	*memoryLedger
	seqs []uint64
}

func edit(m events.Stored) events.Stored {
	m.Body = bytes.Replace(m.Body, []byte("1 + 1"), []byte("1 + 2"), 1)
	return m
}

func (e edited) ReadRaw(ctx context.Context, after uint64, limit int) ([]events.Stored, error) {
	batch, err := e.memoryLedger.ReadRaw(ctx, after, limit)
	for i := range batch {
		if slices.Contains(e.seqs, batch[i].Seq) {
			batch[i] = edit(batch[i])
		}
	}
	return batch, err
}

// follow runs a log over a ledger until the test ends, and waits for a checkpoint of all events.
func follow(t *testing.T, ledger *memoryLedger, opts Options) *Log {
	t.Helper()
	opts.NoSync, opts.Every, opts.Logger = true, time.Hour, slog.New(slog.DiscardHandler)
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, ledger, ledger) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	sign(t, l, ledger)
	return l
}

func sign(t *testing.T, l *Log, ledger *memoryLedger) {
	t.Helper()
	last, _ := ledger.LastSeq(t.Context())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if _, err := l.CheckpointThrough(ctx, last); err != nil {
		t.Fatal(err)
	}
	for last, _ = ledger.LastSeq(ctx); ; { // the event of the checkpoint
		l.mu.Lock()
		size, changed := l.tree.Size(), l.changedCh
		l.mu.Unlock()
		if size >= last {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
	if err := l.makeDurable(); err != nil {
		t.Fatal(err)
	}
}

// finding is what a Scrub reports.
type finding struct {
	first, last uint64
	what        string
}

// scrubOnce makes one pass.
func scrubOnce(t *testing.T, l *Log, stream Reader) ([]finding, ScrubProgress) {
	t.Helper()
	var list []finding
	s := l.NewScrub(ScrubOptions{Stream: stream, EventsPerSecond: 1e9, BytesPerSecond: 1 << 40, Found: func(first, last uint64, what string) {
		list = append(list, finding{first, last, what})
	}})
	if err := s.runPass(t.Context()); err != nil {
		t.Error(err)
	}
	if p := s.Progress(); p.Findings != uint64(len(list)) || p.Rounds != 1 || p.Position != p.End {
		t.Errorf("progress %+v with %d findings", p, len(list))
	}
	return list, s.Progress()
}

// restoreFiles writes the files of the tree back when the test ends.
func restoreFiles(t *testing.T, dir string) {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(filepath.Join(dir, "tile"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for path, raw := range files {
			if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, raw) {
				continue
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, raw, 0o644)); err != nil {
				t.Error(err)
			}
		}
	})
}

// putHash writes a hash into the file of a tile, full or not, and returns the hash over the tile if
// it is full.
func putHash(t *testing.T, dir string, tile proof.Tile, i int, hash proof.Hash) proof.Hash {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(tile.Path()))
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(raw[i*len(hash):], hash[:])
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if tile.Width < proof.TileWidth {
		return proof.Hash{}
	}
	return hashOf(raw)
}

// forge edits the stored leaf of an event like the event, and the hashes over it up to a level.
func forge(t *testing.T, l *Log, ledger *memoryLedger, seq uint64, levels int) {
	t.Helper()
	batch, err := ledger.ReadRaw(t.Context(), seq-1, 1)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := proof.LeafHash(eventproof.RecordOf(edit(batch[0])))
	if err != nil {
		t.Fatal(err)
	}
	at := seq - 1
	for level := range levels {
		tile := proof.Tile{Level: level, Index: at / proof.TileWidth, Width: proof.TileWidth}
		if full := l.tree.Size() >> (proof.TileHeight * (level + 1)); tile.Index == full {
			tile.Width = int(l.tree.Size() >> (proof.TileHeight * level) % proof.TileWidth)
		}
		hash = putHash(t, l.opts.Dir, tile, int(at%proof.TileWidth), hash)
		at /= proof.TileWidth
	}
}

func flipBit(t *testing.T, dir, tile string) {
	t.Helper()
	path := filepath.Join(dir, "tile", filepath.FromSlash(tile))
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[7] ^= 1
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, dir, tile string) {
	t.Helper()
	if err := os.Truncate(filepath.Join(dir, "tile", filepath.FromSlash(tile)), 100); err != nil {
		t.Fatal(err)
	}
}

// One pass finds every edit of events and tiles, alone and in each combination, and rewrites each
// file whose hashes the events or other tiles prove.
func TestScrubComparesAllLevels(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow under the race detector: 66,000 events are hashed")
	}
	t.Parallel()
	ledger, dir := newMemoryLedger(), t.TempDir()
	ledger.fill(t, 1<<16+600) // one full tile of level 1, 258 of level 0
	// Most positions are lost, which makes a pass fast.
	lost := events.Lost{{From: 2001, To: 60_000, NamedAt: 60_001}}
	ledger.list = slices.Delete(ledger.list, 2000, 60_000)
	l := follow(t, ledger, Options{Dir: dir, Lost: func() events.Lost { return lost }})
	size := l.Size()
	partial := func(level int) string {
		i := fmt.Sprintf("%03d", size>>(8*(level+1))%1000)
		return fmt.Sprintf("%d/%s.p/%d", level, i, size>>(8*level)%256)
	}
	for _, tt := range []struct {
		name     string
		edited   []uint64
		harm     func(t *testing.T)
		found    []finding // what is a part of the text
		repaired uint64
	}{
		{"nothing", nil, nil, nil, 0},
		{"an event", []uint64{300}, nil, []finding{{300, 300, "event does not match"}}, 0},
		{"an event of the last tile", []uint64{size - 2}, nil, []finding{{size - 2, size - 2, "event does not match"}}, 0},
		{"a tile of leaves", nil, func(t *testing.T) { flipBit(t, dir, "0/001") }, nil, 1},
		{"a tile of leaves is cut", nil, func(t *testing.T) { cut(t, dir, "0/001") }, nil, 1},
		{"a tile of leaves is missing", nil, func(t *testing.T) { remove(t, dir, "0/256") }, nil, 1},
		{"a tile of level 1", nil, func(t *testing.T) { flipBit(t, dir, "1/000") }, nil, 1},
		{"a tile of level 1 is missing", nil, func(t *testing.T) { remove(t, dir, "1/000") }, nil, 1},
		{"partial tiles", nil, func(t *testing.T) {
			flipBit(t, dir, partial(0))
			cut(t, dir, partial(1))
			remove(t, dir, partial(2))
		}, nil, 3},
		{"a tile of each level", nil, func(t *testing.T) { flipBit(t, dir, "0/000"); flipBit(t, dir, "1/000"); flipBit(t, dir, partial(2)) }, nil, 3},
		{"an event and its tile", []uint64{300}, func(t *testing.T) { forge(t, l, ledger, 300, 1) }, []finding{{257, 512, "tile/0/001"}}, 0},
		{"an event after the first tile of level 1, and its tile", []uint64{1<<16 + 5}, func(t *testing.T) { forge(t, l, ledger, 1<<16+5, 1) }, []finding{{1<<16 + 1, 1<<16 + 256, "tile/0/256"}}, 0},
		{"an event and its tiles up to level 1", []uint64{300}, func(t *testing.T) { forge(t, l, ledger, 300, 2) }, []finding{{1, 1 << 16, "tile/1/000"}}, 0},
		{"an event and its tiles of all levels", []uint64{300}, func(t *testing.T) { forge(t, l, ledger, 300, 3) }, []finding{{1, 1 << 16, "tile/1/000"}}, 1},
		{"an event of the last tile, and its tile", []uint64{size - 2}, func(t *testing.T) { forge(t, l, ledger, size-2, 1) }, []finding{{size - 2, size - 2, "event does not match"}}, 1},
		{"an event, and its tile otherwise", []uint64{300}, func(t *testing.T) { flipBit(t, dir, "0/001") }, []finding{{257, 512, "tile/0/001"}, {257, 257, "event"}, {300, 300, "event"}}, 0},
		{"an event, its tile, and a tile of level 1 is missing", []uint64{300}, func(t *testing.T) { forge(t, l, ledger, 300, 1); remove(t, dir, "1/000") }, []finding{{1, 1 << 16, "tile/1/000"}}, 0},
		{"an event, and a tile of level 1", []uint64{300}, func(t *testing.T) { flipBit(t, dir, "1/000") }, []finding{{300, 300, "event"}}, 1},
		{"two events and one of their tiles", []uint64{300, 61_000}, func(t *testing.T) { forge(t, l, ledger, 300, 1) }, []finding{{257, 512, "tile/0/001"}, {61_000, 61_000, "event"}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			restoreFiles(t, dir)
			if tt.harm != nil {
				tt.harm(t)
			}
			found, p := scrubOnce(t, l, edited{ledger, tt.edited})
			if len(found) != len(tt.found) || p.TilesRepaired != tt.repaired || p.Events != size-58_000 {
				t.Fatalf("found %+v, %+v", found, p)
			}
			for i, want := range tt.found {
				if got := found[i]; got.first != want.first || got.last != want.last || !strings.Contains(got.what, want.what) {
					t.Errorf("found %+v, want %+v", got, want)
				}
			}
			if len(tt.edited) == 0 && tt.harm != nil {
				if found, p := scrubOnce(t, l, ledger); len(found) > 0 || p.TilesRepaired > 0 {
					t.Errorf("the pass after the repair found %+v, %+v", found, p)
				}
			}
		})
	}
}

func remove(t *testing.T, dir, tile string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "tile", filepath.FromSlash(tile))); err != nil {
		t.Fatal(err)
	}
}

// A tree in memory that contradicts the newest checkpoint is found, even if all tiles and events
// agree with it.
func TestScrubComparesTheCheckpoint(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 700)
	l := follow(t, ledger, Options{Dir: t.TempDir()})
	l.mu.Lock()
	genuine := l.latest
	other := genuine
	other.Root[5] ^= 1
	forged, err := other.Sign(l.keys.signer)
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	unsigned := genuine
	unsigned.Note = bytes.Replace(genuine.Note, fmt.Appendf(nil, "\n%d\n", genuine.Size), fmt.Appendf(nil, "\n%d\n", genuine.Size+1), 1)
	for name, tt := range map[string]struct {
		c    proof.Checkpoint
		what string
	}{"another tree": {forged, "tree hash"}, "another note": {unsigned, "not signed"}, "the genuine one": {genuine, ""}} {
		l.mu.Lock()
		l.latest = tt.c
		l.mu.Unlock()
		found, _ := scrubOnce(t, l, ledger)
		if tt.what == "" && len(found) == 0 {
			continue
		}
		if len(found) != 1 || found[0].first != 1 || found[0].last != genuine.Size || !strings.Contains(found[0].what, tt.what) {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

// Tiles of level 2 are compared with level 3: an edit of tiles of level 1 and 2 is found.
func TestScrubComparesHighLevels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := Open(Options{Dir: dir, NoSync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(1 << 16) { // 2^24 leaves
		if err := l.tree.AddTile(proof.HoleHash(n)); err != nil {
			t.Fatal(err)
		}
	}
	if l.inMemory(3, 0) == nil || l.inMemory(2, 0) != nil {
		t.Fatal("the tree has another height")
	}
	check := func(name string, want ...finding) {
		t.Helper()
		var list []finding
		s := l.NewScrub(ScrubOptions{Stream: newMemoryLedger(), EventsPerSecond: 1e9, BytesPerSecond: 1 << 40, Found: func(first, last uint64, what string) {
			list = append(list, finding{first, last, what})
		}})
		p := s.newPass()
		for range 2 { // the second time from memory
			if over, proven, err := p.hashOver(t.Context(), proof.Tile{Index: 5<<8 + 9, Width: proof.TileWidth}); over == nil || proven != (len(want) == 0) || err != nil {
				t.Errorf("%s: %v, proven: %t, %v", name, over, proven, err)
			}
		}
		if len(list) != len(want) {
			t.Fatalf("%s: found %+v", name, list)
		}
		for i := range want {
			if list[i].first != want[i].first || list[i].last != want[i].last || !strings.Contains(list[i].what, want[i].what) {
				t.Errorf("%s: found %+v, want %+v", name, list[i], want[i])
			}
		}
	}
	restoreFiles(t, dir)
	check("a sound tree")
	flipBit(t, dir, "2/000")
	check("a tile of level 2") // computed from level 1
	check("after the repair")
	hash := putHash(t, dir, proof.Tile{Level: 1, Index: 5, Width: proof.TileWidth}, 9, proof.HoleHash(1))
	check("a tile of level 1", finding{5<<16 + 1, 6 << 16, "tile/1/005"})
	putHash(t, dir, proof.Tile{Level: 2, Width: proof.TileWidth}, 5, hash)
	check("tiles of level 1 and 2", finding{1, 1 << 24, "tile/2/000"})
}

// A pass can begin while a log that was opened again has confirmed a part of its stored leaves. It
// compares those.
func TestScrubOfAnUnconfirmedTree(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 700)
	dir := t.TempDir()
	follow(t, ledger, Options{Dir: dir})
	again, err := Open(Options{Dir: dir, NoSync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for unconfirmed := len(again.confirm); unconfirmed >= 0; unconfirmed -= 27 {
		again.confirm = again.tree.PartialLeaves()[len(again.tree.PartialLeaves())-unconfirmed:]
		end := again.tree.Size() - uint64(unconfirmed)
		if found, p := scrubOnce(t, again, ledger); len(found) > 0 || p.End != end {
			t.Errorf("%d leaves are not confirmed: found %+v, %+v", unconfirmed, found, p)
		}
		if found, _ := scrubOnce(t, again, edited{ledger, []uint64{600}}); (len(found) == 1) != (end >= 600) {
			t.Errorf("%d leaves are not confirmed, an event is edited: found %+v", unconfirmed, found)
		}
	}
}

// A sound ledger gives no finding while it grows.
func TestScrubOfAGrowingLog(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 3)
	l := follow(t, ledger, Options{Dir: t.TempDir()})
	var scrubbing sync.WaitGroup
	stop := make(chan struct{})
	scrubbing.Go(func() {
		for ended := false; !ended; {
			select {
			case <-stop:
				ended = true // after one more pass
			default:
			}
			if found, p := scrubOnce(t, l, ledger); len(found) > 0 || p.TilesRepaired > 0 {
				t.Errorf("found %+v, %+v", found, p)
			}
		}
	})
	for range 60 {
		ledger.fill(t, 97)
		sign(t, l, ledger)
	}
	close(stop)
	scrubbing.Wait()
}

// Over removed and lost positions a sound ledger gives no finding, and edited tiles are found.
func TestScrubOverGaps(t *testing.T) {
	t.Parallel()
	const removed, size = 700, 4 * 256 * 2
	whole := newMemoryLedger()
	whole.fill(t, size)
	dir := t.TempDir()
	l := follow(t, whole, Options{Dir: dir})
	budget := 8
	known := OpenProvenLeaves(dir, "")
	var lost events.Lost
	for _, r := range [][2]uint64{{1020, 1280}, {1300, 1302}, {1500, 1900}} { // the hash over the tile 0/004 is known, and seven leaves
		lost = append(lost, known.Ranges(r[0], r[1], size, &budget)...)
	}
	if len(lost) != 4 || len(lost[0].Hashes) != 6 || len(lost[1].Hashes) != 2 || len(lost[2].Hashes)+len(lost[3].Hashes) > 0 {
		t.Fatalf("lost: %+v", lost)
	}

	rest := newMemoryLedger()
	rest.last = size // without the statement and the checkpoint, whose origin would have to end
	for _, m := range whole.list[:size] {
		if _, in := spans.At(lost, m.Seq); !in && (m.Seq > removed || m.Seq == 5 || m.Seq == 400) { // two events of the removed volume are kept
			rest.list = append(rest.list, m)
		}
	}
	if err := l.makeDurable(); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(filepath.Join(other, fileKey), 0o600), ResetTree(other, removed)); err != nil {
		t.Fatal(err)
	}
	remove(t, other, "0/004")                                                                                                            // only the hash over it is known
	for _, path := range []string{filepath.Join(other, fileCheckpoints), filepath.Join(other, fileSigners), SignedPath(other, "", "")} { // they are of a tree without losses
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	again := follow(t, rest, Options{Dir: other, Lost: func() events.Lost { return lost }, Removed: func() events.Removal {
		return events.Removal{LedgerVolumeRemoved: &events.LedgerVolumeRemoved{Last: removed}}
	}})
	if found, p := scrubOnce(t, again, rest); len(found) > 0 || p.TilesRepaired > 0 || p.End < size {
		t.Fatalf("found %+v, %+v", found, p)
	}
	restoreFiles(t, other)
	flipBit(t, other, "0/001")
	if found, _ := scrubOnce(t, again, rest); len(found) != 1 || found[0].first != 257 || found[0].last != 512 {
		t.Errorf("a tile of removed events: found %+v", found)
	}
	flipBit(t, other, "0/001")
	flipBit(t, other, "0/006")
	if found, p := scrubOnce(t, again, rest); len(found) > 0 || p.TilesRepaired != 1 {
		t.Errorf("a tile of events and lost positions: found %+v, %+v", found, p)
	}
	if found, _ := scrubOnce(t, again, edited{rest, []uint64{5, 2000}}); len(found) != 2 || found[0].first != 5 || found[1].first != 2000 {
		t.Errorf("a kept event and another: found %+v", found)
	}
}
