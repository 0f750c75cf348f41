package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"daybook/events"
	"daybook/internal/exec/v8"
	"daybook/internal/globals"
)

// errProtocol is returned when a worker or its parent breaks the worker protocol.
var errProtocol = errors.New("worker broke protocol")

// helloMagic identifies the worker protocol and its version in the first frame. A process
// that reads anything else from its standard input was not started by a Pool.
const helloMagic = "daybook worker protocol 12"

// helloMessage is the first message to a worker.
type helloMessage struct {
	Magic string `json:"magic"`
	// Stateful selects the kind of the worker. A stateful worker runs only tasks whose
	// heap is saved, any other worker runs only tasks whose heap is not saved.
	Stateful bool `json:"stateful"`
	// BaseSize is the size in bytes of the base heap that follows. An earlier worker of
	// the pool created it. 0 asks the worker to create one and to send it.
	BaseSize int `json:"base_size,omitempty"`
	// Prelude is Options.Prelude.
	Prelude string `json:"prelude,omitempty"`
	// JIT is Options.JIT. A worker that creates the base heap also checks that V8 can optimize.
	JIT bool `json:"jit,omitempty"`
}

// maxBaseHeap is the maximum size of a base heap in the protocol, in bytes. A base heap has
// about 500 KB.
const maxBaseHeap = 8 << 20

// readyMessage reports that a worker can take a task.
type readyMessage struct {
	Engine v8.Engine `json:"engine"`
	// Layers are the sandbox layers that the worker found in force.
	Layers []string `json:"layers"`
	// Problem is why layers are missing, as far as the worker knows.
	Problem string `json:"problem,omitempty"`
	// BaseSize is the size in bytes of the base heap that follows; 0 if none follows.
	BaseSize int `json:"base_size,omitempty"`
}

// taskHeader precedes the parts of a task: servers, globals, files, WebAssembly modules, code
// or bundle request, and heap. Sizes are in bytes.
type taskHeader struct {
	FileName    string   `json:"file_name"`
	CodeSize    int      `json:"code_size"`
	HeapSize    int      `json:"heap_size"`
	Stateful    bool     `json:"stateful"`
	HeapLimit   int64    `json:"heap_limit"`
	BufferLimit int64    `json:"buffer_limit"`
	Seed        [16]byte `json:"seed"`
	StartMicros int64    `json:"start_micros"`
	// ServersSize is the size of runner.Task.Servers as JSON, the first part.
	ServersSize int `json:"servers_size"`
	// GlobalsSize is the size of runner.Task.Globals, the second part.
	GlobalsSize int `json:"globals_size,omitempty"`
	// SkipWaits is runner.Task.SkipWaits.
	SkipWaits bool `json:"skip_waits,omitempty"`
	// NodeGlobals is runner.Task.NodeGlobals.
	NodeGlobals bool `json:"node_globals,omitempty"`
	// JIT is runner.Task.JIT.
	JIT bool `json:"jit,omitempty"`
	// HideNames is runner.Task.HideNames.
	HideNames bool `json:"hide_names,omitempty"`
	// ListGlobals is runner.Task.ListGlobals.
	ListGlobals bool `json:"list_globals,omitempty"`
	// SkipGlobals is runner.Task.SkipGlobals.
	SkipGlobals int `json:"skip_globals,omitempty"`
	// ReportTimers asks for timer frames; see runner.Task.OnTimer.
	ReportTimers bool `json:"report_timers,omitempty"`
	// FilesSize is the size of runner.Task.Files, the third part.
	FilesSize int `json:"files_size,omitempty"`
	// HasModules reports that the parent provides packages.
	HasModules bool `json:"has_modules,omitempty"`
	// WASM are the WebAssembly modules of the task. Their bytes follow the files.
	WASM []wasmHeader `json:"wasm,omitempty"`
	// BundleSize is the size of runner.Task.Bundle, which is in the place of the code.
	BundleSize int `json:"bundle_size,omitempty"`
	// KeepHeap asks the worker to keep a copy of the heap that the task saves, if it has at most
	// maxAheadHeap bytes, until the next task or a drop frame.
	KeepHeap bool `json:"keep_heap,omitempty"`
	// FromKept reports that the heap of the task is the one that the worker keeps. It does not
	// follow; HeapSize is its size.
	FromKept bool `json:"from_kept,omitempty"`
}

// check returns errProtocol for sizes that no task has.
func (h *taskHeader) check() error {
	if h.SkipGlobals < 0 || h.SkipGlobals > globals.MaxSkip {
		return fmt.Errorf("%w: a list without its first %d globals", errProtocol, h.SkipGlobals)
	}
	for _, part := range []struct {
		size, most int
	}{{h.ServersSize, maxServers}, {h.GlobalsSize, maxGlobals}, {h.FilesSize, maxFiles}, {h.BundleSize, maxBundleRequest}, {h.CodeSize, maxCode}, {h.HeapSize, math.MaxInt32}} {
		if part.size < 0 || part.size > part.most {
			return fmt.Errorf("%w: a part of %d bytes, %d are allowed", errProtocol, part.size, part.most)
		}
	}
	return nil
}

// maxServers limits the JSON of runner.Task.Servers in the protocol, in bytes. No task reaches it.
const maxServers = math.MaxInt32

// How a run ended, as a worker reports it. The parent translates it to a status and a reason.
const (
	endCompleted      = "completed"
	endException      = "exception"
	endSyntax         = "syntax_error"
	endNeverSettled   = "never_settled"
	endOutOfMemory    = "out_of_memory"
	endTerminated     = "terminated"
	endUnserializable = "unserializable_heap"
	endInternal       = "internal"
)

// endHeader precedes the text, which is a result or an error, and the heap.
type endHeader struct {
	End              string `json:"end"`
	HasText          bool   `json:"has_text"`
	Truncated        bool   `json:"truncated"`
	TextSize         int64  `json:"text_size"`
	HeapSize         int64  `json:"heap_size"`
	TranspiledSHA256 string `json:"transpiled_sha256"`
	CPUMicros        int64  `json:"cpu_micros"`
	PeakHeap         int64  `json:"peak_heap"`
	// TimersCancelled is set only with the heap of a failed run.
	TimersCancelled int `json:"timers_cancelled,omitempty"`
	// TimersFired counts the timers that fired, also those beyond the limit of timer frames.
	// It and ClockMicros, the script's clock at the end, are set only with
	// taskHeader.ReportTimers.
	TimersFired int64    `json:"timers_fired,omitempty"`
	ClockMicros int64    `json:"clock_micros,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
	// Nondeterministic is runner.Outcome.Nondeterministic.
	Nondeterministic []events.Nondeterminism `json:"nondeterministic,omitempty"`
}

// decodeMessage decodes exactly one JSON value with known fields.
func decodeMessage(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: a message is followed by more", errProtocol)
	}
	return nil
}

func writeMessage(w io.Writer, t frameType, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message %c: %w", t, err)
	}
	return writeFrame(w, t, b)
}
