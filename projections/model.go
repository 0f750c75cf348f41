package projections

import (
	"time"

	"daybook/events"
)

// Execution is the status of an execution. Its JSON form is documented: result, heap,
// error and completed_at are always present.
type Execution struct {
	ExecutionID string        `json:"execution_id"`
	Status      events.Status `json:"status"`
	Result      *string       `json:"result"`
	Heap        *string       `json:"heap"`
	Error       *string       `json:"error"`
	// StartedAt is the acceptance time until an isolate starts the execution, then the
	// start of its first attempt.
	StartedAt   string  `json:"started_at"`
	CompletedAt *string `json:"completed_at"`
}

// Names of the texts of an execution.
const (
	TextCode   = "code"
	TextResult = "result"
	TextError  = "error"
)

// ExecutionDetail is an Execution with all recorded details.
type ExecutionDetail struct {
	Execution
	Queued      bool   `json:"queued"`
	RequestedAt string `json:"requested_at"`
	// QueuedMillis is the time from acceptance to the start of the first attempt; nil
	// before that start.
	QueuedMillis *int64  `json:"queued_ms,omitempty"`
	InputHeap    *string `json:"input_heap"`
	// MigratedFrom is the heap of another engine that the run was to start from. InputHeap
	// is a migration of it.
	MigratedFrom  *string `json:"migrated_from,omitempty" doc:"Heap of another engine that the run was to start from. input_heap is the heap that a migration made of it."`
	RequestedHeap *string `json:"requested_heap"`
	Session       *string `json:"session"`
	// WithoutHeap is true for a run that restores and leaves no heap.
	WithoutHeap bool `json:"without_heap,omitempty" doc:"True for a run that restores and leaves no heap: it was requested with the heap none, or the server keeps no heaps."`
	// LogicalSession is the id of the logical session in which the run has a turn. Turn
	// is the number of the turn.
	LogicalSession  *string       `json:"logical_session,omitempty"`
	Turn            *int64        `json:"turn,omitempty"`
	Code            string        `json:"code"`
	FileName        string        `json:"file_name"`
	Actor           events.Actor  `json:"actor"`
	CancelledBy     *events.Actor `json:"cancelled_by,omitempty"`
	Attempt         int           `json:"attempt"`
	Reason          *string       `json:"reason"`
	ResultTruncated bool          `json:"result_truncated"`
	// CutTexts holds the sizes, in bytes, of the texts of which only the preview is
	// returned because they are larger than one answer, by name: code, result, error.
	CutTexts             map[string]int64 `json:"cut_texts,omitempty"`
	HeapMemoryMaxMB      int              `json:"heap_memory_max_mb"`
	ExecutionTimeoutSecs int              `json:"execution_timeout_secs"`
	TotalLines           int64            `json:"total_lines"`
	TotalBytes           int64            `json:"total_bytes"`
	// Artifacts is the number of artifacts that the run created.
	Artifacts       int64   `json:"artifacts,omitempty" doc:"Number of artifacts that the script created; absent if there is none. GET /api/executions/{id}/artifacts lists them."`
	OutputTruncated bool    `json:"output_truncated"`
	OutputSHA256    *string `json:"output_sha256"`
	// WrittenLines and WrittenBytes count all output that the script wrote, of which
	// OutputSHA256 is the hash. They are set once a run with truncated output has
	// ended.
	WrittenLines *int64        `json:"written_lines,omitempty"`
	WrittenBytes *int64        `json:"written_bytes,omitempty"`
	Usage        *events.Usage `json:"usage"`
	EngineID     *string       `json:"engine_id"`
	Warnings     []string      `json:"warnings"`
	// Pristine reports whether the built-in objects of the input heap were those of a
	// fresh isolate when the run started. It is nil without an input heap, before the
	// end of the run, and if the objects were not compared.
	Pristine *bool `json:"pristine,omitempty" doc:"Whether the input heap had the built-in objects of a fresh isolate. If false, earlier runs may have decided what result, error and output look like; warnings name what they changed. Absent without an input heap and for runs of earlier versions."`
	// Nondeterministic says why a replay may differ; empty for most runs.
	Nondeterministic []events.Nondeterminism `json:"nondeterministic,omitempty" doc:"Why a replay may differ: weak_ref, the script read a WeakRef whose target was collected; finalizer, a callback of a FinalizationRegistry ran. Absent if it did neither."`
	// Replay is the newest verdict about a replay of the run; nil if it was not replayed.
	Replay *LastReplay `json:"replay,omitempty" doc:"The newest verdict about a replay of the execution; absent if it was never replayed."`
	// Shredded is the event that erased the content of the run, and its time; nil if the
	// content was not erased.
	Shredded *Shredded `json:"shredded,omitempty"`
	// Seq is the position of the newest event about the execution.
	Seq uint64 `json:"seq"`
}

