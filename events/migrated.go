package events

// HeapMigrated records that a heap of another engine was made again: the executions that led
// to it were replayed by the engine of the server, and the heap that they left was stored.
// The recorded heap stays as it is. The event also records why a heap was not migrated.
//
// Appended when a migration ends with a verdict, or has stored the heap of an execution on
// the way to a later one. Not appended if a run that needed the heap could not be given one
// for another reason than a difference: the end of the run has that reason.
type HeapMigrated struct {
	// Heap is the recorded heap; EngineID the engine that made it, empty if that is not
	// known.
	Heap     string `json:"heap"`
	EngineID string `json:"engine_id,omitempty"`
	// Engine is the engine of the replays, and of NewHeap.
	Engine Engine `json:"engine"`
	// Verdict is the result.
	Verdict MigrationVerdict `json:"verdict"`
	// NewHeap is the heap that the replays left; Size its uncompressed length in bytes.
	NewHeap string `json:"new_heap,omitempty"`
	Size    int64  `json:"size,omitempty"`
	// Parent is the recorded heap that the last execution of the lineage started from;
	// empty for a fresh isolate.
	Parent string `json:"parent,omitempty"`
	// From is the heap that was restored for the first replay: one that the engine
	// accepts, recorded or migrated; empty for a fresh isolate.
	From string `json:"from,omitempty"`
	// Executions is the number of executions that were replayed with an identical
	// result. FirstExecutionID and LastExecutionID are the first and the last execution
	// of the lineage from From to Heap. ExecutionsSHA256 is the SHA-256 of the ids of the
	// replayed executions, each followed by a line end.
	Executions       int    `json:"executions"`
	FirstExecutionID string `json:"first_execution_id,omitempty"`
	LastExecutionID  string `json:"last_execution_id,omitempty"`
	ExecutionsSHA256 string `json:"executions_sha256,omitempty"`
	// ExecutionID is the execution whose replay differs, or that cannot be replayed. Part
	// is what the first difference is about, Line the number of a line of output, Call
	// that of a host call, Artifact that of an artifact.
	ExecutionID string     `json:"execution_id,omitempty"`
	Part        ReplayPart `json:"part,omitempty"`
	Line        int64      `json:"line,omitempty"`
	Call        int        `json:"call,omitempty"`
	Artifact    int        `json:"artifact,omitempty"`
	// Reason is why the heap was not migrated, for example "lineage_unknown".
	Reason string `json:"reason,omitempty"`
	// WallMillis is the duration of the replays in milliseconds.
	WallMillis int64 `json:"wall_ms"`
	// Actor asked for the migration, or for the run that needed the heap. RunID is that
	// run.
	Actor Actor  `json:"actor"`
	RunID string `json:"run_id,omitempty"`
	// Content holds the two texts of the first difference.
	Content Content[ReplayedContent] `json:"content"`
}

// MigrationVerdict is the result of the migration of a heap.
type MigrationVerdict string

// The verdicts of migrations.
const (
	// MigrationDone means that every replay agreed with its record, and that NewHeap is
	// stored.
	MigrationDone MigrationVerdict = "migrated"
	// MigrationDifferent means that a replay differs. The event names the first
	// difference.
	MigrationDifferent MigrationVerdict = "different"
	// NotMigrated means that an execution of the lineage is unknown or cannot be
	// replayed. Reason says why.
	NotMigrated MigrationVerdict = "not_migrated"
)
