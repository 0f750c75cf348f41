package migration

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"sync/atomic"
	"time"

	"daybook/events"
	"daybook/internal/exec/replay"
	"daybook/ledger"
	"daybook/projections"
	"daybook/runner"
)

// Ledger is the part of the write side that a Migrator uses. *ledger.Ledger implements and
// documents it.
type Ledger interface {
	Recording(ctx context.Context, tenant, execution string) (*ledger.Recording, error)
	Migration(ctx context.Context, tenant, heap, engineID string) (ledger.Migration, error)
	RecordMigration(ctx context.Context, tenant string, r *ledger.Recording, d *events.HeapMigrated, store func(keyID string) (hash string, err error)) (seq uint64, err error)
	ExplainRemoval(ctx context.Context, tenant, heap string) error
}

// Sources finds what made heaps. *projections.Store implements and documents it.
type Sources interface {
	Wait(ctx context.Context, seq uint64) error
	HeapSource(ctx context.Context, tenant, heap string, before uint64) (projections.HeapSource, error)
	HeapEngine(ctx context.Context, tenant, heap string) (engineID string, err error)
	MigratedHeap(ctx context.Context, tenant, heap, engineID string) (migrated string, err error)
}

// Heaps stores heaps.
type Heaps interface {
	runner.Heaps
	// HeapInfo is that of ledger.Heaps.
	HeapInfo(ctx context.Context, tenant, hash string) (events.HeapInfo, error)
}

// Options are what a Migrator uses. All are required except where noted.
type Options struct {
	Replayer *replay.Replayer
	Ledger   Ledger
	Sources  Sources
	Heaps    Heaps
	Memory   runner.Memory
	// Leg is the time after which a migration stores the heap that it has reached and gives
	// its place to other replays. A migration that is interrupted continues from that heap.
	// Default: 20 s.
	Leg time.Duration
}

// defaultLeg is the default of Options.Leg.
const defaultLeg = 20 * time.Second

// minWait is the least time that a limited request waits for another one and for the
// projections.
const minWait = time.Second

// Migrator migrates heaps. It is safe for concurrent use.
type Migrator struct {
	opts    Options
	flights flights
	// last is the position of the last event that this Migrator recorded.
	last atomic.Uint64
}

// New returns a Migrator.
func New(opts Options) *Migrator {
	opts.Leg = cmp.Or(opts.Leg, defaultLeg)
	return &Migrator{opts: opts}
}

// unchanged is the verdict about a heap that the engine accepts as it is. No event has it.
const unchanged events.MigrationVerdict = "unchanged"

// Request asks for the migration of a heap.
type Request struct {
	Tenant, Heap string
	// Actor asks for the migration, or for the run that needs the heap.
	Actor events.Actor
	// RunID is the run that needs the heap; empty if a client asks for the migration. A run
	// takes a recorded difference as the verdict, and records no verdict
	// events.NotMigrated. A client makes the migration try again.
	RunID string
	// Limit, if not 0, is the time after which the migration ends with
	// runner.ErrMigrationUnfinished and can be continued. It includes the wait for the
	// migration of another request.
	Limit time.Duration
	// After is a position whose events the lineage is read from, at least.
	After uint64
	// Enter, if set, waits for a place. The caller of leave has none any more.
	Enter func(ctx context.Context) (leave func(), err error)
}

// Result is the result of a migration.
type Result struct {
	Heap, EngineID string
	Engine         events.Engine
	Verdict        events.MigrationVerdict
	// NewHeap is a heap that the engine can restore, Size its length in bytes; empty
	// unless Verdict is events.MigrationDone or unchanged.
	NewHeap string
	Size    int64
	// From is the heap from which the first execution was replayed; empty for a fresh
	// isolate. Executions counts the replays that were identical.
	From       string
	Executions int
	// IsRecorded reports whether an earlier migration found the verdict.
	IsRecorded bool
	// ExecutionID is the execution that differs or cannot be replayed; Difference the first
	// difference.
	ExecutionID string
	Difference  *replay.Difference
	// Reason and Message say why the heap was not migrated.
	Reason, Message string
	// WallTime is the duration of the migration. Seq is the position of the last event that
	// it, or the earlier migration, recorded; 0 for none.
	WallTime time.Duration
	Seq      uint64
	// hidesTexts reports whether the texts of Difference are encrypted in the ledger.
	hidesTexts bool
}

