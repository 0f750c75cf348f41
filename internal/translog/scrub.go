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
	"daybook/internal/spans"
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
	// Read, if set, is called with each event that was read. It MUST NOT block or change it.
	Read func(e *events.Event)
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

// Scrub re-reads the ledger at a limited rate. It compares each event with the leaf hash that was
// computed when it was recorded, each file of the tree with the hash over it in the level above, up
// to the hashes that the Log has in memory, and these with the newest checkpoint. It finds data that
// changed on disk, also if an event and its hashes were changed together. It rewrites files whose
// hashes it can compute. It is safe for concurrent use.
type Scrub struct {
	log           *Log
	opts          ScrubOptions
	events, bytes *rate.Limiter

	mu       sync.Mutex
	progress ScrubProgress
}

// scrubBatch is the maximum number of events per read: those of a tile.
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

// runPass makes one pass over the events that are in the tree when the pass starts, and over the
// files of the tree.
func (s *Scrub) runPass(ctx context.Context) error {
	p := s.newPass()
	s.note(func(g *ScrubProgress) { g.Position, g.End = 0, p.end })
	if s.opts.Before != nil {
		if err := s.opts.Before(ctx, s.pace); err != nil {
			return err
		}
	}
	for p.at < p.end {
		index := p.at / proof.TileWidth
		last := min((index+1)*proof.TileWidth, p.end)
		leaves, err := p.readLeaves(ctx, last)
		if err != nil {
			return err
		}
		if p.cut {
			return nil
		}
		if last%proof.TileWidth == 0 {
			err = p.compareTile(ctx, index, leaves)
		} else {
			err = p.compareLeaves(ctx, leaves, p.tail)
		}
		if err != nil {
			return err
		}
		s.note(func(g *ScrubProgress) { g.Position = last })
	}
	if err := p.comparePartialFiles(ctx); err != nil {
		return err
	}
	for i, c := range p.newest {
		if i > 0 && c.Size == p.newest[0].Size && c.Root == p.newest[0].Root {
			continue
		}
		if err := p.compareCheckpoint(ctx, c); err != nil {
			return err
		}
	}
	s.note(func(g *ScrubProgress) { g.Rounds++; g.RoundEnded = time.Now().UTC() })
	return nil
}

// readLeaves reads the events from the next position to last, which is in the same tile, and hashes
// them.
func (p *pass) readLeaves(ctx context.Context, last uint64) (*readTileLeaves, error) {
	s := p.scrub
	leaves := &readTileLeaves{first: p.at + 1, last: last}
	for p.at < last {
		if len(p.ahead) == 0 && spans.Covers(p.lost, p.at+1, last) {
			p.at = last
			break
		}
		if len(p.ahead) == 0 {
			n := int(last - p.at)
			if err := s.events.WaitN(ctx, n); err != nil {
				return nil, err
			}
			batch, err := s.opts.Stream.ReadRaw(ctx, p.at, n)
			switch {
			case errors.Is(err, events.ErrDamaged):
				// Read one event at a time up to the damaged one, and skip it.
				if batch, err = s.opts.Stream.ReadRaw(ctx, p.at, 1); errors.Is(err, events.ErrDamaged) || err == nil && len(batch) == 0 {
					s.found(p.at+1, p.at+1, "the event cannot be read")
					p.at++
					continue
				}
				if err != nil {
					return nil, err
				}
			case err != nil:
				return nil, err
			case len(batch) == 0:
				s.found(p.at+1, p.end, "events are missing")
				p.cut = true
				return leaves, nil
			}
			p.ahead = batch
		}
		// After a gap, the batch may contain events of later tiles, and events that were recorded since
		// the start of the pass.
		now := upTo(p.ahead, last)
		p.ahead = p.ahead[len(now):]
		for _, m := range now {
			p.at = m.Seq
			if err := s.pace(ctx, int64(len(m.Body))); err != nil {
				return nil, err
			}
			e, err := leaves.add(m)
			if err != nil {
				s.found(m.Seq, m.Seq, "the event cannot be read: "+err.Error())
			} else if s.opts.Read != nil {
				s.opts.Read(&e)
			}
			s.note(func(g *ScrubProgress) { g.Events++ })
		}
		if len(p.ahead) > 0 {
			p.at = last
		}
	}
	return leaves, nil
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

// compareHeap verifies a heap that an event names.
func (s *Scrub) compareHeap(ctx context.Context, tenant, sha256 string) error {
	if s.opts.Blobs == nil {
		return nil
	}
	heap, err := s.opts.Blobs.VerifyHeap(ctx, tenant, sha256)
	switch {
	case errors.Is(err, events.ErrDamaged):
		s.note(func(p *ScrubProgress) { p.Findings++ })
		if s.opts.FoundBlob != nil {
			s.opts.FoundBlob(events.LostBlob{Tenant: tenant, Kind: "heap", SHA256: sha256}, err)
		}
	case errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrNotFound):
		// Collected, perhaps during this pass. Verify checks the reason.
	case err != nil:
		return err
	}
	s.note(func(p *ScrubProgress) { p.Blobs++ })
	return s.pace(ctx, heap.Size)
}
