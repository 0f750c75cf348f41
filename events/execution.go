package events

import (
	"fmt"
	"slices"
)

// Actor is who asked for something, as far as the server knows.
type Actor struct {
	// Principal is the authenticated identity; "anonymous" without authentication.
	Principal string `json:"principal"`
	// Transport is how the request came: "http", "mcp-http", "mcp-stdio", "embed", "runner".
	Transport string `json:"transport"`
	// Client is the name and version the client gave of itself, or empty.
	Client string `json:"client,omitempty"`
	// Address is the client's network address, or empty.
	Address string `json:"address,omitempty"`
}

// Limits bound one run. Zero means "no limit" only where said.
type Limits struct {
	// HeapMemoryMaxMB caps the V8 heap, in MiB.
	HeapMemoryMaxMB int `json:"heap_memory_max_mb"`
	// ExecutionTimeoutSecs is the wall-clock limit in seconds, from started.
	ExecutionTimeoutSecs int `json:"execution_timeout_secs"`
	// OutputMaxBytes caps stored output; 0 is uncapped.
	OutputMaxBytes int64 `json:"output_max_bytes"`
}

// Engine identifies everything about the JavaScript engine that a run's
// outcome can depend on. Two runs with equal inputs and equal engines have
// equal outcomes.
type Engine struct {
	// ID is the hash of the other fields; heaps are bound to it.
	ID string `json:"id"`
	// V8Version is the engine's version, for example "13.6.233.10".
	V8Version string `json:"v8_version"`
	// Flags are the V8 flags in force, space-separated.
	Flags string `json:"flags"`
	// JIT reports whether optimising compilers were on.
	JIT bool `json:"jit"`
	// PreludeSHA256 is the hash of the built-in JavaScript run before user code.
	PreludeSHA256 string `json:"prelude_sha256"`
	// SnapshotFormat is our version of the heap blob's layout; 0 for runs without a heap.
	SnapshotFormat int `json:"snapshot_format"`
}

// BlobRef names a text stored as a blob because it is too large for an event.
type BlobRef struct {
	// SHA256 is the hash of the text, 64 lowercase hex characters; the blob's name.
	SHA256 string `json:"sha256"`
	// Size is the length of the text in bytes.
	Size int64 `json:"size"`
	// Preview is the beginning of the text, at most PreviewBytes.
	Preview string `json:"preview"`
}

// Body is text that sits in the event up to InlineBytes, and in a blob above.
type Body struct {
	// Text is the inline text; empty when Blob is set.
	Text string `json:"text"`
	// Blob is set when the text is stored apart.
	Blob *BlobRef `json:"blob,omitempty"`
}

// Content holds what a user may ask to have erased: code, output, results,
// errors, tag values. It is plain, or sealed under a per-session key whose
// destruction erases it without breaking any proof.
type Content[T any] struct {
	// Plain is the readable content; nil when sealed.
	Plain *T `json:"plain,omitempty"`
	// Sealed is the encrypted content; nil when plain.
	Sealed *Sealed `json:"sealed,omitempty"`
}

// Plain wraps readable content.
func Plain[T any](v T) Content[T] { return Content[T]{Plain: &v} }

// Value returns the plain content, or the zero value when it is sealed.
func (c Content[T]) Value() T {
	if c.Plain == nil {
		var zero T
		return zero
	}
	return *c.Plain
}

// Sealed is content encrypted under a key kept outside the ledger.
type Sealed struct {
	// KeyID names the key.
	KeyID string `json:"key_id"`
	// Algorithm names the cipher.
	Algorithm string `json:"algorithm"`
	// Nonce and Ciphertext are the cipher's output.
	Nonce      []byte `json:"nonce"`
	Ciphertext []byte `json:"ciphertext"`
	// Packed is true when what was encrypted is compressed, by deflate.
	Packed bool `json:"packed,omitempty"`
	// Blobs are the hashes of the blobs, encrypted too, that the content names.
	Blobs []string `json:"blobs,omitempty"`
}