// Why returns why the heap has no migration, as a clause; empty if it has one. The texts of a
// difference are left out if the ledger holds them encrypted.
func (r Result) Why() string {
	switch r.Verdict {
	case events.MigrationDifferent:
		m := ledger.Migration{HeapMigrated: events.HeapMigrated{Verdict: r.Verdict, ExecutionID: r.ExecutionID, Part: r.Difference.Part, Line: r.Difference.Line, Call: r.Difference.Call, Artifact: r.Difference.Artifact}}
		if r.hidesTexts || r.Difference.Recorded == "" && r.Difference.Replayed == "" {
			return m.Why()
		}
		return fmt.Sprintf("%s; recorded %q, replayed %q", m.Why(), r.Difference.Recorded, r.Difference.Replayed)
	case events.NotMigrated:
		if r.ExecutionID != "" {
			return fmt.Sprintf("execution %s cannot be replayed: %s", r.ExecutionID, r.Message)
		}
		return r.Message
	}
	return ""
}

// Migrate returns a heap that the engine of the workers can restore in place of another heap.
// If no migration of it is recorded, it makes and records one. Errors are those of a read of
// the heap; an *ledger.Error with CodeNotFound or CodeGone for a heap that does not exist. Any
// other error means that another try may succeed; runner.ErrMigrationUnfinished, that it
// continues.
func (m *Migrator) Migrate(ctx context.Context, r Request) (Result, error) {
	began := time.Now()
	engine, err := m.opts.Replayer.Engine(ctx)
	if err != nil {
		return Result{}, err
	}
	info, err := m.opts.Heaps.HeapInfo(ctx, r.Tenant, r.Heap)
	switch {
	case errors.Is(err, events.ErrRemoved):
		return Result{}, m.opts.Ledger.ExplainRemoval(ctx, r.Tenant, r.Heap)
	case errors.Is(err, events.ErrNotFound):
		return Result{}, &ledger.Error{Code: ledger.CodeNotFound, Field: "heap", Message: "heap " + r.Heap + " is not in the ledger"}
	case err != nil:
		return Result{}, fmt.Errorf("read heap %s: %w", r.Heap, err)
	}
	unknown := Result{Heap: r.Heap, EngineID: info.EngineID, Engine: engine}
	if info.EngineID == engine.ID {
		unknown.Verdict, unknown.NewHeap, unknown.Size = unchanged, r.Heap, info.Size
		return unknown, nil
	}
	// A client makes the migration try again, a run does not.
	usable := func(found Result) bool {
		return r.RunID != "" || found.Verdict != events.MigrationDifferent || !found.IsRecorded
	}
	waiting := ctx
	if r.Limit > 0 {
		var stop context.CancelFunc
		waiting, stop = context.WithTimeoutCause(ctx, max(r.Limit, minWait), runner.ErrMigrationUnfinished)
		defer stop()
	}
	result, err := m.flights.do(waiting, r.Tenant+" "+r.Heap, usable, func() (Result, error) {
		recorded, err := m.recorded(ctx, r, unknown)
		if err != nil || recorded.Verdict != "" {
			return recorded, err
		}
		if err := m.opts.Sources.Wait(waiting, max(r.After, m.last.Load())); err != nil {
			if waiting.Err() != nil {
				err = context.Cause(waiting)
			}
			return unknown, err
		}
		return m.migrate(ctx, r, unknown, began)
	})
	result.WallTime = time.Since(began)
	return result, err
}

