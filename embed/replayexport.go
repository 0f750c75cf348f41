package embed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"daybook/audit"
	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/exec/replay"
	"daybook/internal/exec/worker"
	"daybook/internal/lifecycle/keyring"
	"daybook/internal/store/exported"
	"daybook/ledger"
)

// Replayed is the verdict of a replay.
type Replayed = httpapi.Replayed

// ReplayExportOptions select the runs of an export to replay.
type ReplayExportOptions struct {
	// Dir is the directory of the export.
	Dir string
	// Keys are the verification keys to trust. Required: a heap is restored only if a
	// checkpoint by one of them covers the event that has its hash.
	Keys []string
	// KeyDir is the directory of the content keys, for encrypted content; empty for none.
	KeyDir string
	// Executions are ids, or unique prefixes. Session is the name or the id of a session.
	// Default for both: all ended executions.
	Executions []string
	Session    string
	// Timeline adds the steps of each replay to its verdict.
	Timeline bool
	// HeapCeilingMB is the largest heap limit of a run that is replayed, in MiB, up to
	// MaxExportHeapMB. Default: 1024. A run with a larger one is not replayed.
	HeapCeilingMB int
	// JIT permits the optimizing compiler for runs that had it, as WorkerOptions.JIT does.
	// Without it they are not replayed.
	JIT bool
	// Parallel is the number of replays at a time. Default: 1.
	Parallel int
	// Selected, if set, is called once with the number of runs, before the first verdict.
	Selected func(runs int)
	// Logger receives messages of the workers. Default: they are discarded.
	Logger *slog.Logger
}

// VerdictError is returned by ReplayExport for an export whose events are not proven.
type VerdictError struct{ Report *Report }

// Error returns the verdict.
func (e *VerdictError) Error() string {
	first, _, _ := strings.Cut(e.Report.String(), "\n")
	return "the export is not proven, so nothing of it is executed: " + first
}

// ReplayExport executes runs of an export again, without a server, and compares them with
// the export. It first verifies the export with the given keys. It calls each with the
// verdicts in the order of the runs, and records nothing. Executions that have not ended in
// the export are left out.
func ReplayExport(ctx context.Context, opts ReplayExportOptions, each func(Replayed) error) (err error) {
	x, done, err := openExportReplay(ctx, opts)
	if err != nil {
		return err
	}
	defer done(&err)
	if opts.Selected != nil {
		opts.Selected(len(x.runs))
	}
	return x.replayInOrder(ctx, max(opts.Parallel, 1), each)
}

