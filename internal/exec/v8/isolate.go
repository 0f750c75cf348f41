package v8

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

// ErrUnserializable reports a heap that holds something V8 cannot save.
var ErrUnserializable = errors.New("the heap holds an object that cannot be saved: a native resource is still referenced, or a FinalizationRegistry's callback keeps registering new garbage; drop every reference to it before the script ends")

// ErrDisposed reports the use of an isolate after Dispose.
var ErrDisposed = errors.New("the isolate was disposed of")

// Config says what an isolate starts from and what bounds it.
type Config struct {
	// Heap is a snapshot of the same engine, to continue from. Empty starts from
	// the base heap. It must come from Snapshot, unchanged: V8 trusts it blindly.
	// It is read by New alone: the caller may change or free it afterwards.
	Heap []byte
	// Plain asks for an ordinary isolate: faster, with WebAssembly, but it cannot
	// be saved and starts from no heap.
	Plain bool
	// HeapLimit bounds V8's heap, in bytes; 0 leaves V8's default. A run from a heap
	// that is close to it may use a sixteenth and 2 MiB more (see Result.BeyondLimit).
	HeapLimit int64
	// BufferLimit bounds the contents of all ArrayBuffers, in bytes; 0 is no limit.
	BufferLimit int64
	// Seed decides everything random in the run.
	Seed [16]byte
	// Start is the first reading of the script's clock, kept to the microsecond.
	Start time.Time
	// Output gets console messages as they are written; nil discards them.
	Output Output
	// Servers is what the script may call: the JSON of an object that holds, by
	// the name of each server, the names of its tools. Empty is nothing.
	Servers []byte
	// Host carries out the calls; required with Servers.
	Host Host
	// Globals are values that Run defines on the global object before it evaluates
	// the script: the JSON of an object. Empty is none.
	Globals []byte
}

// Output receives console messages on the isolate's thread.
type Output interface {
	// WriteMessage gets one message of valid UTF-8 without the final line end. It
	// must not keep text. An error ends the run.
	WriteMessage(level uint8, at time.Time, text []byte) error
}

// Host carries out what a script calls. Its methods are called on the isolate's
// thread.
type Host interface {
	// Call begins a call and must not wait for its answer. Calls of a run are
	// numbered from 1. The bytes must not be kept. An error ends the run.
	Call(number int, server, tool string, arguments []byte) error
	// Await is called while calls are pending and blocks until there is an
	// answer to one, or until due, which is zero when no timer is waited for. It
	// must end when the run is to end, with an error: Terminate alone does not
	// reach it.
	Await(due time.Time) (Answer, error)
}

// Answer is the host's word to a waiting script.
type Answer struct {
	// Number is the call that is answered, or 0 when it is none: then the timer
	// is due, and no later answer may be from before it.
	Number int
	// OK says that Text is a value as JSON; otherwise it is an error's message.
	OK   bool
	Text []byte
	// At is what the script's clock moves to, if it stands before it.
	At time.Time
}

// isolateSem holds the process's one right to have an isolate: a second one that can
// be saved corrupts the read-only heap they share.
var isolateSem = make(chan struct{}, 1)

// Isolate is one V8 isolate. Its methods, but Terminate, must be called by one
// goroutine, which New locks to its thread until Dispose.
type Isolate struct {
	plain  bool
	output cgo.Handle
	host   cgo.Handle
	// servers is what the run may call.
	servers []byte
	// globals are the values that the run gets.
	globals []byte
	pinned  runtime.Pinner

	mu      sync.Mutex // guards what follows, against Terminate
	ptr     *C.daybook_isolate
	running bool
	stopped bool
}

// New makes an isolate. It waits until the process's previous one was disposed
// of. The caller must call Dispose.
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
		return fmt.Errorf("new isolate: %d bytes are no heap", len(cfg.Heap)) // V8 would read past them
	case len(cfg.Heap) > math.MaxInt32:
		return fmt.Errorf("new isolate: a heap of %d bytes is more than V8 can restore (2 GiB)", len(cfg.Heap))
	case cfg.HeapLimit < 0 || cfg.BufferLimit < 0:
		return errors.New("new isolate: limits must not be negative")
	}
	return nil
}