// ExecutionRequested records that a run was accepted. It is the first event of
// every execution and the message that runners consume.
//
// Appended when a client asks for a run, before it is told that the run is
// accepted.
type ExecutionRequested struct {
	// ExecutionID is the run's id, a UUID.
	ExecutionID string `json:"execution_id"`
	// Pool names the group of runners that may take the run.
	Pool string `json:"pool"`
	// Content is the source as given, the requested tags, and the values given to the
	// run.
	Content Content[RequestedContent] `json:"content"`
	// SourceSHA256 is the hash of the source as given.
	SourceSHA256 string `json:"source_sha256"`
	// FileName is the name shown in stack traces.
	FileName string `json:"file_name"`
	// Stateful runs restore and save a heap.
	Stateful bool `json:"stateful"`
	// Heap is the input heap asked for; empty for a fresh isolate.
	Heap string `json:"heap,omitempty"`
	// Limits are the limits in force for the run.
	Limits Limits `json:"limits"`
	// Session is the name the run is logged under, or empty; SessionID its key.
	Session   string `json:"session,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	// Turn is the run's place in a session that keeps state; nil outside of one.
	// Heap is then empty: the turn says what the run starts from.
	Turn *Turn `json:"turn,omitempty"`
	// Context is the conversation context the run was asked for in; nil outside of
	// one.
	Context *ContextRef `json:"context,omitempty"`
	// RequestSHA256 is the hash of everything asked for, compared when an
	// idempotency key comes again.
	RequestSHA256 string `json:"request_sha256"`
	// Idempotent is true when the id was derived from an idempotency key.
	Idempotent bool `json:"idempotent,omitempty"`
	// Interactive is true for a run that somebody waits for: once interrupted it is
	// not begun anew.
	Interactive bool `json:"interactive,omitempty"`
	// Actor asked for the run.
	Actor Actor `json:"actor"`
	// Warnings were given at acceptance.
	Warnings []string `json:"warnings,omitempty"`
}

// RequestedContent is the erasable part of ExecutionRequested.
type RequestedContent struct {
	// Source is the code as given.
	Source Body `json:"source"`
	// Tags replace those of the output heap once the run completes. Nil leaves
	// them untouched, empty clears them.
	Tags map[string]string `json:"tags"`
	// Globals are the values given to the run beside its source: the JSON of an
	// object whose members are properties of globalThis before the source is
	// evaluated, at every attempt. Nil when there are none.
	Globals *Body `json:"globals,omitempty"`
}

// ExecutionStarted records that a runner took the run. With the source and the
// input heap it holds all that the outcome depends on.
//
// Appended by a runner at each attempt, before any output of the attempt.
type ExecutionStarted struct {
	// ExecutionID is the run's id.
	ExecutionID string `json:"execution_id"`
	// Attempt counts from 1.
	Attempt int `json:"attempt"`
	// Runner is the id of the runner process.
	Runner string `json:"runner"`
	// Engine is the JavaScript engine that ran it.
	Engine Engine `json:"engine"`
	// Seed is the run's 128-bit random seed, 32 hex characters. Every attempt
	// reuses the first attempt's.
	Seed string `json:"seed"`
	// StartTime is what the script's clock shows first. Every attempt reuses
	// the first attempt's; the event's own time tells when this one began.
	StartTime Instant `json:"start_time"`
	// Limits are the limits in force.
	Limits Limits `json:"limits"`
	// InputHeap is the heap really restored; empty for a fresh isolate.
	InputHeap string `json:"input_heap,omitempty"`
	// FirstLine and FirstByte number the first line (from 1) and byte (from 0)
	// of output this attempt will write. They were decided from the output then
	// on record; what an earlier attempt managed to add since is void. Exactly: a
	// piece of a line that begins at byte b counts only if b + len(Text) is
	// less than FirstByte, that is, if a line end after it would still lie
	// before FirstByte. If the last piece that counts is Continued, its line
	// ends there: one line end, at FirstByte-1, counts as written although no
	// chunk holds it. So each attempt begins on a line of its own. Voids and
	// Extent apply the rule.
	FirstLine int64 `json:"first_line"`
	FirstByte int64 `json:"first_byte"`
	// Callable is what the script may call: the JSON of an object with the names
	// of the tools by the names of the MCP servers. Nil when there is none.
	Callable *Body `json:"callable,omitempty"`
	// Layers names the containment layers the worker attested.
	Layers []string `json:"layers,omitempty"`
	// Warnings tell what differs from what was asked for.
	Warnings []string `json:"warnings,omitempty"`
}

// ExecutionCancelRequested records that somebody asked for a run to end.
//
// Appended when a client cancels a run that has not ended. It does not end the
// run: that is what cancelled, or another end that came first, records.
type ExecutionCancelRequested struct {
	// ExecutionID is the run's id.
	ExecutionID string `json:"execution_id"`
	// Actor asked for it.
	Actor Actor `json:"actor"`
}

// ExecutionHandedBack records that a runner gave a run back. It costs no attempt: the
// next started event reuses the number.
//
// Appended by a runner that shuts down while the run continues, and by one that cannot
// start a worker for lack of descriptors, memory or processes, or cannot read the answer
// to a recorded call.
type ExecutionHandedBack struct {
	// ExecutionID is the run's id.
	ExecutionID string `json:"execution_id"`
	// Attempt is the one that was broken off.
	Attempt int `json:"attempt"`
	// Runner is the id of the runner process.
	Runner string `json:"runner"`
	// Reason tells why, for people.
	Reason string `json:"reason"`
}

// HeapRecord describes the heap a run left behind.
type HeapRecord struct {
	// SHA256 is the hash of the uncompressed blob, 64 lowercase hex
	// characters: the heap's key.
	SHA256 string `json:"sha256"`
	// Size is the blob's uncompressed length in bytes.
	Size int64 `json:"size"`
	// EngineID is the engine that can restore it.
	EngineID string `json:"engine_id"`
	// Parent is the heap the run started from; empty for a fresh isolate.
	Parent string `json:"parent,omitempty"`
}

// OutputTotals sums up the output of an execution, over all attempts' lines
// that count.
type OutputTotals struct {
	// Lines and Bytes count the output, line ends included.
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
	// SHA256 is the hash of the final attempt's output bytes, line ends
	// included, also of the part cut by the output cap.
	SHA256 string `json:"sha256"`
	// Truncated is true when output past the cap was not stored; Lines and
	// Bytes still count it.
	Truncated bool `json:"truncated,omitempty"`
}

// Usage is what the run cost.
type Usage struct {
	// CPUMillis and WallMillis are the processor time and the elapsed time of the
	// attempt that ended, in milliseconds.
	CPUMillis  int64 `json:"cpu_ms"`
	WallMillis int64 `json:"wall_ms"`
	// PeakHeapBytes is the largest size of the V8 heap, in bytes. 0 means unknown: the
	// worker was killed, or had not started the run.
	PeakHeapBytes int64 `json:"peak_heap_bytes"`
}

// Ending is what the four terminal events share.
type Ending struct {
	// ExecutionID is the run's id.
	ExecutionID string `json:"execution_id"`
	// Attempt that ended; 0 when the run never started.
	Attempt int `json:"attempt"`
	// Runner that wrote the event; empty when the server did.
	Runner string `json:"runner,omitempty"`
	// Reason is a machine-readable cause, for example "out_of_memory".
	Reason string `json:"reason,omitempty"`
	// Content is the result or error.
	Content Content[EndingContent] `json:"content"`
	// Heap is the output heap; nil when there is none.
	Heap *HeapRecord `json:"heap,omitempty"`
	// Output is nil when the event was not written by the runner.
	Output *OutputTotals `json:"output,omitempty"`
	// TranspiledSHA256 is the hash of the JavaScript that really ran.
	TranspiledSHA256 string `json:"transpiled_sha256,omitempty"`
	// Usage is what the run cost; nil when the event was not written by the runner.
	Usage *Usage `json:"usage,omitempty"`
	// TimersCancelled counts the timers that were cancelled because the run failed:
	// those it set and those that earlier runs left in the heap. Only for failed.
	TimersCancelled int `json:"timers_cancelled,omitempty"`
	// Pristine reports whether the built-in objects of the input heap were those of a
	// fresh isolate when the run began, as the worker found. If false, earlier runs
	// may have decided what result, error and output look like, and Warnings names
	// what they changed. Nil when there was no input heap, or nothing was compared.
	Pristine *bool `json:"pristine,omitempty"`
	// Warnings tell what differs from what was asked for.
	Warnings []string `json:"warnings,omitempty"`
	// Actor asked for the end; only for cancelled.
	Actor *Actor `json:"actor,omitempty"`
}

// AllWarnings returns Warnings, and in plain words what TimersCancelled and
// Output.Truncated say.
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

// ExecutionCompleted ends a run whose script returned normally.
//
// Appended by the runner, after all output of the run. An execution has exactly
// one event that ends it.
type ExecutionCompleted struct{ Ending }

// ExecutionFailed ends a run whose script threw, or that could not go on.
//
// Appended by the runner, after all output of the run, or by whoever finds a run
// that cannot be continued. An execution has exactly one event that ends it.
type ExecutionFailed struct{ Ending }

// ExecutionTimedOut ends a run that exceeded its wall-clock limit.
//
// Appended by the runner, after all output of the run. An execution has exactly
// one event that ends it.
type ExecutionTimedOut struct{ Ending }

// ExecutionCancelled ends a run that somebody cancelled.
//
// Appended by the runner that had the run, or by the server when none answers in
// time. An execution has exactly one event that ends it.
type ExecutionCancelled struct{ Ending }

// Ended returns the shared part of a terminal payload, or nil for any other.
func Ended(d Data) *Ending {
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

// NewEnding makes the terminal payload for a status. It returns nil for
// StatusRunning.
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
