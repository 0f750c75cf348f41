package events

// ExecutionReplayed records that an ended execution was executed again and compared with
// its record.
//
// Appended when a replay ends with a verdict.
type ExecutionReplayed struct {
	// ExecutionID is the id of the execution that was replayed.
	ExecutionID string `json:"execution_id"`
	// EndedAt is the position of the terminal event that the replay was compared with.
	EndedAt uint64 `json:"ended_at"`
	// Verdict is the result.
	Verdict ReplayVerdict `json:"verdict"`
	// Stopped is true if the recorded run was stopped, for example by its time limit. It
	// was then compared up to its last recorded line and call.
	Stopped bool `json:"stopped,omitempty"`
	// Compared lists what was compared.
	Compared []ReplayPart `json:"compared,omitempty"`
	// Part is what the first difference is about; empty if there is none. Line is the
	// number of a line of output, Call that of a host call, Artifact that of an artifact.
	Part     ReplayPart `json:"part,omitempty"`
	Line     int64      `json:"line,omitempty"`
	Call     int        `json:"call,omitempty"`
	Artifact int        `json:"artifact,omitempty"`
	// Reason is why the execution was not replayed, for example "heap_collected".
	Reason string `json:"reason,omitempty"`
	// Engine is the engine of the replay.
	Engine Engine `json:"engine"`
	// Heap is the hash of the heap that the replay left; empty for none.
	Heap string `json:"heap,omitempty"`
	// MigratedHeap is the migration of the input heap that was restored in its place, because
	// another engine made the input heap; empty if the input heap was restored.
	MigratedHeap string `json:"migrated_heap,omitempty"`
	// WallMillis is the duration of the replay in milliseconds.
	WallMillis int64 `json:"wall_ms"`
	// Actor asked for the replay.
	Actor Actor `json:"actor"`
	// Content holds the two texts of the first difference.
	Content Content[ReplayedContent] `json:"content"`
}

// ReplayedContent is the erasable part of ExecutionReplayed.
type ReplayedContent struct {
	// Recorded and Replayed are the values that differ, or their parts around the first
	// difference.
	Recorded string `json:"recorded,omitempty"`
	Replayed string `json:"replayed,omitempty"`
}

// ReplayVerdict is the result of a replay.
type ReplayVerdict string

// The verdicts of replays.
const (
	// ReplayIdentical means that everything that was compared is equal.
	ReplayIdentical ReplayVerdict = "identical"
	// ReplayDifferent means that something differs. The event names the first difference.
	ReplayDifferent ReplayVerdict = "different"
	// NotReplayed means that the execution could not be executed again. Reason says why.
	NotReplayed ReplayVerdict = "not_replayed"
)

// ReplayPart is a part of a run that a replay compares.
type ReplayPart string

// The parts of a run, in the order in which a replay compares them.
const (
	// ReplayOutput is the output: text, level and time of each line.
	ReplayOutput ReplayPart = "output"
	// ReplayArtifacts are the artifacts: name, media type, hash, time and position in the
	// output of each.
	ReplayArtifacts ReplayPart = "artifacts"
	// ReplayCalls are the host calls: tools, arguments and order.
	ReplayCalls ReplayPart = "calls"
	// ReplayStatus is the final status and its reason.
	ReplayStatus ReplayPart = "status"
	// ReplayJavaScript is the JavaScript that was evaluated, which TypeScript is turned
	// into.
	ReplayJavaScript ReplayPart = "javascript"
	// ReplayResult and ReplayError are the result and the error message.
	ReplayResult ReplayPart = "result"
	ReplayError  ReplayPart = "error"
	// ReplayHeap is the output heap, byte for byte.
	ReplayHeap ReplayPart = "heap"
)