// newIsolate restores heap, or runs the prelude when there is none. plainBase
// makes it one to be saved as what plain isolates restore.
func newIsolate(cfg Config, heap, prelude []byte, plainBase bool) (*Isolate, error) {
	isolateSem <- struct{}{}
	runtime.LockOSThread()

	i := &Isolate{plain: cfg.Plain}
	c := new(C.daybook_config)
	i.pinned.Pin(c)
	if len(heap) > 0 {
		i.pinned.Pin(&heap[0])
		c.heap = cBytes(heap)
	} else {
		i.pinned.Pin(&prelude[0])
		c.prelude = cBytes(prelude)
	}
	if cfg.Plain {
		c.plain = 1
	}
	if plainBase {
		c.plain_base = 1
	}
	if cfg.Output != nil {
		i.output = cgo.NewHandle(cfg.Output)
		c.output = C.uintptr_t(i.output)
	}
	if cfg.Host != nil {
		i.host = cgo.NewHandle(cfg.Host)
		c.host = C.uintptr_t(i.host)
	}
	i.servers, i.globals = cfg.Servers, cfg.Globals
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

// Assign gives an isolate that was made ahead of its run what only the run
// knows: Seed, Start, Output, Servers, Host and Globals of cfg. The rest of cfg must
// be what the isolate was made with. It must come before Run.
func (i *Isolate) Assign(cfg Config) error {
	if i.ptr == nil {
		return ErrDisposed
	}
	if i.output != 0 {
		i.output.Delete()
		i.output = 0
	}
	if cfg.Output != nil {
		i.output = cgo.NewHandle(cfg.Output)
	}
	if i.host != 0 {
		i.host.Delete()
		i.host = 0
	}
	if cfg.Host != nil {
		i.host = cgo.NewHandle(cfg.Host)
	}
	i.servers, i.globals = cfg.Servers, cfg.Globals
	var seed [16]C.uint8_t
	for n, b := range cfg.Seed {
		seed[n] = C.uint8_t(b)
	}
	C.daybook_assign(i.ptr, &seed[0], C.double(toMillis(cfg.Start)), C.uintptr_t(i.output), C.uintptr_t(i.host))
	return nil
}

// Status tells how a run ended.
type Status int

// How a run ends. The numbers are those of bridge.h.
const (
	Completed    Status = C.DAYBOOK_COMPLETED
	Exception    Status = C.DAYBOOK_EXCEPTION     // uncaught error or unhandled rejection
	Terminated   Status = C.DAYBOOK_TERMINATED    // by Terminate
	OutOfMemory  Status = C.DAYBOOK_OUT_OF_MEMORY // V8's heap limit
	NeverSettled Status = C.DAYBOOK_NEVER_SETTLED // nothing pending can resume it
	SyntaxError  Status = C.DAYBOOK_SYNTAX_ERROR  // refused before it ran
	internal     Status = C.DAYBOOK_INTERNAL
)

// Result is what a run came to.
type Result struct {
	Status Status
	// Text is the result of a completed run, nil for none; otherwise the error,
	// nil for a run that was terminated or ran out of memory.
	Text *string
	// Truncated is set when Text was cut at 16 MiB.
	Truncated bool
	// Line and Column, 1-based, of a SyntaxError; 0 when unknown.
	Line, Column int
	// TimersCancelled counts the timers that a failed run left, its own and those
	// of earlier runs. They were cancelled.
	TimersCancelled int
	// GlobalsRefused counts the members of Config.Globals that the global object did
	// not take: an earlier run made the property read-only or froze the object.
	GlobalsRefused int
	// GlobalsHidden counts the members whose names an earlier run declared with let,
	// const or class: the script sees the declared values.
	GlobalsHidden int
	// PeakHeap is the most V8 heap in use before any collection, in bytes.
	PeakHeap int64
	// BeyondLimit is set when the run started from a heap close to Config.HeapLimit, needed
	// memory beyond it, and did not free that. A heap that is larger than the one before
	// must then not be kept.
	BeyondLimit bool
	// AboveLimit is set when the heap is also larger than Config.HeapLimit. It must not be
	// kept: a run that starts from it runs out of memory. Its saved size does not show that:
	// long rows of one value, such as the empty parts of tables, are saved as one.
	AboveLimit bool
	// Clock is where the script's clock stood at the end.
	Clock time.Time
}

// Script is what a run evaluates. All of it must be valid UTF-8.
type Script struct {
	// Source is what V8 gets. To be named in stack traces it must end in a
	// sourceURL comment with Name.
	Source []byte
	// Name is the script's name in the heap: later runs show frames of its functions
	// under it. It must not contain white space, quotes or parentheses, and must end
	// in # and eight hex digits, as ScriptName makes it.
	Name string
	// File is what frames of the run itself show instead of Name.
	File string
	// Mappings are those of a source map with one source, when Source is generated
	// from it. Stack traces then show positions in that source. They are kept in the
	// heap, up to a size.
	Mappings string
}

// Run evaluates a script and blocks until the event loop ends or Terminate is
// called. Each isolate runs once, but after a SyntaxError, when nothing ran, it
// takes another script.
func (i *Isolate) Run(script Script) (Result, error) {
	i.mu.Lock()
	if i.ptr == nil {
		i.mu.Unlock()
		return Result{}, ErrDisposed
	}
	if i.stopped {
		i.mu.Unlock()
		return Result{Status: Terminated}, nil
	}
	i.running = true
	i.mu.Unlock()

	var c C.daybook_result
	C.daybook_run(i.ptr, C.daybook_script{
		source:   cBytes(script.Source),
		name:     cBytes([]byte(script.Name)),
		file:     cBytes([]byte(script.File)),
		mappings: cBytes([]byte(script.Mappings)),
	}, cBytes(i.servers), cBytes(i.globals), &c)

	i.mu.Lock()
	i.running = false
	i.mu.Unlock()

	r := Result{
		Status:    Status(c.status),
		Truncated: c.truncated != 0,
		Line:      int(c.line),
		Column:    int(c.column),
		PeakHeap:  int64(c.peak_heap),

		TimersCancelled: int(c.timers_cancelled),
		GlobalsRefused:  int(c.globals_refused),
		GlobalsHidden:   int(c.globals_hidden),
		BeyondLimit:     c.beyond_limit != 0,
		AboveLimit:      c.above_limit != 0,
		Clock:           fromMillis(float64(c.clock_ms)),
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

// Terminate ends a run soon, from any goroutine. Before Run it makes Run return
// at once; after Run it does nothing. Some of V8's own loops do not notice it:
// whoever needs certainty kills the process.
func (i *Isolate) Terminate() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	if i.running && i.ptr != nil {
		C.daybook_terminate(i.ptr)
	}
}

// Snapshot saves the heap. Only Dispose may follow. The bytes are V8's own and
// valid until Dispose. ErrUnserializable reports a heap that cannot be saved.
// It must not be called after a run that was terminated or ran out of memory:
// its objects may be half made.
func (i *Isolate) Snapshot() ([]byte, error) {
	if i.ptr == nil {
		return nil, ErrDisposed
	}
	if i.plain {
		return nil, errors.New("snapshot: a plain isolate cannot be saved")
	}
	var blob C.daybook_bytes
	switch C.daybook_snapshot(i.ptr, &blob) {
	case C.DAYBOOK_SNAPSHOT_OK:
		return unsafe.Slice((*byte)(unsafe.Pointer(blob.data)), int(blob.size)), nil
	case C.DAYBOOK_SNAPSHOT_UNSERIALIZABLE:
		return nil, ErrUnserializable
	default:
		return nil, errors.New("snapshot: V8 made no blob")
	}
}

// Dispose frees the isolate. It must be called by the goroutine that made it;
// a second call does nothing.
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
	if i.output != 0 {
		i.output.Delete()
	}
	if i.host != 0 {
		i.host.Delete()
	}
	i.pinned.Unpin()
	runtime.UnlockOSThread()
	<-isolateSem
}

// baseHeap is the heap every new isolate starts from: a context in which the
// prelude ran. A process makes it once, or receives it: it is equal in all
// processes of one engine.
type baseHeap struct {
	plain bool

	mu   sync.Mutex // guards what follows
	done bool
	blob []byte
	err  error
}

// heapForSaved is the base heap of isolates that can be saved. heapForPlain is the
// one of plain isolates, which restore it twice as fast as they would run the
// prelude. No other isolate can.
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

// get returns the heap and makes it at the first call.
func (b *baseHeap) get() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.done {
		b.blob, b.err = makeBase(b.plain)
		b.done = true
	}
	return b.blob, b.err
}

