package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/modules/runfiles"
	"daybook/ledger"
)

// Reasons of runs that fail before their script starts.
const (
	ReasonSourceMissing      = "source_missing"
	ReasonSourceDamaged      = "source_damaged"
	ReasonSourceSealed       = "source_sealed"
	ReasonHeapDamaged        = "heap_damaged"
	ReasonHeapEngineMismatch = "heap_engine_mismatch"
	ReasonHeapUnavailable    = "heap_unavailable"
	ReasonHeapCollected      = "heap_collected"
)

// IsRefusal reports whether a run with this reason failed before its script started.
func IsRefusal(reason string) bool {
	switch reason {
	case ReasonSourceMissing, ReasonSourceDamaged, ReasonSourceSealed, ReasonHeapDamaged, ReasonHeapEngineMismatch, ReasonHeapUnavailable, ReasonHeapCollected, ledger.ReasonSessionHeadLost:
		return true
	}
	return false
}

// maxHeapReadTries is the number of tries of this runner to read the heap of a run
// before the run fails. With the default delays that takes about three minutes; a blob
// store that recovers earlier costs the run nothing.
const maxHeapReadTries = 10

// input holds everything that a run starts from.
type input struct {
	engine events.Engine
	layers []string
	code   []byte
	// globals is the JSON of the values passed to the run; empty for none.
	globals []byte
	// files is the JSON of the files of the run; empty for none.
	files []byte
	// heap is the verified blob until a worker has received it, heapSize its length in
	// bytes, hash its key. All are empty for a fresh isolate.
	heap     []byte
	heapSize int64
	hash     string
	// migratedFrom is the heap of another engine of which hash is a migration.
	migratedFrom string
	warnings     []string
	// callableTools holds the names of the tools that the script may call, by server.
	callableTools map[string][]string
	// wasm are the WebAssembly modules of the run, wasmRecord how the started event names them.
	wasm       []WASMModule
	wasmRecord []events.WASMModule
	// refusal, if not nil, is why the script cannot be run.
	refusal *refusal
	// wasStopped is true if the run was stopped before the input was complete.
	wasStopped bool
}

// refusal is the reason and the error message of a run that fails before it starts.
type refusal struct{ reason, message string }

// workerIdentity caches the engines and layers of the workers. They do not change while
// the workers exist, and reading them may occupy a worker.
type workerIdentity struct {
	mu      sync.Mutex
	engines map[bool]events.Engine // by whether the runs are stateful
	layers  map[bool][]string      // likewise
}

