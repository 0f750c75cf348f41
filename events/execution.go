package events

import (
	"fmt"
	"slices"
)

// Actor is the author of a request, as far as the server knows.
type Actor struct {
	// Principal is the authenticated identity; "anonymous" without authentication.
	Principal string `json:"principal"`
	// Transport is how the request came: "http", "mcp-http", "mcp-stdio", "embed", "runner".
	Transport string `json:"transport"`
	// Client is the name and version that the client sent, or empty.
	Client string `json:"client,omitempty"`
	// Address is the client's network address, or empty.
	Address string `json:"address,omitempty"`
}

// Limits bound one execution. Zero means "no limit" only where stated.
type Limits struct {
	// HeapMemoryMaxMB caps the V8 heap, in MiB.
	HeapMemoryMaxMB int `json:"heap_memory_max_mb"`
	// ExecutionTimeoutSecs is the wall-clock limit in seconds, from started.
	ExecutionTimeoutSecs int `json:"execution_timeout_secs"`
	// OutputMaxBytes caps stored output; 0 is uncapped.
	OutputMaxBytes int64 `json:"output_max_bytes"`
}

// Engine identifies everything about the JavaScript engine that the outcome of an
// execution can depend on. Two executions with equal inputs and equal engines have equal
// outcomes.
type Engine struct {
	// ID is a hash of what decides whether a heap can be restored; heaps are bound to it. Locale,
	// TimeZone and Build are no part of it, nor are JIT and its flags in executions with a heap.
	ID string `json:"id"`
	// V8Version is the engine's version, for example "13.6.233.10".
	V8Version string `json:"v8_version"`
	// Flags are the V8 flags in force, space-separated.
	Flags string `json:"flags"`
	// JIT reports whether optimizing compilers were on. Runs that save a heap have them only with
	// --jit=on. Heaps with and without them have the same ID, but other bytes.
	JIT bool `json:"jit"`
	// PreludeSHA256 is the hash of the built-in JavaScript run before user code.
	PreludeSHA256 string `json:"prelude_sha256"`
	// SnapshotFormat is Daybook's version of the layout of heaps; 0 for executions
	// without a heap.
	SnapshotFormat int `json:"snapshot_format"`
	// Locale is the default locale of scripts, a BCP 47 tag such as "en-US". Absent in
	// records of earlier versions, which had the same one.
	Locale string `json:"locale,omitempty"`
	// TimeZone is the time zone of scripts, an IANA name such as "UTC". Absent in records
	// of earlier versions, which had the same one.
	TimeZone string `json:"time_zone,omitempty"`
	// Build names the build of Daybook: programs that have the same one were made of the same
	// sources, modules and version of Go. Beside V8 and the prelude, the program converts
	// TypeScript and the files of a run, and Go's library is behind parts of the platform.
	// Heaps outlive a change of it. Absent in records of earlier versions.
	Build string `json:"build,omitempty"`
}

// IsSameBuild reports whether two engines are known to be the same build of Daybook.
func (e Engine) IsSameBuild(other Engine) bool {
	return e.ID == other.ID && e.Build == other.Build && e.Build != ""
}

// BlobRef names a text that is stored as a blob because it is too large for an event.
type BlobRef struct {
	// SHA256 is the hash of the text, 64 lowercase hex characters; the blob's name.
	SHA256 string `json:"sha256"`
	// Size is the length of the text in bytes.
	Size int64 `json:"size"`
	// Preview is the beginning of the text, at most PreviewBytes.
	Preview string `json:"preview"`
}

// Body is a text. Up to InlineBytes it is stored in the event, above in a blob.
type Body struct {
	// Text is the inline text; empty when Blob is set.
	Text string `json:"text"`
	// Blob is set when the text is stored as a blob.
	Blob *BlobRef `json:"blob,omitempty"`
}

// Content holds what a user can ask to shred: code, output, results, errors, tag values,
// prompts, intents, values of contexts. It is plain, or encrypted under the content key of
// a session, or of what belongs to no session of the tenant. Destroying the key shreds the
// content without breaking any proof.
type Content[T any] struct {
	// Plain is the readable content; nil when encrypted.
	Plain *T `json:"plain,omitempty"`
	// Sealed is the encrypted content; nil when plain.
	Sealed *EncryptedContent `json:"sealed,omitempty"`
}

// Plain returns unencrypted content.
func Plain[T any](v T) Content[T] { return Content[T]{Plain: &v} }

// Value returns the plain content, or the zero value when it is encrypted.
func (c Content[T]) Value() T {
	if c.Plain == nil {
		var zero T
		return zero
	}
	return *c.Plain
}

