package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"daybook/events"
	"daybook/ledger"
	"daybook/runner"
)

// Reasons of runs that are not replayed. If the worker of the replay dies, the reason is
// one of package runner, such as runner.ReasonWorkerDied.
const (
	ReasonNotExecuted     = "not_executed"     // no script was started
	ReasonContentShredded = "content_shredded" // the source, output or an answer is shredded
	ReasonNoKeys          = "no_keys"          // the content is encrypted, and there are no keys
	ReasonSourceMissing   = "source_missing"   // the source, a value or a WebAssembly module is not in the blob store
	ReasonHeapMissing     = "heap_missing"     // the input heap is not in the blob store
	ReasonHeapCollected   = "heap_collected"   // the input heap was deleted deliberately
	ReasonEngine          = "engine"           // the input heap belongs to another engine
	ReasonJIT             = "jit"              // the run had the optimizing compiler, which the workers may not use
	ReasonLimits          = "limits"           // the heap limit of the run is above that of the workers
	ReasonAnswerNotKept   = "answer_not_kept"  // only the hash of an answer is recorded
	ReasonTimeout         = "timeout"          // the replay did not end in time
	ReasonDamaged         = "damaged"          // a blob of the record is damaged
)

// Limits of the time of a replay. A run that takes T may take longer when it is replayed on
// a slower machine.
const (
	timeoutFactor = 4
	minTimeout    = 10 * time.Second
	maxTimeout    = 20 * time.Minute // four times the longest time limit of a run
	// stoppedTimeout limits the replay of a run that was stopped and left neither output nor
	// calls: there is nothing to reach.
	stoppedTimeout = time.Second
)

// Workers refuse other start times. The record of an export can have any.
var (
	earliestStart = time.Date(0, 1, 2, 0, 0, 0, 0, time.UTC)
	latestStart   = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC)
)

// Heaps reads heaps by tenant and hash.
type Heaps interface {
	// Heap returns a heap after it checked the hash. Errors are events.ErrNotFound,
	// events.ErrRemoved, events.ErrDamaged, and others if the store cannot answer now.
	Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error)
}

// Options are what a Replayer uses.
type Options struct {
	Workers runner.Workers
	Heaps   Heaps
	// ExplainRemoval returns why Heaps no longer has a heap; see ledger.Ledger.ExplainRemoval.
	// It is required if Heaps can return events.ErrRemoved.
	ExplainRemoval func(ctx context.Context, tenant, heap string) error
	// MigratedHeap, if set, returns a stored heap of an engine that takes the place of the
	// input heap of an attempt, which another engine made; empty if none is recorded.
	MigratedHeap func(ctx context.Context, tenant string, s *events.ExecutionStarted, engineID string) (heap string, err error)
	// Memory limits the memory that heaps take; nil for no limit.
	Memory runner.Memory
	// MaxHeapLimitBytes is the largest heap limit that Workers accept; 0 for any. It is the
	// limit of the workers that list the globals of heaps.
	MaxHeapLimitBytes int64
}

// Replayer executes recorded runs again. It is safe for concurrent use.
type Replayer struct {
	opts Options

	mu      sync.Mutex
	engines map[bool]events.Engine // by whether the runs are stateful; guarded by mu
}

// New returns a Replayer.
func New(opts Options) *Replayer { return &Replayer{opts: opts, engines: map[bool]events.Engine{}} }

