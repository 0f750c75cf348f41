package embed

import (
	"context"
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
	if len(opts.Keys) == 0 {
		return ErrBadKey
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	report, err := audit.VerifyExport(ctx, opts.Dir, audit.VerifyOptions{Keys: opts.Keys, Source: opts.Dir})
	if err != nil {
		return err
	}
	if report.Verdict != audit.Intact && report.Verdict != audit.IntactUpTo {
		return &VerdictError{report}
	}
	var keys events.Keys
	if opts.KeyDir != "" {
		if keys, err = keyring.Read(opts.KeyDir); err != nil {
			return err
		}
	}
	store, err := exported.Open(opts.Dir, report.Signed, keys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	recordings, err := selectRecordings(ctx, store, keys, opts)
	if err != nil {
		return err
	}
	if opts.Selected != nil {
		opts.Selected(len(recordings))
	}
	parallel := max(opts.Parallel, 1)
	pool := worker.New(worker.Options{Idle: parallel, MaxHeapLimitBytes: heapCeiling(recordings), Logger: opts.Logger})
	defer func() { err = errors.Join(err, pool.Close()) }()
	return replayInOrder(ctx, replay.New(replay.Options{Workers: pool, Heaps: store}), recordings, parallel, each)
}

// selectRecordings returns the selected runs that have ended, oldest first.
func selectRecordings(ctx context.Context, store *exported.Store, keys events.Keys, opts ReplayExportOptions) (list []*ledger.Recording, err error) {
	matched := make([]int, len(opts.Executions))
	for _, x := range store.Executions() {
		wanted := len(opts.Executions) == 0
		for i, prefix := range opts.Executions {
			if strings.HasPrefix(x.ID, prefix) {
				wanted = true
				matched[i]++
			}
		}
		if !wanted || opts.Session != "" && x.Session != opts.Session {
			continue
		}
		rec, err := ledger.ReadRecording(ctx, store, keys, x.Tenant, x.ID)
		if ledger.CodeOf(err) == ledger.CodeConflict {
			continue // it has not ended
		}
		if err != nil {
			return nil, err
		}
		list = append(list, rec)
	}
	for i, n := range matched {
		if n != 1 {
			return nil, &SelectionError{fmt.Errorf("%d executions of the export have an id that begins with %q", n, opts.Executions[i])}
		}
	}
	return list, nil
}

// SelectionError is returned by ReplayExport for an id that names no execution of the export,
// or several.
type SelectionError struct{ err error }

// Error returns the message.
func (e *SelectionError) Error() string { return e.err.Error() }

// heapCeiling returns the largest heap limit of recorded runs in bytes.
func heapCeiling(list []*ledger.Recording) int64 {
	most := 1
	for _, rec := range list {
		most = max(most, rec.Request.Limits.HeapMemoryMaxMB)
	}
	return int64(most) << 20
}

// replayInOrder replays runs, several at a time, and calls each with the verdicts in order.
func replayInOrder(ctx context.Context, r *replay.Replayer, list []*ledger.Recording, parallel int, each func(Replayed) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(context.Canceled)
	places := make(chan struct{}, parallel)
	results := make([]chan Replayed, len(list))
	for i := range results {
		results[i] = make(chan Replayed, 1)
	}
	running.Go(func() {
		for i, rec := range list {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			running.Go(func() {
				defer func() { <-places }()
				report, err := r.Replay(ctx, rec)
				if err != nil {
					stop(err)
					return
				}
				results[i] <- replayedOf(rec.Request.ExecutionID, report)
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
