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
	// RemoveBlob deletes a blob as it was listed. It returns false and keeps the blob
	// if the blob was pinned within the grace period, or stored again since the
	// listing.
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

// MinAge is the minimum of Rule.OlderThan, and the time after the storage or pin of a heap
// in which no pass collects it. orphanAge is the minimum age of an orphan that is deleted.
const (
	MinAge    = time.Hour
	orphanAge = time.Hour
)

// DefaultKeepEntries is the default of Rule.KeepEntries: the number of entries of each
// session whose heaps are kept.
const DefaultKeepEntries = 100

// Rule selects heaps to collect. A heap is collected if all of this is true: it has no
// tags; it was last produced, restored or tagged more than OlderThan ago; no waiting or
// running execution starts from it; it is neither input nor output of one of the newest
// KeepEntries entries of a session; no logical session would continue from it; and no
// conversation context lists it.
type Rule struct {
	// OlderThan MUST be at least MinAge.
	OlderThan time.Duration
	// KeepEntries MUST NOT be negative.
	KeepEntries int
}

// Check returns a *RuleError if the rule is invalid.
func (r Rule) Check() error {
	switch {
	case r.OlderThan < MinAge:
		return &RuleError{"older_than", fmt.Sprintf("older_than is %s: it must be %s or more, because a heap is stored before the event that names it", r.OlderThan, MinAge)}
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
}

// New returns a Service. It starts nothing; call Run for periodic passes.
func New(opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	s := &Service{opts: opts, sem: make(chan struct{}, 1)}
	s.sem <- struct{}{}
	return s
}

// Run makes a pass over all tenants at once and then periodically, until ctx is done.
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
