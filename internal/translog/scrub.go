package translog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/resources/exhausted"
	"daybook/proof"
)

// Reader reads the stored messages of the ledger.
type Reader interface {
	// ReadRaw returns up to limit messages after a position.
	ReadRaw(ctx context.Context, after uint64, limit int) ([]events.Stored, error)
}

// HeapReader verifies heaps.
type HeapReader interface {
	// VerifyHeap compares a heap with its hash. It holds a part of the heap in memory at a time.
	// The error is events.ErrNotFound or events.ErrDamaged.
	VerifyHeap(ctx context.Context, tenant, hash string) (events.HeapInfo, error)
}

// ScrubOptions configure a Scrub. Stream and Found are required.
type ScrubOptions struct {
	Stream Reader
	// Blobs, if set, verifies the heaps that events name.
	Blobs HeapReader
	// EventsPerSecond and BytesPerSecond limit the speed. Default: 2,000 and 1 MiB, which is 84
	// GiB a day. A higher speed takes more memory, because the embedded server keeps an index of
	// the messages that were read in the last two minutes.
	EventsPerSecond, BytesPerSecond int
	// Pause is the time between two passes. Default: 1 hour.
	Pause time.Duration
	// Before, if set, is called before each pass. It can check the files of the stream before the
	// server reads them. Before each read, it MUST call pace with the number of bytes to read.
	Before func(ctx context.Context, pace func(ctx context.Context, bytes int64) error) error
	// Found is called with the first and the last position of each finding. what describes it.
	Found func(first, last uint64, what string)
	// FoundBlob is called with each heap that cannot be read.
	FoundBlob func(b events.LostBlob, err error)
}

// ScrubProgress is the progress of a Scrub. Position and End belong to the current pass. Rounds
// counts the complete passes, and RoundEnded is the time when the last of them ended. All counts
// start at the creation of the Scrub.
type ScrubProgress struct {
	Position, End                                         uint64
	Rounds, Events, Bytes, Blobs, TilesRepaired, Findings uint64
	RoundEnded                                            time.Time
}

// Scrub re-reads the ledger at a limited rate and compares each event with the leaf hash that was
// computed when it was recorded. It finds data that changed on disk. It is safe for concurrent use.
type Scrub struct {
	log           *Log
	opts          ScrubOptions
	events, bytes *rate.Limiter

	mu       sync.Mutex
	progress ScrubProgress
}

// scrubBatch is the number of events per read: those of a tile.
const scrubBatch = proof.TileWidth

// NewScrub returns a Scrub of the events in the tree. The caller MUST call Run to start it.
func (l *Log) NewScrub(opts ScrubOptions) *Scrub {
	if opts.EventsPerSecond == 0 {
		opts.EventsPerSecond = 2000
	}
	if opts.BytesPerSecond == 0 {
		opts.BytesPerSecond = 1 << 20
	}
	if opts.Pause == 0 {
		opts.Pause = time.Hour
	}
	return &Scrub{
		log: l, opts: opts,
		events: rate.NewLimiter(rate.Limit(opts.EventsPerSecond), max(scrubBatch, opts.EventsPerSecond)),
		bytes:  rate.NewLimiter(rate.Limit(opts.BytesPerSecond), max(1, opts.BytesPerSecond)),
	}
}

// Progress returns the progress.
func (s *Scrub) Progress() ScrubProgress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

func (s *Scrub) note(change func(p *ScrubProgress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.progress)
}