// Shredded records that code, result, error, output and tags of a run are erased.
type Shredded struct {
	At  string `json:"at" format:"date-time"`
	Seq uint64 `json:"seq" doc:"Position of the event that says so."`
}

// ExecutionSummary is an execution in a list.
type ExecutionSummary struct {
	ExecutionID string        `json:"execution_id"`
	Status      events.Status `json:"status"`
	StartedAt   string        `json:"started_at"`
	CompletedAt *string       `json:"completed_at"`
	// Attempt is the number of attempts if it is more than one, otherwise 0.
	Attempt int `json:"attempt,omitempty" doc:"Number of attempts; absent unless an interruption made it more than one."`
	// The fields below are set only if the filter requests details.
	Queued         bool    `json:"queued,omitempty"`
	Session        *string `json:"session,omitempty"`
	LogicalSession *string `json:"logical_session,omitempty"`
	Heap           *string `json:"heap,omitempty"`
	// CodePreview is the beginning of the source, at most 200 characters.
	CodePreview string `json:"code_preview,omitempty" doc:"Beginning of the source, at most 200 characters; absent when the source was erased."`
	// Artifacts is the number of artifacts that the run created.
	Artifacts int64 `json:"artifacts,omitempty" doc:"Number of artifacts that the script created; absent if there is none."`
}

// ExecutionFilter selects executions. The zero value selects the documented default:
// all running executions and the newest 1,000 ended ones.
type ExecutionFilter struct {
	Status  events.Status // empty: any
	Session string        // name of a named session; empty: any
	// LogicalSession is the id of a logical or ACP session; empty: any.
	LogicalSession string
	Tags           map[string]string
	// Since omits executions accepted before it; zero for no bound.
	Since time.Time
	// Text omits executions whose source does not contain it, ignoring case; empty for
	// no condition. If the source is stored in a blob, only its preview is searched.
	// One page searches at most 20,000 executions, so it may hold fewer than its
	// limit, or none, and still have a cursor. A script's name from a stack trace
	// (main.ts#1a2b3c4d) also selects the executions of that source.
	Text string
	// Details adds session, heap and the beginning of the source to each row.
	Details bool
	Limit   int    // 0: the documented default; else 1-1000
	Cursor  string // from a previous page
}

// ExecutionPage is a page of a list, newest first by acceptance.
type ExecutionPage struct {
	Executions []ExecutionSummary `json:"executions"`
	// NextCursor is set only if there are more executions.
	NextCursor string `json:"next_cursor,omitempty"`
}

// OutputQuery selects a page of output. If ByteOffset is nil, the page is a range of
// lines, otherwise a range of bytes; the fields of the other mode are ignored. The zero
// value selects the first page. A limit above the bound of a page is reduced to the
// bound.
type OutputQuery struct {
	LineOffset int64  // from 1; 0: 1
	LineLimit  int64  // 0: DefaultLineLimit; at most 10,000
	ByteOffset *int64 // from 0
	ByteLimit  int64  // 0: DefaultByteLimit; at most 16 MiB
}

// Defaults and bounds of an output page.
const (
	DefaultLineLimit = 100
	DefaultByteLimit = 4096
	// maxLineLimit is the largest length of a page in line mode, in lines.
	maxLineLimit = 10_000
	// maxPageBytes is the largest size of a page in either mode, in bytes of data. A
	// page in line mode ends before the line that would exceed it, but holds at least
	// one line.
	maxPageBytes = 16 << 20
)

