package events

import "time"

// HeapTagged records the tags of a heap after an edit: always the full map, so
// that the newest event alone tells the tags.
//
// Appended when a client edits the tags, and after a run that was given tags has
// completed.
type HeapTagged struct {
	// Heap is the heap's key.
	Heap string `json:"heap"`
	// Content is the resulting map.
	Content Content[TagContent] `json:"content"`
	// Edit tells what was done: "run" (tags given to a run), "set" or "delete".
	Edit TagEdit `json:"edit"`
	// ExecutionID is the run that brought the tags; only for EditRun.
	ExecutionID string `json:"execution_id,omitempty"`
	// AppliesAt is the position from which the tags hold, when that is earlier
	// than the event's own: a run's tags hold from its completed event, so an
	// edit recorded between the two is newer. 0 means the event's own position.
	AppliesAt uint64 `json:"applies_at,omitempty"`
	// Actor made the edit.
	Actor Actor `json:"actor"`
}

// TagEdit is the kind of a tag edit.
type TagEdit string

// The kinds of tag edit.
const (
	EditRun    TagEdit = "run"
	EditSet    TagEdit = "set"
	EditDelete TagEdit = "delete"
)

// TagContent is the erasable part of HeapTagged.
type TagContent struct {
	// Tags are all tags of the heap.
	Tags map[string]string `json:"tags"`
}

// SessionEntryRecorded records one execution in a session's log.
//
// Appended after the event that ended the execution, if it was run under a
// session's name.
type SessionEntryRecorded struct {
	// SessionID is the session's key; Session the name it goes by.
	SessionID string `json:"session_id"`
	Session   string `json:"session"`
	// Index counts the session's entries from 0, without gaps, in the order in
	// which executions ended.
	Index int64 `json:"index"`
	// ExecutionID and Status are the run's id and how it ended.
	ExecutionID string `json:"execution_id"`
	Status      Status `json:"status"`
	// InputHeap is the heap really restored, OutputHeap the execution's heap;
	// empty when there is none.
	InputHeap  string `json:"input_heap,omitempty"`
	OutputHeap string `json:"output_heap,omitempty"`
	// CompletedAt is when the execution ended; TerminalSeq its terminal
	// event's position.
	CompletedAt Instant `json:"completed_at"`
	TerminalSeq uint64  `json:"terminal_seq"`
}

// HeapCollected records that a heap is kept no longer: its blob may be missing
// from here on. What the ledger says of the heap stays: its key, the run that
// left it, its tags. A later event that names it as an output makes it exist
// again.
//
// Appended by the server, before the blob is removed: when a pass finds that the
// rule holds, under the expected position of the heap's subject, so that no tag
// set meanwhile is missed.
type HeapCollected struct {
	// Heap is the heap's key.
	Heap string `json:"heap"`
	// Rule is what the heap was collected by.
	Rule CollectionRule `json:"rule"`
	// Size is the heap's uncompressed length in bytes, as the event says that
	// named it last.
	Size int64 `json:"size"`
	// MadeAt is the position of the event that named the heap last as an output.
	MadeAt uint64 `json:"made_at"`
	// LastUse is when the heap was last made, restored or tagged, as far as events
	// up to position Decided tell.
	LastUse Instant `json:"last_use"`
	Decided uint64  `json:"decided"`
	// Actor asked for the pass.
	Actor Actor `json:"actor"`
}

// CollectionRule says which heaps may be collected: those without tags that no
// run waiting or under way starts from, that no session would go on from, that
// are not the input or output of one of the newest entries of a session, and
// that were not used for a while.
type CollectionRule struct {
	// OlderThanSecs is how long ago the last use must be, in seconds.
	OlderThanSecs int64 `json:"older_than_secs"`
	// KeepEntries is how many entries of each session keep their heaps.
	KeepEntries int `json:"keep_entries"`
	// Session is the key of the session whose content was shredded, when that is
	// why its heaps go; the other members do not matter then.
	Session string `json:"session,omitempty"`
}

// HeapInfo describes a stored heap blob.
type HeapInfo struct {
	// SHA256 is the heap's key; Size the uncompressed length in bytes.
	SHA256 string
	Size   int64
	// EngineID is the engine that can restore it.
	EngineID string
}

// BlobInfo describes a blob as the store lists it.
type BlobInfo struct {
	Tenant string
	// Heap is true for the heap of a run, false for a text.
	Heap bool
	// SHA256 is the key; Size the uncompressed length in bytes.
	SHA256 string
	Size   int64
	// StoredAt is when somebody last relied on storing it.
	StoredAt time.Time
	// Version changes whenever it is stored again.
	Version uint64
}