func (i *workerIdentity) get(ctx context.Context, w Workers, stateful bool) (events.Engine, []string, error) {
	if engine, layers, ok := i.lookup(stateful); ok {
		return engine, layers, nil
	}
	// Several runs may call Engine at the same time. They get the same result.
	engine, err := w.Engine(ctx, stateful)
	if err != nil {
		return engine, nil, fmt.Errorf("read the engine of the workers: %w", err)
	}
	layers, err := w.Layers(ctx, stateful)
	if err != nil {
		return engine, nil, fmt.Errorf("read the sandbox layers of the workers: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.engines == nil {
		i.engines, i.layers = map[bool]events.Engine{}, map[bool][]string{}
	}
	i.engines[stateful], i.layers[stateful] = engine, layers
	return engine, layers, nil
}

func (i *workerIdentity) lookup(stateful bool) (events.Engine, []string, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	engine, ok := i.engines[stateful]
	return engine, i.layers[stateful], ok
}

// fetch reads everything that a run starts from. After an error another try may succeed;
// a permanent problem is returned as input.refusal. When the run is stopped, readCtx ends
// and ctx does not. fetch then reads nothing more, does not wait for memory, and returns
// an input without source and heap. memory is the account of readCtx.
func (r *Runner) fetch(ctx, readCtx context.Context, plan ledger.Plan, memory MemoryAccount) (input, error) {
	req := plan.Request
	req.Heap = plan.Heap // in a session, the session head
	var in input
	var err error
	if in.engine, in.layers, err = r.workerIdentity.get(ctx, r.opts.Workers, req.Stateful); err != nil {
		return in, err
	}
	if err = r.fetchSource(readCtx, req, &in); err == nil && in.refusal == nil {
		err = r.fetchWASM(readCtx, plan, &in)
	}
	if err == nil && in.refusal == nil {
		if err = r.fetchHeap(readCtx, req, &in, memory); err == nil {
			refuseLostHead(req, &in)
			in.callableTools = r.listCallableTools(ctx, plan)
		}
	}
	if err != nil && readCtx.Err() != nil && ctx.Err() == nil {
		return input{engine: in.engine, layers: in.layers, wasStopped: true}, nil
	}
	return in, err
}

// listCallableTools returns the tools that a run may call. A later attempt has the
// tools of the first one, because a script can see them.
func (r *Runner) listCallableTools(ctx context.Context, plan ledger.Plan) map[string][]string {
	switch {
	case r.opts.Servers == nil:
		return nil
	case plan.CallableKnown:
		return plan.Callable
	default:
		return r.opts.Servers.Servers(ctx, plan.Request)
	}
}

func (r *Runner) fetchSource(ctx context.Context, req ledger.Request, in *input) error {
	if req.Content.Sealed != nil && req.Content.Plain == nil {
		in.refusal = &refusal{ReasonSourceSealed, "The source of this run is encrypted, and this runner has no key for it."}
		return nil
	}
	content := req.Content.Value()
	var err error
	if in.code, in.refusal, err = r.readText(ctx, req, &content.Source, "source"); err != nil || in.refusal != nil {
		return err
	}
	// Decryption has verified an encrypted source, and the request holds only its keyed
	// hash.
	if got := events.Hash(in.code); got != req.SourceSHA256 && req.ContentKeyID() == "" {
		in.refusal = &refusal{ReasonSourceDamaged, fmt.Sprintf("The source of this run is damaged: its SHA-256 is %s, the request says %s.", got, req.SourceSHA256)}
		return nil
	}
	if content.Files != nil {
		if in.files, in.refusal, err = r.readText(ctx, req, content.Files, "list of files"); err != nil || in.refusal != nil {
			return err
		}
		if !areFiles(in.files) {
			in.refusal = &refusal{ReasonSourceDamaged, "The files of this run are damaged: they are not the JSON of an object of texts."}
			return nil
		}
	}
	if content.Globals == nil {
		return nil
	}
	if in.globals, in.refusal, err = r.readText(ctx, req, content.Globals, "data"); err != nil || in.refusal != nil {
		return err
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(in.globals, &members) != nil || members == nil {
		in.refusal = &refusal{ReasonSourceDamaged, "The data of this run is damaged: it is not the JSON of an object."}
	}
	return nil
}

// areFiles reports whether a text is the JSON of files that a run can have.
func areFiles(text []byte) bool {
	var files map[string]string
	return json.Unmarshal(text, &files) == nil && runfiles.Check(files) == nil
}

// readText returns a text of a request, from the event or from the blob store. It returns a
// permanent problem as a refusal. what names the text in the refusal.
func (r *Runner) readText(ctx context.Context, req ledger.Request, body *events.Body, what string) ([]byte, *refusal, error) {
	if body.Blob == nil {
		return []byte(body.Text), nil, nil
	}
	text, err := r.opts.Texts.Text(ctx, req.Tenant, body.Blob.SHA256)
	switch {
	case errors.Is(err, events.ErrNotFound):
		return nil, &refusal{ReasonSourceMissing, fmt.Sprintf("The %s of this run, text %s, is not in the blob store.", what, body.Blob.SHA256)}, nil
	case errors.Is(err, events.ErrShredded):
		return nil, &refusal{ReasonSourceSealed, fmt.Sprintf("The %s of this run is encrypted, and this runner has no key for it.", what)}, nil
	case errors.Is(err, events.ErrDamaged):
		return nil, &refusal{ReasonSourceDamaged, fmt.Sprintf("The %s of this run, text %s, is damaged in the blob store.", what, body.Blob.SHA256)}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("read the %s: %w", what, err)
	}
	return text, nil, nil
}

func (r *Runner) fetchHeap(ctx context.Context, req ledger.Request, in *input, memory MemoryAccount) error {
	if req.Heap == "" {
		return nil
	}
	if !req.Stateful {
		in.warnings = append(in.warnings, fmt.Sprintf("Heap %s was not restored: this run keeps no state.", req.Heap))
		return nil
	}
	limit := time.Duration(req.Limits.ExecutionTimeoutSecs) * time.Second
	readCtx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	blob, info, err := r.opts.Heaps.Heap(readCtx, req.Tenant, req.Heap)
	switch {
	case err != nil && readCtx.Err() != nil && ctx.Err() == nil:
		in.refusal = &refusal{ReasonHeapUnavailable, fmt.Sprintf(
			"Heap %s could not be read within the time limit of the run, %s: the memory or the blob store is busy with other runs. Run again later.", req.Heap, limit)}
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("read heap %s: %w", req.Heap, err)
	case err != nil && in.migratedFrom != "": // another try migrates again
		return r.mayFail(req, in, fmt.Errorf("read heap %s: %w", req.Heap, err))
	case errors.Is(err, events.ErrNotFound):
		// The text MUST equal that of package ledger at submission: readers drop
		// repeated warnings and then show it once.
		in.warnings = append(in.warnings, fmt.Sprintf("heap %s is not on record; starting from a fresh isolate", req.Heap))
	case errors.Is(err, events.ErrRemoved):
		removal := r.opts.Ledger.ExplainRemoval(ctx, req.Tenant, req.Heap)
		_, isLost := errors.AsType[*events.LostError](removal)
		reason := ReasonHeapCollected
		switch {
		case isLost, errors.Is(removal, events.ErrDamaged):
			reason = ReasonHeapDamaged
		case ledger.CodeOf(removal) != ledger.CodeGone:
			return fmt.Errorf("read heap %s: %w", req.Heap, removal)
		}
		in.refusal = &refusal{reason, strings.ToUpper(removal.Error()[:1]) + removal.Error()[1:] + "."}
	case errors.Is(err, events.ErrDamaged):
		in.refusal = &refusal{ReasonHeapDamaged, fmt.Sprintf(
			"Heap %s is damaged in the blob store and was not restored: %s. Run again with another heap, or without one.", req.Heap, damageReason(err))}
	case err != nil:
		return r.mayFail(req, in, fmt.Errorf("read heap %s: %w", req.Heap, err))
	case info.EngineID != in.engine.ID && in.migratedFrom == "":
		memory.Release() // the replays take it too
		return r.fetchMigrated(ctx, req, in, memory, info.EngineID)
	default:
		in.heap, in.heapSize, in.hash = blob, int64(len(blob)), req.Heap
	}
	return nil
}

// mayFail returns err for another try of the run, or refuses the run after the last one.
func (r *Runner) mayFail(req ledger.Request, in *input, err error) error {
	tries := r.heapReadFailures.add(req.Seq)
	if tries < maxHeapReadTries {
		return err
	}
	in.refusal = &refusal{ReasonHeapUnavailable, fmt.Sprintf("Heap %s could not be read in %d tries. Run again once the blob store is reachable.", req.Heap, tries)}
	return nil
}

// fetchMigrated reads the migration of a heap of another engine. The run holds its slot while
// the heap is migrated, and its time limit does not apply yet.
func (r *Runner) fetchMigrated(ctx context.Context, req ledger.Request, in *input, memory MemoryAccount, engineID string) error {
	why := "."
	if r.opts.Migrations != nil {
		migrated, err := r.opts.Migrations.Migrate(ctx, req, req.Heap)
		refused, isRefused := errors.AsType[*NotMigratedError](err)
		switch {
		case err == nil:
			in.migratedFrom, req.Heap = req.Heap, migrated
			return r.fetchHeap(ctx, req, in, memory)
		case ctx.Err() != nil, errors.Is(err, ErrMigrationUnfinished):
			return fmt.Errorf("migrate heap %s: %w", req.Heap, err)
		case !isRefused:
			return r.mayFail(req, in, fmt.Errorf("migrate heap %s: %w", req.Heap, err))
		}
		why = ". It cannot be migrated: " + refused.Why + "."
	}
	in.refusal = &refusal{ReasonHeapEngineMismatch, fmt.Sprintf(
		"Heap %s was made by engine %s and cannot be restored by engine %s. Run on a runner of that engine, or without the heap%s", req.Heap, engineID, in.engine.ID, why)}
	return nil
}

// damageReason returns what is wrong with a blob that the message already names.
func damageReason(err error) string {
	if damaged, ok := errors.AsType[*events.BlobDamagedError](err); ok {
		return damaged.Why
	}
	return err.Error()
}

// refuseLostHead makes a turn fail if its session head cannot be restored.
func refuseLostHead(req ledger.Request, in *input) {
	if req.Turn == nil || req.Heap == "" {
		return
	}
	switch {
	case in.refusal == nil && in.hash == "":
		in.warnings = nil
		in.refusal = &refusal{message: fmt.Sprintf("Heap %s is not recorded.", req.Heap)}
	case in.refusal == nil, in.refusal.reason == ReasonHeapUnavailable:
		return
	}
	in.refusal = &refusal{ledger.ReasonSessionHeadLost, in.refusal.message +
		" This session continues from that heap. Call open_session with the same intent to start the session from a fresh isolate, or reset the session to another of its heaps."}
}