// engine returns the engine of the workers, which does not change. Reading it may occupy a
// worker, so it is kept.
func (r *Replayer) engine(ctx context.Context, stateful bool) (events.Engine, error) {
	r.mu.Lock()
	engine, known := r.engines[stateful]
	r.mu.Unlock()
	if known {
		return engine, nil
	}
	engine, err := r.opts.Workers.Engine(ctx, stateful)
	if err != nil {
		return engine, fmt.Errorf("read the engine of the workers: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engines[stateful] = engine
	return engine, nil
}

// Replay executes a recorded run again and compares it. An error means that there is no
// verdict: ctx has ended, the workers or the store cannot serve it now, or the run was removed
// with its volume meanwhile (CodeNotFound).
func (r *Replayer) Replay(ctx context.Context, rec *ledger.Recording) (Report, error) {
	return (&replay{rec: rec, replayer: r}).report(ctx)
}

// report replays the run and returns the report.
func (p *replay) report(ctx context.Context) (Report, error) {
	if m := p.replayer.opts.Memory; m != nil {
		var memory runner.MemoryAccount
		ctx, memory = m.OpenAccount(ctx)
		defer memory.Release()
		p.memory = memory
	}
	return p.finish(ctx)
}

// finish replays and measures the time that it takes.
func (p *replay) finish(ctx context.Context) (Report, error) {
	started := time.Now()
	report, err := p.replay(ctx)
	if err != nil {
		if reason, message := whyNot(err); reason != "" {
			report, err = p.impossible(reason, message), nil
		} else {
			err = fmt.Errorf("replay execution %s: %w", p.rec.Request.ExecutionID, err)
		}
	}
	// The output is read during the replay. Without this check, a volume that is removed meanwhile
	// would look like a difference.
	if err == nil && (report.Verdict != events.ReplayIdentical || report.Stopped) {
		err = p.rec.CheckExists(ctx)
	}
	report.WallTime = time.Since(started)
	return report, err
}

// replay is one replay.
type replay struct {
	rec      *ledger.Recording
	replayer *Replayer
	memory   runner.MemoryAccount // nil for no limit

	// isRebuild is true for a replay whose input heap is restored instead of the recorded one.
	isRebuild bool
	restored  []byte

	// engine is that of the workers. Its JIT is set to that of the replay, which may be without it.
	engine    events.Engine
	inputSize int64 // of the input heap in bytes
	// migrated is the heap that is restored in place of the input heap; empty for none.
	migrated  string
	host      *runner.ReplayHost
	output    *outputComparison
	artifacts *artifactComparison
	outcome   runner.Outcome
	heap      string    // the hash of the heap in outcome; empty for none
	timeline  *recorder // nil for none
}

// whyNot returns why a run can never be replayed, or an empty reason if another try may
// succeed.
func whyNot(err error) (reason, message string) {
	missing, _ := errors.AsType[*runner.RecordEndsError](err)
	switch {
	case errors.Is(err, events.ErrShredded):
		return ReasonContentShredded, "the content of the run was shredded"
	case errors.Is(err, ledger.ErrNoKeys):
		return ReasonNoKeys, "the content of the run is encrypted, and the keys are not here"
	case errors.Is(err, events.ErrDamaged):
		return ReasonDamaged, err.Error()
	case errors.Is(err, events.ErrNotFound):
		return ReasonSourceMissing, err.Error()
	case missing != nil && missing.Number > 0:
		return ReasonAnswerNotKept, missing.Error()
	}
	return "", ""
}

func (p *replay) impossible(reason, message string) Report {
	report := p.newReport(events.NotReplayed)
	report.Reason, report.Message = reason, message
	return report
}

func (p *replay) newReport(verdict events.ReplayVerdict) Report {
	report := Report{Verdict: verdict, Stopped: p.isStopped(), Engine: p.engine, MigratedHeap: p.migrated}
	if p.rec.Started != nil {
		report.RecordedEngine = p.rec.Started.Engine
	}
	report.Heap = p.heap
	return report
}

// isStopped reports whether the recorded run was stopped before its end.
func (p *replay) isStopped() bool {
	if p.rec.Status == events.StatusCompleted || runner.IsRefusal(p.rec.Ending.Reason) {
		return false
	}
	switch p.rec.Ending.Reason {
	case runner.ReasonException, runner.ReasonSyntaxError, runner.ReasonNeverSettled, runner.ReasonUnserializableHeap:
		return false
	}
	return true
}

func (p *replay) replay(ctx context.Context) (Report, error) {
	if p.rec.Started == nil {
		return p.impossible(ReasonNotExecuted, "no script was started"), nil
	}
	p.output = compareOutput(ctx, p.rec.Output, p.rec.Started.FirstLine)
	defer p.output.stop()
	p.artifacts = &artifactComparison{recorded: p.rec.Artifacts, keyedHash: p.rec.KeyedHash, line: p.rec.Started.FirstLine}
	if runner.IsRefusal(p.rec.Ending.Reason) {
		if nothing, err := p.output.isReproduced(); err != nil {
			return Report{}, err
		} else if nothing {
			return p.impossible(ReasonNotExecuted, "no script was started"), nil
		}
	}
	if err := p.rec.ContentAvailable(); err != nil {
		return Report{}, err
	}
	var err error
	if p.engine, err = p.replayer.engine(ctx, p.rec.Request.Stateful); err != nil {
		return Report{}, err
	}
	task, report, err := p.newTask(ctx)
	if err != nil || report != nil {
		if report == nil {
			report = &Report{}
		}
		return *report, err
	}
	p.output.isStopped, p.artifacts.isStopped = p.isStopped(), p.isStopped()
	p.output.isTruncated = p.rec.Ending.Output != nil && p.rec.Ending.Output.Truncated
	if p.output.isStopped {
		nothing, err := p.isReproduced()
		if err != nil {
			return Report{}, err
		}
		if nothing {
			task.Timeout = stoppedTimeout
		}
	}
	if p.timeline != nil {
		task.OnTimer = func(f runner.TimerFired) error {
			if err := p.checkReached(); err != nil {
				return err
			}
			p.timeline.takeTimer(f)
			return nil
		}
	}
	p.outcome, err = p.replayer.opts.Workers.Run(ctx, task, p.takeLines)
	if len(p.outcome.Heap) > 0 {
		p.heap = events.Hash(p.outcome.Heap)
	}
	compared, compareErr := p.compare(ctx, err)
	if p.timeline != nil {
		p.noteEnd(err, compared)
	}
	return compared, compareErr
}

// noteEnd adds the end to the timeline, if there is one: that of the script, or for a run that
// was stopped, the place where its record ends.
func (p *replay) noteEnd(runErr error, compared Report) {
	switch {
	case runErr == nil && p.outcome.Status != "" && !compared.Stopped:
		p.timeline.finish(&p.outcome, p.outcome.Status)
	case compared.Stopped && compared.Verdict == events.ReplayIdentical:
		p.timeline.finish(&runner.Outcome{}, p.rec.Status)
	}
}

// takeLines compares output while it is written.
func (p *replay) takeLines(_ context.Context, lines []events.Line) error {
	p.artifacts.countLines(lines)
	for _, l := range lines {
		p.timeline.takeLine(l)
		if err := p.output.take(l); err != nil {
			return err
		}
	}
	return p.checkReached()
}

// checkReached returns errReached if the recorded run was stopped and the replay has
// reproduced all of its record.
func (p *replay) checkReached() error {
	if !p.output.isStopped {
		return nil
	}
	done, err := p.isReproduced()
	if err == nil && done {
		return errReached
	}
	return err
}

// Call implements runner.Host. A call that is not recorded is never answered if the run
// may have made it.
func (p *replay) Call(ctx context.Context, number int, server, tool string, arguments []byte) error {
	p.timeline.takeCall(number, server+"."+tool, arguments)
	err := p.host.Call(ctx, number, server, tool, arguments)
	if diverged, ok := errors.AsType[*runner.DivergedError](err); ok && diverged.Recorded == nil && p.mayLackCall(number) {
		err = nil
	}
	if err != nil {
		return err
	}
	if err := p.compareArguments(ctx, number, arguments); err != nil {
		return err
	}
	return p.checkReached()
}

// compareArguments returns a *runner.DivergedError if the recorded text of the arguments of
// a call does not match. The text is not compared if only its hash is readable.
func (p *replay) compareArguments(ctx context.Context, number int, arguments []byte) error {
	i := slices.IndexFunc(p.rec.Calls, func(c ledger.RecordedCall) bool { return c.Number == number })
	if i < 0 {
		return nil
	}
	c := &p.rec.Calls[i]
	text, err := p.rec.Text(ctx, c.Arguments)
	if err != nil || text == nil || bytes.Equal(text, arguments) {
		return nil //nolint:nilerr // the hash was compared
	}
	return &runner.DivergedError{Number: number, Recorded: c, Made: &ledger.HostCall{Number: number, Server: c.Server, Tool: c.Tool, Arguments: arguments}}
}

// mayLackCall reports whether a call of the run may be missing in the record. The runner
// records calls in the order of their numbers, and does not record those that it has not
// sent when the script ends. A script that reached its end has waited for the answers to all
// its calls.
func (p *replay) mayLackCall(number int) bool {
	if last := len(p.rec.Calls); last > 0 && number <= p.rec.Calls[last-1].Number {
		return false
	}
	switch p.rec.Ending.Reason {
	case runner.ReasonException, runner.ReasonUnserializableHeap: // the script may have thrown
		return true
	}
	return p.isStopped()
}

// Next implements runner.Host. It ends the replay of a run that was stopped before the
// script takes a step beyond the record.
func (p *replay) Next(ctx context.Context, due time.Time) (runner.HostAnswer, error) {
	if err := p.checkReached(); err != nil {
		return runner.HostAnswer{}, err
	}
	a, err := p.host.Next(ctx, due)
	if err == nil && a.Number > 0 && p.timeline != nil {
		p.timeline.takeAnswer(p.toolOf(a.Number), a)
	}
	return a, err
}

// toolOf returns the tool of a recorded call, as server.tool.
func (p *replay) toolOf(number int) string {
	for i := range p.rec.Calls {
		if c := &p.rec.Calls[i]; c.Number == number {
			return c.Server + "." + c.Tool
		}
	}
	return ""
}

// isReproduced reports whether the replay has written all recorded output, has created all
// recorded artifacts and has made all recorded calls.
func (p *replay) isReproduced() (bool, error) {
	done, err := p.output.isReproduced()
	return done && p.artifacts.isComplete() && p.host.IsComplete(), err
}

// newTask returns the task of the recorded run. If it cannot be run, newTask returns the
// report that says why.
func (p *replay) newTask(ctx context.Context) (t runner.Task, report *Report, err error) {
	req, s := p.rec.Request, p.rec.Started
	content := req.Content.Value()
	code, err := p.rec.Text(ctx, &content.Source)
	if err != nil {
		return t, nil, err
	}
	hash, err := p.rec.KeyedHash(events.Hash(code))
	if err != nil {
		return t, nil, err
	}
	if hash != req.SourceSHA256 {
		return t, nil, fmt.Errorf("the source does not match its hash %s: %w", req.SourceSHA256, events.ErrDamaged)
	}
	globals, err := p.rec.Text(ctx, content.Globals)
	if err != nil {
		return t, nil, err
	}
	files, err := p.rec.Text(ctx, content.Files)
	if err != nil {
		return t, nil, err
	}
	jit := p.hasJIT()
	if jit && !p.engine.JIT {
		r := p.impossible(ReasonJIT, "the run had the optimizing compiler, which decides the bytes of its heap, and the workers may not use it; start the server, or daybook replay --from-export, with --jit=on")
		return t, &r, nil
	}
	if req.Stateful {
		p.engine.JIT = jit
	}
	heap := p.restored
	p.restored = nil // the account releases it once the worker has it
	if s.InputHeap != "" && !p.isRebuild {
		if heap, report, err = p.inputHeap(ctx); err != nil || report != nil {
			return t, report, err
		}
	}
	p.inputSize = int64(len(heap))
	mb := int64(s.Limits.HeapMemoryMaxMB)
	limit := mb << 20
	// Workers take 0 as no limit, and the record of an export can have any limits: even ones that 64 bits cannot hold in bytes.
	if most := p.replayer.opts.MaxHeapLimitBytes; most > 0 && (mb < 1 || mb > most>>20) {
		r := p.impossible(ReasonLimits, fmt.Sprintf("the run had a heap limit of %d MB, and at most %d are allowed; raise --heap-memory-ceiling", s.Limits.HeapMemoryMaxMB, most>>20))
		return t, &r, nil
	}
	if at := s.StartTime.Time; at.Before(earliestStart) || at.After(latestStart) { // only in an export
		r := p.impossible(ReasonLimits, "the run started at "+at.Format(time.RFC3339)+", which the clock of a script cannot show")
		return t, &r, nil
	}
	p.host = runner.NewReplayHost(p.rec.Calls)
	t = runner.Task{
		Tenant: req.Tenant, Session: req.SessionID, Code: code, FileName: req.ShownFileName(), Globals: globals, Files: files, Modules: recordedModules{p.rec}, Heap: heap, Stateful: req.Stateful,
		HeapLimitBytes: limit, ArrayBufferLimitBytes: limit, Seed: p.rec.Seed, Start: s.StartTime.Time, SkipWaits: true, NodeGlobals: s.NodeGlobals, JIT: jit, HideNames: req.ContentKeyID() != "",
		Timeout: timeoutOf(s.Limits), OnArtifact: p.takeArtifact,
	}
	if t.WASMModules, err = p.wasmModules(ctx); err != nil {
		return t, nil, err
	}
	if len(p.rec.Callable) > 0 {
		t.Servers, t.Host = p.rec.Callable, p
	}
	if p.memory != nil {
		t.ReserveHeap, t.OnHeapReceived = p.memory.Reserve, p.memory.Release
	}
	return t, nil, nil
}

// hasJIT reports whether V8 optimizes the replay of a stateful run: if it optimized the run. If the
// heap is not compared, for a run of another engine or in a Rebuild, the workers decide.
func (p *replay) hasJIT() bool {
	switch {
	case !p.rec.Request.Stateful:
		return false
	case p.engine.ID == p.rec.Started.Engine.ID && !p.isRebuild:
		return p.rec.Started.Engine.JIT
	default:
		return p.engine.JIT
	}
}

// inputHeap returns the input heap of the run, or its recorded migration to the engine of the
// workers. If there is neither, it returns the report that says why.
func (p *replay) inputHeap(ctx context.Context) (heap []byte, report *Report, err error) {
	opts, tenant, s := &p.replayer.opts, p.rec.Request.Tenant, p.rec.Started
	key := s.InputHeap
	if p.engine.ID != s.Engine.ID {
		if opts.MigratedHeap != nil {
			if p.migrated, err = opts.MigratedHeap(ctx, tenant, s, p.engine.ID); err != nil {
				return nil, nil, err
			}
		}
		if p.migrated == "" {
			message := fmt.Sprintf("the input heap was made by engine %s, and the workers have engine %s", s.Engine.ID, p.engine.ID)
			if opts.MigratedHeap != nil {
				message += "; migrate it first with \"daybook heap migrate " + cmp.Or(s.MigratedFrom, key) + "\""
			}
			r := p.impossible(ReasonEngine, message)
			return nil, &r, nil
		}
		key = p.migrated
	}
	heap, _, err = opts.Heaps.Heap(ctx, tenant, key)
	if errors.Is(err, events.ErrRemoved) {
		err = opts.ExplainRemoval(ctx, tenant, key)
	}
	_, isLost := errors.AsType[*events.LostError](err)
	switch {
	case isLost, errors.Is(err, events.ErrNotFound):
		r := p.impossible(ReasonHeapMissing, fmt.Sprintf("the input heap %s is not in the blob store", key))
		return nil, &r, nil
	case ledger.CodeOf(err) == ledger.CodeGone && !errors.Is(err, events.ErrShredded):
		r := p.impossible(ReasonHeapCollected, fmt.Sprintf("the input heap %s was deleted", key))
		return nil, &r, nil
	case err != nil:
		return nil, nil, fmt.Errorf("read heap %s: %w", key, err)
	}
	return heap, nil, nil
}

// timeoutOf returns the time limit of a replay. The record of an export can have any limits.
func timeoutOf(l events.Limits) time.Duration {
	secs := min(max(l.ExecutionTimeoutSecs, 0), int(maxTimeout/time.Second))
	return min(max(timeoutFactor*time.Duration(secs)*time.Second, minTimeout), maxTimeout)
}
