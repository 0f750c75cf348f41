package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"daybook/events"
)

// Feed reads stored events.
type Feed interface {
	// ReadRaw returns at most limit messages after a position.
	ReadRaw(ctx context.Context, after uint64, limit int) ([]events.Stored, error)
	// LastSeq returns the position of the last event.
	LastSeq(ctx context.Context) (uint64, error)
}

// Recorder records the collection of heaps. *ledger.Ledger implements it.
type Recorder interface {
	CollectHeaps(ctx context.Context, tenant string, list []events.HeapCollected, recorded func(heap string, seq uint64)) error
}

// Blobs lists and deletes stored blobs.
type Blobs interface {
	// StoredBlobs calls fn with each stored heap and text.
	StoredBlobs(ctx context.Context, fn func(events.BlobInfo) error) error
	// RemoveBlob deletes a blob if it is still the version that StoredBlobs listed. It
	// returns false and keeps the blob if the blob was stored or pinned within the grace
	// period or since the listing.
	RemoveBlob(ctx context.Context, b events.BlobInfo) (removed bool, err error)
	// PurgeOrphanChunks frees the space of chunks that belong to no blob, and returns
	// their number.
	PurgeOrphanChunks(ctx context.Context) (chunks uint64, err error)
}

// Options configures a Service. Feed, Recorder and Blobs are required.
type Options struct {
	Feed     Feed
	Recorder Recorder
	Blobs    Blobs
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger receives the results of Run. Default: slog.Default.
	Logger *slog.Logger
}

const (
	// MinAge is the minimum of Rule.OlderThan. Under any rule, a pass keeps a heap that
	// was stored or pinned less than MinAge ago, because the event that references it may
	// not be recorded yet.
	MinAge = time.Hour
	// orphanAge is the minimum time since an orphan was stored or pinned. Younger ones are
	// kept.
	orphanAge = time.Hour
)

// DefaultKeepEntries is the default of Rule.KeepEntries.
const DefaultKeepEntries = 100

// Rule selects heaps to collect. A heap is collected if all of this is true:
//
//   - it has no tags
//   - its last use is more than OlderThan ago: an execution was requested with it,
//     restored it or produced it, an edit changed its tags, or a logical session was set
//     to continue from it
//   - it was neither stored nor pinned within MinAge
//   - no waiting or running execution starts from it, and no execution whose session entry
//     is not recorded yet has it as input or output
//   - it is neither input nor output of one of the newest KeepEntries entries of a session
//   - no logical session would continue from it
//   - no conversation context lists it
type Rule struct {
	// OlderThan MUST be at least MinAge.
	OlderThan time.Duration
	// KeepEntries is the number of newest entries of each session whose heaps are kept. It
	// MUST NOT be negative.
	KeepEntries int
}

// Check returns a *RuleError if the rule is invalid.
func (r Rule) Check() error {
	switch {
	case r.OlderThan < MinAge:
		return &RuleError{"older_than", fmt.Sprintf("older_than is %s: it must be %s or more, so that no heap is collected before the event that references it is recorded", r.OlderThan, MinAge)}
	case r.KeepEntries < 0:
		return &RuleError{"keep_entries", fmt.Sprintf("keep_entries is %d: it must be 0 or more", r.KeepEntries)}
	}
	return nil
}

// RuleError is returned for an invalid member of a rule.
type RuleError struct{ Field, Message string }

// Error returns the message.
func (e *RuleError) Error() string { return e.Message }

// ErrBusy is returned while another pass runs.
var ErrBusy = errors.New("another collection of heaps is running; try again when it has ended")

// Service runs passes, one at a time. It is safe for concurrent use and needs no
// closing.
type Service struct {
	opts Options
	// sem holds one token while no pass runs.
	sem chan struct{}
	// batch is collectBatch, except in tests.
	batch int
}

// New returns a Service. It starts nothing; call Run for periodic passes.
func New(opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	s := &Service{opts: opts, sem: make(chan struct{}, 1), batch: collectBatch}
	s.sem <- struct{}{}
	return s
}

// Run makes a pass over all tenants immediately and then periodically, until ctx is done.
// The interval is a 24th of the rule's OlderThan, but at least 1 hour and at most 24
// hours. Run logs the error of a failed pass, and the next pass tries again. It returns
// a *RuleError for an invalid rule, and nil when ctx is done.
func (s *Service) Run(ctx context.Context, rule Rule) error {
	if err := rule.Check(); err != nil {
		return err
	}
	tick := time.NewTicker(min(max(rule.OlderThan/24, time.Hour), 24*time.Hour))
	defer tick.Stop()
	for {
		report, err := s.Collect(ctx, Pass{Rule: rule, Actor: events.Actor{Principal: "daybook", Transport: "retention"}})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.opts.Logger.ErrorContext(ctx, "collecting heaps failed", "err", err)
		case report.Collected+report.Orphans > 0:
			s.opts.Logger.InfoContext(ctx, "collected heaps", "heaps", report.Collected, "orphans", report.Orphans, "bytes", report.Bytes)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
