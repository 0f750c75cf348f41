package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"daybook/internal/globals"
	"daybook/internal/modules/runfiles"
	"daybook/runner"
)

// maxCode is the maximum size of runner.Task.Code, in bytes.
const maxCode = 16 << 20

// maxGlobals is the maximum size of runner.Task.Globals, in bytes.
const maxGlobals = 16 << 20

// maxFiles is the maximum size of runner.Task.Files, in bytes: escapes in JSON can double the
// size of the files.
const maxFiles = 2*runfiles.MaxBytes + 1<<20

// maxBundleRequest is the maximum size of runner.Task.Bundle, in bytes.
const maxBundleRequest = 72 << 20

// maxFileName is the maximum length of runner.Task.FileName, in bytes.
const maxFileName = 1 << 10

func checkTask(t *runner.Task, opts *Options) error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if t.Tenant == "" {
		add("tenant is empty")
	}
	switch {
	case len(t.Code) > maxCode:
		add("code has %d bytes, at most %d are allowed", len(t.Code), maxCode)
	case !utf8.Valid(t.Code):
		add("code is not valid UTF-8")
	case bytes.IndexByte(t.Code, 0) >= 0:
		add("code contains a NUL byte")
	}
	if len(t.FileName) > maxFileName || !utf8.ValidString(t.FileName) || strings.ContainsFunc(t.FileName, unicode.IsControl) {
		add("file name is not at most %d bytes of UTF-8 without control characters", maxFileName)
	}
	if t.ListGlobals && (!t.Stateful || len(t.Code) > 0 || len(t.Globals) > 0 || t.Host != nil || t.OnTimer != nil) {
		add("a list of globals needs a stateful task without code, globals, host and reports of timers")
	}
	if t.SkipGlobals < 0 || t.SkipGlobals > globals.MaxSkip || t.SkipGlobals > 0 && !t.ListGlobals {
		add("only a list of globals skips some, and at most %d", globals.MaxSkip)
	}
	if len(t.Files) > maxFiles || len(t.Bundle) > maxBundleRequest {
		add("files or packages have too many bytes")
	}
	if len(t.Bundle) > 0 && (len(t.Code) > 0 || len(t.Heap) > 0 || len(t.Globals) > 0 || len(t.Files) > 0 || t.ListGlobals || t.Host != nil || t.Modules != nil) {
		add("a task that makes a bundle needs no code, heap, globals, files, host and modules")
	}
	problems = append(problems, checkWASM(t)...)
	if !t.Stateful && len(t.Heap) > 0 {
		add("a stateless run cannot continue from a heap")
	}
	if t.JIT && !t.Stateful {
		add("a stateless run has the optimizing compiler without asking for it")
	}
	if t.JIT && !opts.JIT {
		add("this pool does not optimize stateful runs: start the server with --jit=on")
	}
	if t.HeapLimitBytes < 0 || t.HeapLimitBytes > opts.MaxHeapLimitBytes {
		add("heap limit is %d bytes, the ceiling is %d", t.HeapLimitBytes, opts.MaxHeapLimitBytes)
	}
	if t.ArrayBufferLimitBytes < 0 {
		add("array buffer limit is negative")
	}
	if t.Timeout <= 0 {
		add("timeout is missing")
	}
	problems = append(problems, checkServers(t)...)
	if err := checkGlobals(t); err != nil {
		problems = append(problems, err)
	}
	if us := t.Start.UnixMicro(); us < earliestLine || us > latestLine {
		add("start time %s is outside the years 0 to 9999", t.Start)
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("bad task: %w", errors.Join(problems...))
}

func checkServers(t *runner.Task) (problems []error) {
	if len(t.Servers) > 0 && t.Host == nil {
		problems = append(problems, errors.New("servers are offered without a host that performs the calls"))
	}
	named := func(s string) bool { return s != "" && len(s) <= maxCallName && utf8.ValidString(s) }
	for server, tools := range t.Servers {
		if !named(server) {
			problems = append(problems, fmt.Errorf("a server's name is not 1 to %d bytes of UTF-8", maxCallName))
		}
		if slices.ContainsFunc(tools, func(s string) bool { return !named(s) }) {
			problems = append(problems, fmt.Errorf("a tool's name is not 1 to %d bytes of UTF-8", maxCallName))
		}
	}
	return problems
}

func checkGlobals(t *runner.Task) error {
	if len(t.Globals) == 0 {
		return nil
	}
	if len(t.Globals) > maxGlobals {
		return fmt.Errorf("globals have %d bytes, at most %d are allowed", len(t.Globals), maxGlobals)
	}
	var members map[string]json.RawMessage
	if !utf8.Valid(t.Globals) || json.Unmarshal(t.Globals, &members) != nil || members == nil {
		return errors.New("globals are not the JSON of an object")
	}
	return nil
}

// maxHeap returns the size in bytes of the largest heap that a worker may return for the
// task.
func maxHeap(t *runner.Task) int64 {
	const (
		slack     = 64 << 20 // the base heap, and memory that V8 granted beyond its limit
		unlimited = 1<<31 - 1
	)
	if !t.Stateful || t.ListGlobals || len(t.Bundle) > 0 {
		return 0
	}
	if t.HeapLimitBytes == 0 || t.ArrayBufferLimitBytes == 0 {
		return unlimited
	}
	return min(t.HeapLimitBytes+t.ArrayBufferLimitBytes+slack, unlimited)
}

// maxResident returns how much memory the process may use for the task, in bytes. 0 means
// that only the limit of its data segment applies.
func maxResident(t *runner.Task) int64 {
	const process = 384 << 20 // V8, Go, esbuild, and memory that V8 granted beyond its limit
	if t.HeapLimitBytes == 0 || t.ArrayBufferLimitBytes == 0 {
		return 0
	}
	return process + 2*t.HeapLimitBytes + 2*t.ArrayBufferLimitBytes + wasmMemory(t.WASMModules) // twice, because saving a heap copies it
}

const (
	outOfMemoryText  = "Out of memory: V8 heap limit exceeded. Try increasing heap_memory_max_mb."
	bundleMemoryText = "Out of memory: a worker process has too little memory to prepare the imported modules. Import fewer or smaller packages."
	timedOutText     = "Execution timed out"
	unreadStacksText = "V8 cannot save a heap that keeps errors behind dozens of references, such as causes, lists and closures, if their stacks were never read. " +
		"Read error.stack of each error that you keep, or keep its message alone. A package that you import may keep such errors too."
	// V8 stores literals, property names and similar strings once (internalizes them). In
	// an isolate that can be saved, such a string has at most V8's regular object size.
	longStringText = "A property name, regular expression, tagged template or error message of more than 128 KiB ended the run: V8 cannot keep one in an isolate whose heap is saved. " +
		"Build such text at run time from shorter pieces, shorten it, or run stateless."
)