// set uses a heap that another process made, unless there is one already.
func (b *baseHeap) set(blob []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.done {
		b.blob, b.done = blob, true
	}
}

func makeBase(plain bool) ([]byte, error) {
	i, err := newIsolate(Config{Start: time.Unix(0, 0)}, nil, preludeSource(), plain)
	if err != nil {
		return nil, fmt.Errorf("make the base heap: %w", err)
	}
	defer i.Dispose()
	blob, err := i.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("make the base heap: %w", err)
	}
	return append([]byte(nil), blob...), nil
}

// Warm starts V8 and makes the base heap of plain isolates or of those that can
// be saved, which New otherwise does when first called. It returns the heap, which
// the caller must not change.
//
// A base heap that Warm returned in another process of the same engine is used
// instead of making one: restoring it takes a tenth of the time. It must come from
// a process in which no user code ran. Warm keeps base. Empty makes a heap.
func Warm(plain bool, base []byte) ([]byte, error) {
	if err := start(); err != nil {
		return nil, err
	}
	heap := baseHeapFor(plain)
	if len(base) == 0 {
		return heap.get()
	}
	heap.set(base)
	// One isolate does what V8 does only once in a process.
	isolate, err := New(Config{Plain: plain})
	if err != nil {
		return nil, err
	}
	isolate.Dispose()
	return heap.get()
}
