package v8

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
)

/*
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"
)

// errUnserializable is returned when the heap holds an object that V8 cannot save.
var errUnserializable = errors.New("the heap holds an object that cannot be saved: a native resource is still referenced, or a FinalizationRegistry's callback keeps registering new garbage; drop every reference to it before the script ends")

// errDisposed is returned when an isolate is used after Dispose.
var errDisposed = errors.New("the isolate was disposed of")

// Config has the inputs and the limits of an isolate.
type Config struct {
	// Heap is the heap to continue from, as Snapshot of the same engine returned it. Empty
	// starts from the base heap. V8 does not check a heap, so the caller MUST ensure that it
	// is unchanged. Only New reads it: the caller may modify or free it after that.
	Heap []byte
	// Plain selects an ordinary isolate. It is faster and has WebAssembly, but it cannot
	// restore a heap and cannot be saved.
	Plain bool
	// HeapLimit limits V8's heap, in bytes. 0 selects V8's default. A run from a heap that
	// is close to the limit may use a sixteenth and 2 MiB more; see Result.BeyondLimit.
	HeapLimit int64
	// BufferLimit limits the contents of all ArrayBuffers, in bytes. 0 means no limit.
	BufferLimit int64
	// Seed determines all random values in the run.
	Seed [16]byte
	// Start is the first time that the script's clock shows, in microseconds.
	Start time.Time
	// Output receives console messages when they are written, and artifacts if it is an
	// ArtifactOutput. Nil discards them.
	Output Output
	// Servers has the tools that the script may call: a JSON object with the names of the
	// tools of each tool server, by the name of the server. Empty means none.
	Servers []byte
	// Host performs the host calls. Required with Servers.
	Host Host
	// Globals is a JSON object. Run defines its members on the global object before it
	// evaluates the script. Empty means none.
	Globals []byte
	// SkipWaits fires timers without waiting for them in real time. The order of everything
	// in the run, and its clock, stay the same.
	SkipWaits bool
	// NodeGlobals defines the globals Buffer, process and global of Node, unless an earlier
	// run of the heap defined them.
	NodeGlobals bool
	// JIT lets V8 optimize the code of the run in an isolate that can be saved, and requires
	// AllowJIT. The optimized code is discarded when the script ends. The saved heap has other
	// bytes than without JIT, but runs with and without it continue from both. A plain isolate
	// always optimizes.
	JIT bool
	// WASMModules are offered to the script. Only for a plain isolate.
	WASMModules []WASMModule
	// Timers receives a report of each timer that fires. Nil for none, which costs nothing.
	Timers Timers
}

// Timers receives the timers of a run on the isolate's thread.
type Timers interface {
	// TimerFires is called before the callback of a timer runs. An error ends the run.
	TimerFires(Timer) error
}

// TimerKind is what set a timer. The numbers are those in bridge.h.
type TimerKind int

// The kinds of timers.
const (
	Timeout   TimerKind = iota // setTimeout
	Interval                   // setInterval
	Immediate                  // setImmediate
)

// Timer is a timer that fires.
type Timer struct {
	// At is the time on the script's clock.
	At   time.Time
	Kind TimerKind
	// Delay is the delay that it was set with; 0 for an Immediate.
	Delay time.Duration
	// Name is the name of the callback, cut at 128 bytes; empty if it has none. Reading it
	// ran no code.
	Name string
}

// Output receives console messages on the isolate's thread.
type Output interface {
	// WriteMessage receives one message of valid UTF-8 without the final line end. It
	// MUST NOT keep text. An error ends the run.
	WriteMessage(level uint8, at time.Time, text []byte) error
}

// ArtifactOutput is an Output that also receives artifacts. Another Output drops them.
type ArtifactOutput interface {
	Output
	// WriteArtifact receives an artifact, whose name and media type are valid UTF-8, after
	// the messages that the script wrote before it. It MUST NOT keep content. An error
	// ends the run.
	WriteArtifact(name, mime string, at time.Time, content []byte) error
}

// Host performs the host calls of a script. Its methods are called on the isolate's thread.
type Host interface {
	// Call starts a call. It MUST NOT wait for the answer and MUST NOT keep arguments.
	// Calls of a run are numbered from 1. An error ends the run.
	Call(number int, server, tool string, arguments []byte) error
	// Await is called while calls are pending. It blocks until a call is answered or the
	// script's clock reaches due. due is zero if the script waits for no timer. When the
	// run is stopped, Await MUST return an error: Terminate does not interrupt it.
	Await(due time.Time) (Answer, error)
}

// Answer is an answer to a call, or the report that a timer is due.
type Answer struct {
	// Number is the number of the answered call. 0 means that the timer is due; no later
	// answer may then have a time before that timer.
	Number int
	// OK reports whether the call succeeded. Text is then a value as JSON, else the
	// message of an error.
	OK   bool
	Text []byte
	// At is the time of the answer. The script's clock advances to At, unless the clock is
	// ahead of it.
	At time.Time
}

// isolateSem limits the process to one isolate: a second one that can be saved corrupts the
// read-only heap that they share.
var isolateSem = make(chan struct{}, 1)

// Isolate is one V8 isolate. New locks its goroutine to its thread until Dispose. All methods
// except Terminate must be called by that goroutine.
type Isolate struct {
	plain   bool
	output  cgo.Handle
	host    cgo.Handle
	servers []byte // Config.Servers
	globals []byte // Config.Globals
	// options has the bits of Config.SkipWaits, Config.NodeGlobals and Config.JIT.
	options C.int
	timers  Timers // Config.Timers
	wasm    []WASMModule
	pinned  runtime.Pinner

	mu      sync.Mutex // guards the fields below from Terminate
	ptr     *C.daybook_isolate
	running bool
	stopped bool
	ended   bool // the last run was not cut short
}

// New creates an isolate. It blocks until the previous isolate of the process is disposed of.
// The caller MUST call Dispose.
func New(cfg Config) (*Isolate, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := start(); err != nil {
		return nil, err
	}
	heap := cfg.Heap
	if len(heap) == 0 {
		blob, err := baseHeapFor(cfg.Plain).get()
		if err != nil {
			return nil, err
		}
		heap = blob
	}
	return newIsolate(cfg, heap, nil, false)
}

func (cfg Config) check() error {
	switch {
	case cfg.Plain && len(cfg.Heap) > 0:
		return errors.New("new isolate: a plain isolate cannot restore a heap")
	case len(cfg.Heap) > 0 && len(cfg.Heap) < 1<<10:
		return fmt.Errorf("new isolate: %d bytes are not a heap", len(cfg.Heap)) // V8 would read past them
	case len(cfg.Heap) > math.MaxInt32:
		return fmt.Errorf("new isolate: a heap of %d bytes is more than V8 can restore (2 GiB)", len(cfg.Heap))
	case cfg.HeapLimit < 0 || cfg.BufferLimit < 0:
		return errors.New("new isolate: limits must not be negative")
	}
	return nil
}

// newIsolate creates an isolate from heap, or by running prelude if heap is empty; an empty
// prelude means the embedded one. With
// plainBase, the isolate can be saved as the base heap of plain isolates.
func newIsolate(cfg Config, heap, prelude []byte, plainBase bool) (*Isolate, error) {
	isolateSem <- struct{}{}
	runtime.LockOSThread()

	i := &Isolate{plain: cfg.Plain}
	c := new(C.daybook_config)
	i.pinned.Pin(c)
	if len(heap) > 0 {
		i.pinned.Pin(&heap[0])
		c.heap = cBytes(heap)
	} else if len(prelude) > 0 {
		i.pinned.Pin(&prelude[0])
		c.prelude = cBytes(prelude)
	}
	if cfg.Plain {
		c.plain = 1
	}
	if plainBase {
		c.plain_base = 1
	}
	i.setOutput(cfg.Output)
	i.setHost(cfg.Host)
	c.output, c.host = C.uintptr_t(i.output), C.uintptr_t(i.host)
	i.keepInputs(cfg)
	c.heap_limit, c.buffer_limit = C.size_t(cfg.HeapLimit), C.size_t(cfg.BufferLimit)
	for n, b := range cfg.Seed {
		c.seed[n] = C.uint8_t(b)
	}
	c.start_ms = C.double(toMillis(cfg.Start))

	var why [1024]C.char
	i.ptr = C.daybook_new(c, &why[0], C.size_t(len(why)))
	if i.ptr == nil {
		i.release()
		return nil, fmt.Errorf("new isolate: %s", C.GoString(&why[0]))
	}
	return i, nil
}

// Assign sets the fields that were not known when an isolate was created ahead of its run or renewed: Seed, Start,
// Output, Servers, Host, Globals, SkipWaits, NodeGlobals, JIT, WASMModules and Timers of cfg. The
// other fields of cfg must be equal to those that the isolate was created with. Call it before
// Run.
func (i *Isolate) Assign(cfg Config) error {
	if i.ptr == nil {
		return errDisposed
	}
	i.setOutput(cfg.Output)
	i.setHost(cfg.Host)
	i.keepInputs(cfg)
	var seed [16]C.uint8_t
	for n, b := range cfg.Seed {
		seed[n] = C.uint8_t(b)
	}
	C.daybook_assign(i.ptr, &seed[0], C.double(toMillis(cfg.Start)), C.uintptr_t(i.output), C.uintptr_t(i.host))
	return nil
}

func (i *Isolate) setOutput(output Output) {
	if i.output != 0 {
		i.output.Delete()
		i.output = 0
	}
	if output != nil {
		i.output = cgo.NewHandle(output)
	}
}

func (i *Isolate) setHost(host Host) {
	if i.host != 0 {
		i.host.Delete()
		i.host = 0
	}
	if host != nil {
		i.host = cgo.NewHandle(host)
	}
}

// keepInputs keeps the fields of cfg that Run uses.
func (i *Isolate) keepInputs(cfg Config) {
	i.servers, i.globals, i.timers, i.options, i.wasm = cfg.Servers, cfg.Globals, cfg.Timers, 0, cfg.WASMModules
	if cfg.SkipWaits {
		i.options |= C.DAYBOOK_SKIP_WAITS
	}
	if cfg.NodeGlobals {
		i.options |= C.DAYBOOK_NODE_GLOBALS
	}
	if cfg.JIT && !i.plain {
		i.options |= C.DAYBOOK_OPTIMIZE
	}
}

// Status is how a run ended.
type Status int

// The values of Status. The numbers are those in bridge.h.
const (
	Completed    Status = C.DAYBOOK_COMPLETED
	Exception    Status = C.DAYBOOK_EXCEPTION     // uncaught error or unhandled rejection
	Terminated   Status = C.DAYBOOK_TERMINATED    // Terminate was called
	OutOfMemory  Status = C.DAYBOOK_OUT_OF_MEMORY // V8 reached its heap limit
	NeverSettled Status = C.DAYBOOK_NEVER_SETTLED // the script awaits something that nothing pending can settle
	SyntaxError  Status = C.DAYBOOK_SYNTAX_ERROR  // V8 refused the script; nothing ran
	internal     Status = C.DAYBOOK_INTERNAL
)

// Result is the result of a run.
type Result struct {
	Status Status
	// Text is the value of a completed run, nil for none. For other runs it is the error,
	// nil if the run was terminated or ran out of memory.
	Text *string
	// Truncated reports whether Text was cut at 16 MiB.
	Truncated bool
	// Line and Column are the position of a SyntaxError, 1-based; 0 if it is unknown.
	Line, Column int
	// TimersCancelled is the number of timers that were cancelled because the run failed:
	// its own and those of earlier runs.
	TimersCancelled int
	// GlobalsRefused are the names of members of Config.Globals that could not be defined,
	// because an earlier run made the property read-only or changed the global object.
	GlobalsRefused []string
	// GlobalChange is what an earlier run did to the global object, such as "froze
	// globalThis", if some names are in GlobalsRefused because it accepts no new properties.
	GlobalChange string
	// GlobalsHidden are the names of members that an earlier run declared with let, const or
	// class. The script sees the declared values.
	GlobalsHidden []string
	// PeakHeap is the maximum size of V8's heap before any garbage collection, in bytes. What
	// earlier runs of the isolate left does not count, unless V8 has collected a part of it.
	PeakHeap int64
	// BeyondLimit is set if the run started from a heap close to Config.HeapLimit, needed
	// memory beyond it, and did not free that memory. The heap of the run must then not be
	// kept if it is larger than the input heap.
	BeyondLimit bool
	// AboveLimit is set if the heap is also larger than Config.HeapLimit. Such a heap must
	// not be kept: a run that starts from it runs out of memory. The size of the saved heap
	// does not show that the heap is too large, because many equal values in a row, such as
	// the empty parts of tables, are saved as one.
	AboveLimit bool
	// Clock is the time of the script's clock at the end.
	Clock time.Time
	// ReadCollected is set if the run read a WeakRef whose target was collected, and
	// Finalized if a callback of a FinalizationRegistry ran, also after the end of the
	// script. Such a run may not repeat.
	ReadCollected, Finalized bool
}

// Script is the script that a run evaluates. All fields must be valid UTF-8.
type Script struct {
	// Source is the code that V8 evaluates. It must end in a sourceURL comment with Name
	// for stack traces to show the name.
	Source []byte
	// Name is the name of the script in the heap. Stack traces of later runs show it for
	// frames of its functions. It must not contain white space, quotes or parentheses, and
	// it must end in # and eight hex digits; see ScriptName.
	Name string
	// File is the name that stack traces of the run itself show instead of Name.
	File string
	// Mappings are the mappings of a source map with one source, if Source is generated
	// from that source. Stack traces then show positions in it. The mappings are kept in
	// the heap, up to a maximum size.
	Mappings string
	// Modules is the JSON of an Imports: what the script imports. Empty for nothing.
	Modules []byte
	// Bindings is a script that declares the names which the import statements bind: the
	// values are the elements of __daybookImports. Empty for none.
	Bindings []byte
}

// Imports is what a script imports.
type Imports struct {
	// Bundles are bundles of modules, as package bundle encodes them.
	Bundles []json.RawMessage `json:"bundles"`
	// Static are the import statements.
	Static []Import `json:"imports"`
}

// Import is an import statement with the exported names that it imports: "*" is the namespace.
type Import struct {
	Specifier string   `json:"specifier"`
	Names     []string `json:"names"`
}

// Run evaluates a script and blocks until the event loop ends or Terminate is called. An isolate
// runs one script, and another one after Renew. After a SyntaxError, for which nothing ran, it can run another one.
func (i *Isolate) Run(script Script) (Result, error) {
	i.mu.Lock()
	if i.ptr == nil {
		i.mu.Unlock()
		return Result{}, errDisposed
	}
	if i.stopped {
		i.mu.Unlock()
		return Result{Status: Terminated}, nil
	}
	i.running = true
	i.mu.Unlock()

	if err := i.offerWASM(); err != nil {
		i.mu.Lock()
		i.running = false
		i.mu.Unlock()
		return Result{}, err
	}
	var timers cgo.Handle
	if i.timers != nil {
		timers = cgo.NewHandle(i.timers)
		defer timers.Delete()
	}
	var c C.daybook_result
	C.daybook_run(i.ptr, C.daybook_script{
		source:   cBytes(script.Source),
		name:     cBytes([]byte(script.Name)),
		file:     cBytes([]byte(script.File)),
		mappings: cBytes([]byte(script.Mappings)),
		modules:  cBytes(script.Modules),
		bindings: cBytes(script.Bindings),
	}, cBytes(i.servers), cBytes(i.globals), i.options, C.uintptr_t(timers), &c)

	i.mu.Lock()
	i.running = false
	i.ended = c.status != C.DAYBOOK_TERMINATED && c.status != C.DAYBOOK_OUT_OF_MEMORY && c.status != C.DAYBOOK_INTERNAL
	i.mu.Unlock()

	r := Result{
		Status:    Status(c.status),
		Truncated: c.truncated != 0,
		Line:      int(c.line),
		Column:    int(c.column),
		PeakHeap:  int64(c.peak_heap),

		TimersCancelled: int(c.timers_cancelled),
		GlobalsRefused:  splitNames(c.globals_refused),
		GlobalChange:    string(goBytes(c.global_change)),
		GlobalsHidden:   splitNames(c.globals_hidden),
		BeyondLimit:     c.beyond_limit != 0,
		AboveLimit:      c.above_limit != 0,
		Clock:           fromMillis(float64(c.clock_ms)),
		ReadCollected:   c.noted&C.DAYBOOK_NOTED_WEAK_REF != 0,
		Finalized:       c.noted&C.DAYBOOK_NOTED_FINALIZER != 0,
	}
	if c.has_text != 0 {
		text := string(unsafe.Slice((*byte)(unsafe.Pointer(c.text.data)), int(c.text.size)))
		r.Text = &text
	}
	if r.Status == internal {
		return Result{}, fmt.Errorf("run: %s", *r.Text)
	}
	return r, nil
}

// Renew gives a plain isolate a new context after Run, so that it can serve another run, which does
// not notice the previous one. Call Assign before that run. Renew returns false if the isolate cannot
// serve one: the previous run was stopped or ran out of memory, or left something in the isolate.
// Then only Dispose may be called.
func (i *Isolate) Renew() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ptr == nil || !i.plain || !i.ended || i.stopped || C.daybook_renew(i.ptr) == 0 {
		return false
	}
	i.setOutput(nil)
	i.setHost(nil)
	i.keepInputs(Config{})
	return true
}

// Terminate ends a run soon. Before Run it makes Run return without running the script; after
// Run it has no effect. Some loops inside V8 do not notice the request, so a caller that must end
// a run in time has to kill the process. Terminate is safe for concurrent use.
func (i *Isolate) Terminate() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	if i.running && i.ptr != nil {
		C.daybook_terminate(i.ptr)
	}
}

// Snapshot saves the heap and returns it. Only Dispose may be called after it. The bytes belong
// to V8 and are valid until Dispose. It returns an error if V8 cannot save the heap. It
// MUST NOT be called after a run that was terminated or ran out of memory, because objects may be
// incomplete.
func (i *Isolate) Snapshot() ([]byte, error) {
	if i.ptr == nil {
		return nil, errDisposed
	}
	if i.plain {
		return nil, errors.New("snapshot: a plain isolate cannot be saved")
	}
	var blob C.daybook_bytes
	switch C.daybook_snapshot(i.ptr, &blob) {
	case C.DAYBOOK_SNAPSHOT_OK:
		return unsafe.Slice((*byte)(unsafe.Pointer(blob.data)), int(blob.size)), nil
	case C.DAYBOOK_SNAPSHOT_UNSERIALIZABLE:
		return nil, errUnserializable
	default:
		return nil, errors.New("snapshot: V8 returned no heap")
	}
}

// Dispose frees the isolate. It must be called by the goroutine that called New. It is safe to
// call more than once.
func (i *Isolate) Dispose() {
	i.mu.Lock()
	ptr := i.ptr
	i.ptr = nil
	i.mu.Unlock()
	if ptr == nil {
		return
	}
	C.daybook_dispose(ptr)
	i.release()
}

func (i *Isolate) release() {
	i.setOutput(nil)
	i.setHost(nil)
	i.pinned.Unpin()
	runtime.UnlockOSThread()
	<-isolateSem
}

// baseHeap is the heap that every fresh isolate starts from: a context in which the prelude ran.
// A process creates it once or receives it. It is equal in all processes of one engine.
type baseHeap struct {
	plain bool

	mu   sync.Mutex // guards the fields below
	done bool
	blob []byte
	err  error
}

// heapForSaved is the base heap of isolates that can be saved. heapForPlain is the base heap of
// plain isolates; restoring it takes half the time of running the prelude. No other isolate can
// restore heapForPlain.
var (
	heapForSaved = baseHeap{}
	heapForPlain = baseHeap{plain: true}
)

func baseHeapFor(plain bool) *baseHeap {
	if plain {
		return &heapForPlain
	}
	return &heapForSaved
}

// get returns the heap. The first call creates it.
func (b *baseHeap) get() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.done {
		b.blob, b.err = makeBase(b.plain)
		b.done = true
	}
	return b.blob, b.err
}

// set sets the heap to one that another process created, unless there is one already.
func (b *baseHeap) set(blob []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.done {
		b.blob, b.done = blob, true
	}
}

func makeBase(plain bool) ([]byte, error) {
	i, err := newIsolate(Config{Start: time.Unix(0, 0)}, nil, nil, plain)
	if err != nil {
		return nil, fmt.Errorf("create the base heap: %w", err)
	}
	defer i.Dispose()
	blob, err := i.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("create the base heap: %w", err)
	}
	return append([]byte(nil), blob...), nil
}

// Warm starts V8 and creates the base heap of plain isolates or of those that can be saved, which
// New otherwise does in its first call. It returns the base heap. The caller MUST NOT modify it.
//
// If base is not empty, Warm uses it instead of creating one, which takes a tenth of the time.
// base must be what Warm returned in another process of the same engine in which no user code
// had run. Warm keeps base.
func Warm(plain bool, base []byte) ([]byte, error) {
	if err := start(); err != nil {
		return nil, err
	}
	heap := baseHeapFor(plain)
	if len(base) == 0 {
		return heap.get()
	}
	heap.set(base)
	// Creating one isolate does the work that V8 does once in a process.
	isolate, err := New(Config{Plain: plain})
	if err != nil {
		return nil, err
	}
	isolate.Dispose()
	return heap.get()
}

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._/@+-]`)

// ScriptName returns the name of a script in the heap: the name of its file, #, and the first
// eight hex digits of the SHA-256 of source. source is the text that the caller submitted.
// Characters that a sourceURL comment or a stack trace cannot contain are replaced by "_".
func ScriptName(file string, source []byte) string {
	sum := sha256.Sum256(source)
	return unsafeInName.ReplaceAllString(file, "_") + "#" + hex.EncodeToString(sum[:4])
}