// openExportReplay verifies an export, selects its runs and starts workers. done MUST be
// called; it adds its errors.
func openExportReplay(ctx context.Context, opts ReplayExportOptions) (_ *exportReplay, done func(*error), err error) {
	if len(opts.Keys) == 0 {
		return nil, nil, ErrBadKey
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	verified := sha256.New()
	report, err := audit.VerifyExport(ctx, opts.Dir, audit.VerifyOptions{Keys: opts.Keys, Source: opts.Dir, EventLines: verified})
	if err != nil {
		return nil, nil, err
	}
	if report.Verdict != audit.Intact && report.Verdict != audit.IntactUpTo {
		return nil, nil, &VerdictError{report}
	}
	var keys events.Keys
	if opts.KeyDir != "" {
		if keys, err = keyring.Read(opts.KeyDir); err != nil {
			return nil, nil, err
		}
	}
	store, err := exported.Open(opts.Dir, verified.Sum(nil), report.Signed, keys)
	if err != nil {
		return nil, nil, err
	}
	x := &exportReplay{opts: opts, store: store, keys: keys}
	if err := x.selectRuns(ctx); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	ceiling := int64(min(x.heapMB, cmp.Or(opts.HeapCeilingMB, defaultExportHeapMB), MaxExportHeapMB)) << 20
	pool := worker.New(worker.Options{Idle: max(opts.Parallel, 1), MaxHeapLimitBytes: ceiling, JIT: opts.JIT, Logger: opts.Logger})
	x.replayer = replay.New(replay.Options{Workers: pool, Heaps: store, MaxHeapLimitBytes: ceiling})
	return x, func(err *error) { *err = errors.Join(*err, pool.Close(), store.Close()) }, nil
}

// The operator of the ledger chose the heap limits of the runs of an export, and the runs are
// executed elsewhere. So ReplayExportOptions.HeapCeilingMB bounds them.
const (
	MaxExportHeapMB     = 4096
	defaultExportHeapMB = 1024
)

// exportReplay is the replay of the runs of an export.
type exportReplay struct {
	opts     ReplayExportOptions
	store    *exported.Store
	keys     events.Keys
	replayer *replay.Replayer

	runs   []exported.Execution // that were selected and have ended, oldest first
	heapMB int                  // the largest heap limit of the runs
}

func (x *exportReplay) read(ctx context.Context, run exported.Execution) (*ledger.Recording, error) {
	return ledger.ReadRecording(ctx, x.store, x.keys, run.Tenant, run.ID)
}

// selectRuns sets runs and heapMB.
func (x *exportReplay) selectRuns(ctx context.Context) error {
	x.heapMB = 1
	matched := make([]int, len(x.opts.Executions))
	hasSession := x.opts.Session == ""
	for _, run := range x.store.Executions() {
		wanted := len(x.opts.Executions) == 0
		for i, prefix := range x.opts.Executions {
			if strings.HasPrefix(run.ID, prefix) {
				wanted = true
				matched[i]++
			}
		}
		if x.opts.Session != "" && run.Session != x.opts.Session {
			continue
		}
		if hasSession = true; !wanted {
			continue
		}
		rec, err := x.read(ctx, run)
		if ledger.CodeOf(err) == ledger.CodeConflict {
			continue // it has not ended
		}
		if err != nil {
			return err
		}
		x.runs = append(x.runs, run)
		x.heapMB = max(x.heapMB, rec.Request.Limits.HeapMemoryMaxMB)
	}
	if !hasSession {
		return &SelectionError{fmt.Errorf("no run of the export belongs to a session with the name or id %q; give the complete name or id, or make an export that has the session", x.opts.Session)}
	}
	for i, n := range matched {
		if n != 1 {
			return &SelectionError{fmt.Errorf("%d executions of the export have an id that begins with %q", n, x.opts.Executions[i])}
		}
	}
	return nil
}

// SelectionError is returned by ReplayExport for an id that names no execution of the export,
// or several.
type SelectionError struct{ err error }

var errNotOneRun = errors.New("the id names a run that has not ended in the export")

// Error returns the message.
func (e *SelectionError) Error() string { return e.err.Error() }

// withExportAdvice adds to the message of a replay that lacks a blob how to make an export that
// has it.
func withExportAdvice(reason, message string) string {
	switch reason {
	case replay.ReasonHeapMissing, replay.ReasonSourceMissing:
		return message + "; make the export with \"daybook events export --heaps\", which adds the blobs"
	}
	return message
}

// replayInOrder replays runs, several at a time, and calls each with the verdicts in order.
func (x *exportReplay) replayInOrder(ctx context.Context, parallel int, each func(Replayed) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(context.Canceled)
	places := make(chan struct{}, parallel)
	results := make([]chan Replayed, len(x.runs))
	for i := range results {
		results[i] = make(chan Replayed, 1)
	}
	running.Go(func() {
		for i, run := range x.runs {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			running.Go(func() {
				defer func() { <-places }()
				rec, err := x.read(ctx, run)
				var report replay.Report
				if err == nil {
					execute := x.replayer.Replay
					if x.opts.Timeline {
						execute = x.replayer.ReplaySteps
					}
					report, err = execute(ctx, rec)
				}
				if err != nil {
					stop(err)
					return
				}
				report.Message = withExportAdvice(report.Reason, report.Message)
				results[i] <- replayedOf(run.ID, report)
			})
		}
	})
	for _, result := range results {
		select {
		case replayed := <-result:
			if err := each(replayed); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