// EncryptedContent is content encrypted under a key that is stored outside the ledger.
type EncryptedContent struct {
	// KeyID names the key.
	KeyID string `json:"key_id"`
	// Algorithm names the cipher.
	Algorithm string `json:"algorithm"`
	// Nonce and Ciphertext are the cipher's output.
	Nonce      []byte `json:"nonce"`
	Ciphertext []byte `json:"ciphertext"`
	// Packed is true when the content was compressed by deflate before encryption.
	Packed bool `json:"packed,omitempty"`
	// Blobs are the hashes of the blobs that the content references; they are encrypted
	// too.
	Blobs []string `json:"blobs,omitempty"`
}

// ExecutionRequested records that an execution was accepted. It is the first event of
// every execution and the message that runners consume.
//
// Appended when a client submits an execution, before the client gets the acceptance.
type ExecutionRequested struct {
	// ExecutionID is the id of the execution, a UUID.
	ExecutionID string `json:"execution_id"`
	// Pool names the group of runners that take the execution.
	Pool string `json:"pool"`
	// Content holds the original source, the requested tags and the input values.
	Content Content[RequestedContent] `json:"content"`
	// SourceSHA256 is the hash of the original source.
	SourceSHA256 string `json:"source_sha256"`
	// FileName is the name shown in stack traces; empty if Content holds it.
	FileName string `json:"file_name"`
	// Stateful is true for an execution that restores and saves a heap.
	Stateful bool `json:"stateful"`
	// Heap is the requested input heap; empty for a fresh isolate.
	Heap string `json:"heap,omitempty"`
	// Limits are the limits in force for the execution.
	Limits Limits `json:"limits"`
	// Session is the name of the named session whose log gets the execution, or empty;
	// SessionID is its key.
	Session   string `json:"session,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	// Turn is the turn of the execution in a logical or ACP session; nil outside of one.
	// Heap is then empty: the turn determines the input heap.
	Turn *Turn `json:"turn,omitempty"`
	// Context is the conversation context of the request; nil outside of one.
	Context *ContextRef `json:"context,omitempty"`
	// RequestSHA256 is the hash of the complete request. It is compared when an
	// idempotency key is used again.
	RequestSHA256 string `json:"request_sha256"`
	// Idempotent is true when the id is derived from an idempotency key.
	Idempotent bool `json:"idempotent,omitempty"`
	// Interactive is true when a client waits for the execution: it is not restarted
	// after an interruption.
	Interactive bool `json:"interactive,omitempty"`
	// Actor submitted the execution.
	Actor Actor `json:"actor"`
	// Warnings are those of the acceptance.
	Warnings []string `json:"warnings,omitempty"`
}

// RequestedContent is the erasable part of ExecutionRequested.
type RequestedContent struct {
	// Source is the original code.
	Source Body `json:"source"`
	// Tags replace those of the output heap once the execution completes. Nil leaves
	// them unchanged, empty deletes them.
	Tags map[string]string `json:"tags"`
	// Globals are the input values beside the source: the JSON of an object whose
	// members become properties of globalThis before the source is evaluated, at every
	// attempt. Nil when there are none.
	Globals *Body `json:"globals,omitempty"`
	// Files are the sources of the other files of the script: the JSON of an object with
	// the texts by path. Nil when there are none.
	Files *Body `json:"files,omitempty"`
	// FileName is the name shown in stack traces; absent if FileName of the event is set.
	FileName string `json:"file_name,omitempty"`
}

// ShownFileName returns the name shown in stack traces; empty if it is encrypted and the
// key is not available.
func (d *ExecutionRequested) ShownFileName() string {
	if d.FileName != "" {
		return d.FileName
	}
	return d.Content.Value().FileName
}

// ExecutionStarted records that a runner started an attempt of an execution. With the
// source and the input heap it holds everything that the outcome depends on.
//
// Appended by a runner at each attempt, before any output of the attempt.
type ExecutionStarted struct {
	// ExecutionID is the id of the execution.
	ExecutionID string `json:"execution_id"`
	// Attempt counts from 1.
	Attempt int `json:"attempt"`
	// Runner is the id of the runner process.
	Runner string `json:"runner"`
	// Engine is the JavaScript engine that ran it.
	Engine Engine `json:"engine"`
	// Seed is the 128-bit random seed of the execution, 32 hex characters. All attempts
	// use the seed of the first.
	Seed string `json:"seed"`
	// StartTime is the first time that the script's clock shows. All attempts use the
	// time of the first; the time of the event is the start of this one.
	StartTime Instant `json:"start_time"`
	// Limits are the limits in force.
	Limits Limits `json:"limits"`
	// InputHeap is the heap that was restored; empty for a fresh isolate.
	InputHeap string `json:"input_heap,omitempty"`
	// MigratedFrom is the heap of another engine that the run was to start from. InputHeap
	// is then the heap that a migration made of it; see HeapMigrated.
	MigratedFrom string `json:"migrated_from,omitempty"`
	// FirstLine and FirstByte number the first line (from 1) and byte (from 0) of output
	// that this attempt writes. They follow from the output that was recorded when the
	// attempt was planned; output that an earlier attempt recorded later is void. A piece
	// of a line that begins at byte b counts only if b + len(Text) is less than FirstByte,
	// so that its line end fits before FirstByte. If the last piece that counts is
	// Continued, its line ends there: one line end, at FirstByte-1, counts as written
	// although no chunk holds it. Each attempt therefore begins on a line of its own.
	// Voids and Extent apply the rule.
	FirstLine int64 `json:"first_line"`
	FirstByte int64 `json:"first_byte"`
	// Callable lists the tools that the script may call: the JSON of an object with the
	// names of the tools by the names of the MCP servers. Nil when there are none.
	Callable *Body `json:"callable,omitempty"`
	// Layers names the sandbox layers that the worker attested.
	Layers []string `json:"layers,omitempty"`
	// Warnings describe deviations from the request.
	Warnings []string `json:"warnings,omitempty"`
	// NodeGlobals is true if the script had the globals of Node, such as Buffer. All attempts
	// have those of the first.
	NodeGlobals bool `json:"node_globals,omitempty"`
	// WASMModules are the WebAssembly modules of the server that the script could use,
	// sorted by name. All attempts have those of the first. Nil when there are none.
	WASMModules []WASMModule `json:"wasm_modules,omitempty"`
}

// WASMModule is a WebAssembly module that the operator of a server gives to scripts without a
// heap.
type WASMModule struct {
	// Name is the name of the global that holds the exports of the module. The global
	// __wasm_NAME holds the module.
	Name string `json:"name"`
	// Module is the stored module in the binary format of WebAssembly.
	Module BlobRef `json:"module"`
	// HasImports is true for a module that needs imports. It has no global NAME: the script
	// instantiates it.
	HasImports bool `json:"has_imports,omitempty"`
}

// ExecutionCancelRequested records that a client asked to cancel an execution.
//
// Appended when a client cancels an execution that has not ended. It does not end the
// execution: the cancelled event does, or another terminal event that was recorded
// first.
type ExecutionCancelRequested struct {
	// ExecutionID is the id of the execution.
	ExecutionID string `json:"execution_id"`
	// Actor asked for it.
	Actor Actor `json:"actor"`
}

// ExecutionHandedBack records that a runner handed an execution back. It uses up no
// attempt: the next started event has the same number.
//
// Appended by a runner that shuts down while the execution continues, and by one that
// cannot start a worker for lack of descriptors, memory or processes, or cannot read the
// answer to a recorded call.
type ExecutionHandedBack struct {
	// ExecutionID is the id of the execution.
	ExecutionID string `json:"execution_id"`
	// Attempt is the attempt that was interrupted.
	Attempt int `json:"attempt"`
	// Runner is the id of the runner process.
	Runner string `json:"runner"`
	// Reason is the human-readable cause.
	Reason string `json:"reason"`
}

// HeapRecord describes the output heap of an execution.
type HeapRecord struct {
	// SHA256 is the hash of the uncompressed blob, 64 lowercase hex
	// characters: the heap's key.
	SHA256 string `json:"sha256"`
	// Size is the blob's uncompressed length in bytes.
	Size int64 `json:"size"`
	// EngineID is the engine that can restore it.
	EngineID string `json:"engine_id"`
	// Parent is the input heap of the execution; empty for a fresh isolate.
	Parent string `json:"parent,omitempty"`
}

// OutputTotals sums up the output of an execution over the lines of all attempts that
// count.
type OutputTotals struct {
	// Lines and Bytes count the output, line ends included.
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
	// SHA256 is the hash of the output bytes of the final attempt, line ends included.
	// It includes output beyond the cap.
	SHA256 string `json:"sha256"`
	// Truncated is true when output beyond the cap was not stored; Lines and Bytes still
	// count it.
	Truncated bool `json:"truncated,omitempty"`
}

// Usage is the resource usage of an execution.
type Usage struct {
	// CPUMillis and WallMillis are the processor time and the elapsed time of the
	// attempt that ended, in milliseconds.
	CPUMillis  int64 `json:"cpu_ms"`
	WallMillis int64 `json:"wall_ms"`
	// PeakHeapBytes is the largest size of the V8 heap, in bytes. 0 means unknown: the
	// worker was killed, or had not started the script.
	PeakHeapBytes int64 `json:"peak_heap_bytes"`
}

// Ending is the common part of the four terminal events.
type Ending struct {
	// ExecutionID is the id of the execution.
	ExecutionID string `json:"execution_id"`
	// Attempt is the attempt that ended; 0 when the execution never started.
	Attempt int `json:"attempt"`
	// Runner is the runner that wrote the event; empty when the server did.
	Runner string `json:"runner,omitempty"`
	// Reason is a machine-readable cause, for example "out_of_memory".
	Reason string `json:"reason,omitempty"`
	// Content is the result or error.
	Content Content[EndingContent] `json:"content"`
	// Heap is the output heap; nil when there is none.
	Heap *HeapRecord `json:"heap,omitempty"`
	// Output is nil when the event was not written by the runner.
	Output *OutputTotals `json:"output,omitempty"`
	// TranspiledSHA256 is the hash of the JavaScript that was evaluated.
	TranspiledSHA256 string `json:"transpiled_sha256,omitempty"`
	// Usage is the resource usage; nil when the event was not written by the runner.
	Usage *Usage `json:"usage,omitempty"`
	// TimersCancelled counts the timers that were cancelled because the execution
	// failed: its own and those of earlier executions in the heap. Only for failed.
	TimersCancelled int `json:"timers_cancelled,omitempty"`
	// Pristine reports whether the built-in objects of the input heap were those of a
	// fresh isolate at the start, according to the worker. If false, earlier executions
	// may have influenced result, error and output, and Warnings names the changed
	// objects. Nil when there was no input heap, or nothing was compared.
	Pristine *bool `json:"pristine,omitempty"`
	// Nondeterministic says why a replay may differ: what the run learned from the garbage
	// collector, according to the worker. Absent if it learned nothing, if its worker was
	// killed, and in records of earlier versions.
	Nondeterministic []Nondeterminism `json:"nondeterministic,omitempty"`
	// Warnings describe deviations from the request.
	Warnings []string `json:"warnings,omitempty"`
	// Actor cancelled the execution; only for cancelled.
	Actor *Actor `json:"actor,omitempty"`
}

// AllWarnings returns Warnings and human-readable texts for TimersCancelled and
// Output.Truncated.
func (d *Ending) AllWarnings() []string {
	list := slices.Clip(d.Warnings)
	if d.Output != nil && d.Output.Truncated {
		list = append(list, fmt.Sprintf("the script wrote %d bytes of output; what is beyond the limit is not stored", d.Output.Bytes))
	}
	if d.TimersCancelled == 0 {
		return list
	}
	const words = "the run failed, so %d %s that it or earlier runs had set %s cancelled; a later run that needs them sets them again"
	text := fmt.Sprintf(words, d.TimersCancelled, "timers", "were")
	if d.TimersCancelled == 1 {
		text = fmt.Sprintf(words, 1, "timer", "was")
	}
	return append(list, text)
}

// EndingContent is the erasable part of a terminal event.
type EndingContent struct {
	// Result is the value of the last expression; nil unless completed with one.
	Result *Body `json:"result,omitempty"`
	// ResultTruncated marks a result cut at its size limit.
	ResultTruncated bool `json:"result_truncated,omitempty"`
	// Error is the message; nil when completed.
	Error *Body `json:"error,omitempty"`
}

// ExecutionCompleted ends an execution whose script returned normally.
//
// Appended by the runner, after all output of the execution. An execution has exactly
// one terminal event.
type ExecutionCompleted struct{ Ending }

// ExecutionFailed ends an execution whose script threw, or that could not continue.
//
// Appended by the runner, after all output of the execution, or by the process that
// finds an execution that cannot be continued. An execution has exactly one terminal
// event.
type ExecutionFailed struct{ Ending }

// ExecutionTimedOut ends an execution that exceeded its wall-clock limit.
//
// Appended by the runner, after all output of the execution. An execution has exactly
// one terminal event.
type ExecutionTimedOut struct{ Ending }

// ExecutionCancelled ends an execution that a client cancelled.
//
// Appended by the runner of the execution, or by the server when no runner answers in
// time. An execution has exactly one terminal event.
type ExecutionCancelled struct{ Ending }

// EndingOf returns the common part of a terminal payload, or nil for any other payload.
func EndingOf(d Data) *Ending {
	switch d := d.(type) {
	case *ExecutionCompleted:
		return &d.Ending
	case *ExecutionFailed:
		return &d.Ending
	case *ExecutionTimedOut:
		return &d.Ending
	case *ExecutionCancelled:
		return &d.Ending
	default:
		return nil
	}
}

// NewEnding returns the terminal payload for a status, or nil for StatusRunning.
func NewEnding(s Status, e Ending) Data {
	switch s {
	case StatusCompleted:
		return &ExecutionCompleted{e}
	case StatusFailed:
		return &ExecutionFailed{e}
	case StatusTimedOut:
		return &ExecutionTimedOut{e}
	case StatusCancelled:
		return &ExecutionCancelled{e}
	default:
		return nil
	}
}

func (d *ExecutionRequested) subject(tenant string) string {
	return RunSubject(tenant, d.Pool, d.ExecutionID)
}