// recorded returns the recorded verdict about a heap, or unknown if a new one is needed.
func (m *Migrator) recorded(ctx context.Context, r Request, unknown Result) (Result, error) {
	d, err := m.opts.Ledger.Migration(ctx, r.Tenant, r.Heap, unknown.Engine.ID)
	if errors.Is(err, events.ErrNotFound) {
		return unknown, nil
	}
	if err != nil {
		return unknown, err
	}
	found := unknown
	found.IsRecorded, found.Verdict, found.Seq = true, d.Verdict, d.Seq
	switch {
	case d.Verdict == events.MigrationDone:
		if err := m.checkStored(ctx, r.Tenant, &d.NewHeap); err != nil || d.NewHeap == "" {
			return unknown, err // it was collected, and is made again
		}
		found.NewHeap, found.Size = d.NewHeap, d.Size
		return found, nil
	case d.Verdict == events.MigrationDifferent && r.RunID != "":
		content := d.Content.Value()
		found.ExecutionID = d.ExecutionID
		found.Difference = &replay.Difference{Part: d.Part, Line: d.Line, Call: d.Call, Artifact: d.Artifact, Recorded: content.Recorded, Replayed: content.Replayed}
		found.hidesTexts = events.ContentKeyID(&d.HeapMigrated) != ""
		return found, nil
	}
	return unknown, nil
}

// migrate makes a migration and records its verdict. began is the start of the request.
func (m *Migrator) migrate(ctx context.Context, r Request, unknown Result, began time.Time) (Result, error) {
	l, err := m.traceInPlace(ctx, r, unknown.Engine)
	if err != nil {
		return m.refuse(ctx, r, unknown, err, began)
	}
	defer l.close()
	x := &chain{Migrator: m, Request: r, lineage: l, result: unknown, restored: l.from}
	x.result.From = l.from
	for x.done < l.list.Len() {
		if err := x.leg(ctx); err != nil {
			return m.refuse(ctx, r, x.result, err, x.began)
		}
		if x.result.Verdict != "" {
			return x.result, nil
		}
		if r.Limit > 0 && time.Since(began) >= r.Limit && x.done < l.list.Len() {
			return x.result, runner.ErrMigrationUnfinished
		}
	}
	x.result.Verdict, x.result.NewHeap = events.MigrationDone, x.restored
	return x.result, nil
}

