package events

import "time"

// HeapTagged records all tags of a heap after an edit, so that the newest event is
// sufficient.
//
// Appended when a client edits the tags, and after an execution with tags has completed.
type HeapTagged struct {
	// Heap is the heap's key.
	Heap string `json:"heap"`
	// Content holds the resulting tags.
	Content Content[TagContent] `json:"content"`
	// Edit is the kind of edit: "run" (tags of an execution), "set" or "delete".
	Edit TagEdit `json:"edit"`
	// ExecutionID is the execution whose tags these are; only for EditRun.
	ExecutionID string `json:"execution_id,omitempty"`
	// AppliesAt is the position from which the tags hold, if it is lower than that of
	// the event: the tags of an execution hold from its completed event, so an edit
	// recorded between the two is newer. 0 means the position of the event.
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

// SessionEntryRecorded records an ended execution in the log of a named session.
//
// Appended after the terminal event of an execution that was submitted under a session
// name.
type SessionEntryRecorded struct {
	// SessionID is the key of the session; Session its name.
	SessionID string `json:"session_id"`
	Session   string `json:"session"`
	// Index counts the entries of the session from 0, without gaps, in the order in
	// which executions ended.
	Index int64 `json:"index"`
	// ExecutionID and Status are the id and the final status of the execution.
	ExecutionID string `json:"execution_id"`
	Status      Status `json:"status"`
	// InputHeap is the heap that was restored, OutputHeap the heap that was saved; empty
	// when there is none.
	InputHeap  string `json:"input_heap,omitempty"`
	OutputHeap string `json:"output_heap,omitempty"`
	// CompletedAt is when the execution ended; TerminalSeq the position of its terminal
	// event.
	CompletedAt Instant `json:"completed_at"`
	TerminalSeq uint64  `json:"terminal_seq"`
}

// HeapCollected records that a heap was collected: its blob may be missing from here on.
// The events about the heap stay in the ledger: its key, its execution, its tags. If a
// later event names the heap as an output, the heap exists again.
//
// Appended by the server before it deletes the blob, with the last position on the
// subject of the heap as the expected position, so that a tag set meanwhile prevents the
// deletion.
type HeapCollected struct {
	// Heap is the heap's key.
	Heap string `json:"heap"`
	// Rule is the retention rule that was applied.
	Rule CollectionRule `json:"rule"`
	// Size is the uncompressed length of the heap in bytes, from the last event that
	// names it as an output.
	Size int64 `json:"size"`
	// MadeAt is the position of the last event that names the heap as an output.
	MadeAt uint64 `json:"made_at"`
	// LastUse is when the heap was last saved, restored or tagged, according to the
	// events up to position Decided.
	LastUse Instant `json:"last_use"`
	Decided uint64  `json:"decided"`
	// Actor started the collection.
	Actor Actor `json:"actor"`
}

// CollectionRule is the retention rule of a collection. It selects heaps without tags
// that no queued or running execution and no next turn of a session starts from, that
// are not the input or output of one of the newest entries of a session, and that were
// not used for a period.
type CollectionRule struct {
	// OlderThanSecs is the time since the last use, in seconds.
	OlderThanSecs int64 `json:"older_than_secs"`
	// KeepEntries is the number of newest entries of each session whose heaps are kept.
	KeepEntries int `json:"keep_entries"`
	// Session is the key of a session whose content was shredded, if that is the reason.
	// The other members are then ignored.
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
	// Heap is true for a heap, false for a text.
	Heap bool
	// SHA256 is the key; Size the uncompressed length in bytes.
	SHA256 string
	Size   int64
	// StoredAt is the last time that the blob was stored or pinned.
	StoredAt time.Time
	// Version changes whenever the blob is stored again.
	Version uint64
}
