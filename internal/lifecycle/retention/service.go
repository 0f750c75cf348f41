package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"daybook/events"
)

// Feed is the ledger as it is stored.
type Feed interface {
	// ReadRaw returns up to limit messages after a position.
	ReadRaw(ctx context.Context, after uint64, limit int) ([]events.Stored, error)
	// LastSeq is the position of the last one.
	LastSeq(ctx context.Context) (uint64, error)
}

// Recorder records that heaps are collected. *ledger.Ledger is one.
type Recorder interface {
	CollectHeaps(ctx context.Context, tenant string, list []events.HeapCollected, recorded func(heap string, seq uint64)) error
}

// Blobs removes what is stored.
type Blobs interface {
	// StoredBlobs calls fn with every heap and text that is stored.
	StoredBlobs(ctx context.Context, fn func(events.BlobInfo) error) error
	// RemoveBlob removes a blob as it was listed. It reports false, and leaves it,
	// when somebody has relied on it lately, or since.
	RemoveBlob(ctx context.Context, b events.BlobInfo) (removed bool, err error)
	// PurgeOrphanChunks gives back the room of what belongs to no blob.
	PurgeOrphanChunks(ctx context.Context) (chunks uint64, err error)
}

// Options set up a Service. Feed, Recorder and Blobs are required.
type Options struct {
	Feed     Feed
	Recorder Recorder
	Blobs    Blobs
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Logger gets what nobody is told otherwise; default slog.Default.
	Logger *slog.Logger
}

// The least age that a rule may ask for, and what is taken for an orphan.
const (
	MinAge    = time.Hour
	orphanAge = time.Hour
)

// DefaultKeepEntries is how many entries of each session keep their heaps unless
// told otherwise.
const DefaultKeepEntries = 100

// Rule says which heaps go: those without tags that were last made, restored or
// tagged longer than OlderThan ago, that no run waiting or under way starts
// from, that are neither input nor output of one of the newest KeepEntries
// entries of a session, and that no session that keeps state would go on from.
type Rule struct {
	// OlderThan is at least MinAge.
	OlderThan time.Duration
	// KeepEntries is 0 or more.
	KeepEntries int
}

// Check tells what is wrong with a rule; the error names the member.
func (r Rule) Check() error {
	switch {
	case r.OlderThan < MinAge:
		return &RuleError{"older_than", fmt.Sprintf("older_than is %s: it must be %s or more, since a heap may be on its way into the ledger for a while", r.OlderThan, MinAge)}
	case r.KeepEntries < 0:
		return &RuleError{"keep_entries", fmt.Sprintf("keep_entries is %d: it must be 0 or more", r.KeepEntries)}
	}
	return nil
}

// RuleError tells which member of a rule is wrong, and why.
type RuleError struct{ Field, Message string }

// Error returns the message.
func (e *RuleError) Error() string { return e.Message }

// ErrBusy is returned while another pass is under way.
var ErrBusy = errors.New("a collection of heaps is under way; try again when it is done")

// Service runs passes, one at a time. It is safe for concurrent use and holds
// nothing to close.
type Service struct {
	opts Options
	// turn holds one token while no pass is under way.
	turn chan struct{}
}

// New makes a service. It starts nothing.
func New(opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	s := &Service{opts: opts, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// Run makes a pass over all tenants now and then, until ctx is done. The pause
// between two passes is a 24th of the rule's OlderThan, and 1 to 24 hours. A pass that
// fails is logged, and tried again when the next is due.
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
			s.opts.Logger.ErrorContext(ctx, "collect heaps", "err", err)
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