// traceInPlace is trace in a place of Request.Enter, because a lineage can be long and its
// recordings large.
func (m *Migrator) traceInPlace(ctx context.Context, r Request, engine events.Engine) (*lineage, error) {
	if r.Enter != nil {
		leave, err := r.Enter(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	return m.trace(ctx, r.Tenant, r.Heap, engine)
}

// refuse returns the result of a migration that failed with an error. It records the verdict
// unless a run needed the heap.
func (m *Migrator) refuse(ctx context.Context, r Request, result Result, err error, began time.Time) (Result, error) {
	why, ok := errors.AsType[*notMigratedError](err)
	if !ok {
		return result, err
	}
	result.Verdict, result.ExecutionID, result.Reason, result.Message = events.NotMigrated, why.execution, why.reason, why.message
	if r.RunID != "" {
		return result, nil
	}
	d := result.event(r, began)
	result.Seq, err = m.opts.Ledger.RecordMigration(ctx, r.Tenant, nil, d, nil)
	return result, err
}

// event returns the event about a result.
func (r *Result) event(q Request, began time.Time) *events.HeapMigrated {
	return &events.HeapMigrated{
		Heap: r.Heap, EngineID: r.EngineID, Engine: r.Engine, Verdict: r.Verdict, From: r.From, Executions: r.Executions, ExecutionID: r.ExecutionID, Reason: r.Reason,
		WallMillis: time.Since(began).Milliseconds(), Actor: q.Actor, RunID: q.RunID,
	}
}

// chain is a migration in progress.
type chain struct {
	*Migrator
	Request
	lineage *lineage
	result  Result
	// restored is the heap that the next leg starts from; empty for a fresh isolate. done
	// counts the executions that were replayed. began is the start of the leg.
	restored string
	done     int64
	began    time.Time
}

// leg replays executions for a time, and stores and records the heap of the last one. It sets
// the verdict of the result after a difference.
func (x *chain) leg(ctx context.Context) error {
	if x.Enter != nil {
		leave, err := x.Enter(ctx)
		if err != nil {
			return err
		}
		defer leave()
	}
	x.began = time.Now()
	ctx, memory := x.opts.Memory.OpenAccount(ctx)
	defer memory.Release()
	var heap []byte
	if x.restored != "" {
		var err error
		if heap, _, err = x.opts.Heaps.Heap(ctx, x.Tenant, x.restored); err != nil {
			return fmt.Errorf("read heap %s: %w", x.restored, err)
		}
	}
	ids, from := sha256.New(), x.done
	var first string
	for {
		id, err := x.lineage.at(x.done)
		if err != nil {
			return err
		}
		first = cmp.Or(first, id)
		rec, err := x.recording(ctx, x.Tenant, id)
		if err != nil {
			return err
		}
		report, made, err := x.opts.Replayer.Rebuild(ctx, memory, rec, heap)
		switch {
		case err != nil:
			return err
		case report.Verdict == events.NotReplayed:
			return &notMigratedError{id, report.Reason, report.Message}
		case report.Verdict == events.ReplayDifferent:
			return x.recordDifference(ctx, rec, report)
		}
		heap = made
		fmt.Fprintln(ids, id)
		x.done++
		x.result.Executions++
		if x.done == x.lineage.list.Len() || time.Since(x.began) >= x.opts.Leg {
			return x.record(ctx, rec, heap, legIDs{first, id, ids, int(x.done - from)})
		}
	}
}

// legIDs are the executions of a leg.
type legIDs struct {
	first, last string
	hash        hash.Hash
	count       int
}

// record stores and records the heap that the replay of an execution left.
func (x *chain) record(ctx context.Context, rec *ledger.Recording, heap []byte, ids legIDs) error {
	d := x.result.event(x.Request, x.began)
	left := rec.Ending.Heap
	d.Heap, d.EngineID, d.Parent = left.SHA256, left.EngineID, rec.Started.InputHeap
	d.Verdict, d.From, d.Size = events.MigrationDone, x.restored, int64(len(heap))
	d.Executions, d.FirstExecutionID, d.LastExecutionID, d.ExecutionsSHA256 = ids.count, ids.first, ids.last, hex.EncodeToString(ids.hash.Sum(nil))
	if x.done == x.lineage.list.Len() { // a migration of the same heap may be between the two
		d.Heap, d.EngineID = x.Heap, x.result.EngineID
	}
	seq, err := x.opts.Ledger.RecordMigration(ctx, x.Tenant, rec, d, func(keyID string) (string, error) {
		if keyID != "" {
			return x.opts.Heaps.PutEncryptedHeap(ctx, x.Tenant, heap, x.result.Engine.ID, keyID)
		}
		return x.opts.Heaps.PutHeap(ctx, x.Tenant, heap, x.result.Engine.ID)
	})
	if errors.Is(err, events.ErrShredded) {
		return &notMigratedError{ids.last, replay.ReasonContentShredded, "the content of the run was shredded"}
	}
	if err != nil {
		return err
	}
	x.restored, x.result.Seq, x.result.Size = d.NewHeap, seq, d.Size
	for last := x.last.Load(); last < seq && !x.last.CompareAndSwap(last, seq); last = x.last.Load() {
	}
	return nil
}

// recordDifference sets the verdict of the result, and records it.
func (x *chain) recordDifference(ctx context.Context, rec *ledger.Recording, report replay.Report) (err error) {
	r := &x.result
	r.Verdict, r.ExecutionID, r.Difference, r.hidesTexts = events.MigrationDifferent, rec.Request.ExecutionID, report.Difference, rec.Request.ContentKeyID() != ""
	d := r.event(x.Request, x.began)
	d.Part, d.Line, d.Call, d.Artifact = report.Difference.Part, report.Difference.Line, report.Difference.Call, report.Difference.Artifact
	d.FirstExecutionID, d.LastExecutionID = x.lineage.first, x.lineage.last
	d.Content = events.Plain(events.ReplayedContent{Recorded: report.Difference.Recorded, Replayed: report.Difference.Replayed})
	r.Seq, err = x.opts.Ledger.RecordMigration(ctx, x.Tenant, rec, d, nil)
	return err
}