// Run makes one pass after the other until ctx is done, and returns the cause of ctx. A read error
// ends a pass, not Run.
func (s *Scrub) Run(ctx context.Context) error {
	for {
		if err := s.runPass(ctx); err != nil && ctx.Err() == nil {
			s.log.log.WarnContext(ctx, "a pass of the scrub ended early", "err", err)
		}
		timer := time.NewTimer(s.opts.Pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// runPass makes one pass over the events that are in the tree when the pass starts.
func (s *Scrub) runPass(ctx context.Context) error {
	end := s.log.Size()
	s.note(func(p *ScrubProgress) { p.Position, p.End = 0, end })
	if s.opts.Before != nil {
		if err := s.opts.Before(ctx, s.pace); err != nil {
			return err
		}
	}
	for at := uint64(0); at < end; {
		n := int(min(scrubBatch, end-at))
		if err := s.events.WaitN(ctx, n); err != nil {
			return err
		}
		batch, err := s.opts.Stream.ReadRaw(ctx, at, n)
		switch {
		case errors.Is(err, events.ErrDamaged):
			// Read one event at a time up to the damaged one, and skip it.
			if batch, err = s.opts.Stream.ReadRaw(ctx, at, 1); errors.Is(err, events.ErrDamaged) || err == nil && len(batch) == 0 {
				s.found(at+1, at+1, "the event cannot be read")
				at++
				continue
			}
			if err != nil {
				return err
			}
		case err != nil:
			return err
		case len(batch) == 0:
			s.found(at+1, end, "events are missing")
			return nil
		}
		// After a gap, the batch may contain events that were recorded since the start of the pass.
		batch = upTo(batch, end)
		if len(batch) == 0 {
			break
		}
		if err := s.compare(ctx, batch); err != nil {
			return err
		}
		at = batch[len(batch)-1].Seq
		s.note(func(p *ScrubProgress) { p.Position = at })
	}
	s.note(func(p *ScrubProgress) { p.Rounds++; p.RoundEnded = time.Now().UTC() })
	return nil
}

// upTo returns the messages up to a position.
func upTo(batch []events.Stored, last uint64) []events.Stored {
	n, _ := slices.BinarySearchFunc(batch, last+1, func(m events.Stored, seq uint64) int { return cmp.Compare(m.Seq, seq) })
	return batch[:n]
}

// pace waits until a number of bytes may be read.
func (s *Scrub) pace(ctx context.Context, bytes int64) error {
	s.note(func(p *ScrubProgress) { p.Bytes += uint64(bytes) })
	for bytes > 0 {
		n := min(bytes, int64(s.bytes.Burst()))
		if err := s.bytes.WaitN(ctx, int(n)); err != nil {
			return err
		}
		bytes -= n
	}
	return nil
}

func (s *Scrub) found(first, last uint64, what string) {
	s.note(func(p *ScrubProgress) { p.Findings++ })
	s.opts.Found(first, last, what)
}

// compare compares events with their leaves.
func (s *Scrub) compare(ctx context.Context, batch []events.Stored) error {
	var buf []byte
	for _, m := range batch {
		if err := s.pace(ctx, int64(len(m.Body))); err != nil {
			return err
		}
		leaf, grown, err := proof.HashLeaf(buf, eventproof.RecordOf(m))
		buf = grown
		var event events.Event
		if err == nil {
			event, err = events.Decode(m.Seq, m.Message())
		}
		s.note(func(g *ScrubProgress) { g.Events++ })
		if err != nil {
			s.found(m.Seq, m.Seq, "the event cannot be read: "+err.Error())
			continue
		}
		same, err := s.log.compareLeaf(m.Seq-1, leaf)
		if err == nil && same {
			if err := s.compareBlobs(ctx, event); err != nil {
				return err
			}
			continue
		}
		if err := s.judge(ctx, m.Seq, err); err != nil {
			return err
		}
	}
	return nil
}

// judge determines whether the event or its stored leaf is wrong. The hash over the tile, stored
// at the next level, decides.
func (s *Scrub) judge(ctx context.Context, seq uint64, cause error) error {
	if exhausted.Is(cause) {
		return cause // not caused by the content of the file
	}
	tile := proof.Tile{Index: (seq - 1) / proof.TileWidth, Width: proof.TileWidth}
	first := tile.Index*proof.TileWidth + 1
	batch, err := s.opts.Stream.ReadRaw(ctx, first-1, proof.TileWidth)
	if err != nil && !errors.Is(err, events.ErrDamaged) {
		return err
	}
	leaves := make([]proof.Hash, 0, proof.TileWidth)
	var buf []byte
	for _, m := range batch {
		var leaf proof.Hash
		if leaf, buf, err = proof.HashLeaf(buf, eventproof.RecordOf(m)); err != nil {
			break
		}
		leaves = append(leaves, leaf)
	}
	if len(leaves) == proof.TileWidth && s.log.repairTile(tile, leaves) {
		s.log.log.WarnContext(ctx, "a file of hashes was wrong and is written again; the events are intact", "tile", tile.Path(), "err", cause)
		s.note(func(p *ScrubProgress) { p.TilesRepaired++ })
		return nil
	}
	if cause != nil {
		s.found(seq, seq, "the stored hash of the event cannot be read: "+cause.Error())
	} else {
		s.found(seq, seq, "the event does not match the hash that was computed when it was recorded")
	}
	return nil
}

// compareBlobs verifies the heap that an event names.
func (s *Scrub) compareBlobs(ctx context.Context, e events.Event) error {
	if s.opts.Blobs == nil {
		return nil
	}
	d := events.EndingOf(e.Data) // a failed run may have left a heap, too
	if d == nil || d.Heap == nil {
		return nil
	}
	heap, err := s.opts.Blobs.VerifyHeap(ctx, e.Tenant, d.Heap.SHA256)
	switch {
	case errors.Is(err, events.ErrDamaged):
		s.note(func(p *ScrubProgress) { p.Findings++ })
		if s.opts.FoundBlob != nil {
			s.opts.FoundBlob(events.LostBlob{Tenant: e.Tenant, Kind: "heap", SHA256: d.Heap.SHA256}, err)
		}
	case errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrNotFound):
		// Collected, perhaps during this pass. Verify checks the reason.
	case err != nil:
		return err
	}
	s.note(func(p *ScrubProgress) { p.Blobs++ })
	return s.pace(ctx, heap.Size)
}

// compareLeaf reports whether the tree has a leaf at an index.
func (l *Log) compareLeaf(index uint64, leaf proof.Hash) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	raw, err := l.tree.Read(proof.Tile{Index: index / proof.TileWidth, Width: int(index%proof.TileWidth) + 1})
	if err != nil {
		return false, err
	}
	return string(raw[len(raw)-len(leaf):]) == string(leaf[:]), nil
}

// repairTile rewrites a full tile with leaves if the level above has the hash over them. Otherwise
// it reports false, because the events are wrong and not the tile.
func (l *Log) repairTile(tile proof.Tile, leaves []proof.Hash) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	above, err := l.tree.Read(proof.Tile{Level: 1, Index: tile.Index / proof.TileWidth, Width: int(tile.Index%proof.TileWidth) + 1})
	hash := proof.HashSubtrees(leaves)
	if err != nil || string(above[len(above)-len(hash):]) != string(hash[:]) {
		return false
	}
	return l.file.Put(tile, leaves) == nil
}