// OutputPage is a page of an execution's output. Data is exactly the bytes [StartByte,
// EndByte). TotalLines counts the lines started. While the run is in progress, a last
// line without an end is returned in byte mode only: a reader of lines would miss the
// rest of it. The page of lines that ends before this line then has HasMore set.
type OutputPage struct {
	ExecutionID    string        `json:"execution_id"`
	Data           string        `json:"data"`
	StartLine      int64         `json:"start_line"`
	EndLine        int64         `json:"end_line"`
	NextLineOffset int64         `json:"next_line_offset"`
	TotalLines     int64         `json:"total_lines"`
	StartByte      int64         `json:"start_byte"`
	EndByte        int64         `json:"end_byte"`
	NextByteOffset int64         `json:"next_byte_offset"`
	TotalBytes     int64         `json:"total_bytes"`
	HasMore        bool          `json:"has_more"`
	Status         events.Status `json:"status"`
	// Truncated is true if output above the run's cap was not stored.
	Truncated bool `json:"truncated,omitempty"`
}

// OutputLine is one complete line of output, for readers that follow live.
type OutputLine struct {
	Line  int64        `json:"line"`
	Level events.Level `json:"level"`
	Time  string       `json:"time"`
	Text  string       `json:"text"`
}

// Heap is a heap that a run left or that has tags.
type Heap struct {
	Heap      string            `json:"heap"`
	Tags      map[string]string `json:"tags"`
	Size      *int64            `json:"size"`
	EngineID  *string           `json:"engine_id"`
	CreatedAt *string           `json:"created_at"`
	// Parent and ExecutionID are the input heap and the id of the first run that left
	// the heap.
	Parent      *string `json:"parent"`
	ExecutionID *string `json:"execution_id"`
	// MigratedFrom is the heap of another engine of which a migration made this one. Parent
	// and ExecutionID are then those of that heap.
	MigratedFrom *string `json:"migrated_from,omitempty" doc:"Heap of another engine of which a migration made this one. parent and execution_id are then those of that heap."`
	// Lost is the position of the event that records the loss of the heap; nil while
	// the heap can be read.
	Lost *uint64 `json:"lost,omitempty"`
}

// TagQuery selects heaps by their tags.
type TagQuery struct {
	// Tags holds the pairs that a heap must carry.
	Tags map[string]string
	// Limit is 1 to MaxListLimit; 0 returns all heaps on one page.
	Limit int
	// Cursor is the NextCursor of the previous page, or empty.
	Cursor string
}

// HeapOrigin is a heap and a run that left it.
type HeapOrigin struct {
	Heap        string  `json:"heap"`
	ExecutionID string  `json:"execution_id"`
	Parent      *string `json:"parent"`
	CreatedAt   string  `json:"created_at"`
}

// Entry is one execution in a session log.
type Entry struct {
	Index       int64         `json:"index"`
	ExecutionID string        `json:"execution_id"`
	Status      events.Status `json:"status"`
	InputHeap   *string       `json:"input_heap"`
	OutputHeap  *string       `json:"output_heap"`
	Code        string        `json:"code"`
	Timestamp   string        `json:"timestamp"`
	// Artifacts is the number of artifacts that the run created.
	Artifacts int64 `json:"artifacts,omitempty"`
}

// HeapPage is a page of heaps.
type HeapPage struct {
	Heaps []Heap `json:"results"`
	// NextCursor is set only if there are more heaps.
	NextCursor string `json:"next_cursor,omitempty"`
}

// TagEditPage is a page of the history of a heap's tags.
type TagEditPage struct {
	Edits []TagEdit
	// NextCursor is set only if there are more edits.
	NextCursor string
}

// TagEdit is one edit in the history of a heap's tags.
type TagEdit struct {
	Seq         uint64            `json:"seq"`
	Edit        events.TagEdit    `json:"edit"`
	Tags        map[string]string `json:"tags"`
	Actor       events.Actor      `json:"actor"`
	ExecutionID *string           `json:"execution_id"`
	Time        string            `json:"time"`
}
