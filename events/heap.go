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

// EventType returns TypeHeapTagged.
func (*HeapTagged) EventType() Type { return TypeHeapTagged }

// EventType returns TypeSessionEntryRecorded.
func (*SessionEntryRecorded) EventType() Type { return TypeSessionEntryRecorded }

func (d *HeapTagged) about() string           { return d.Heap }
func (d *SessionEntryRecorded) about() string { return d.SessionID }

func (d *HeapTagged) subject(tenant string) string {
	return HeapSubject(tenant, d.Heap)
}

func (d *SessionEntryRecorded) subject(tenant string) string {
	return SessionSubject(tenant, d.SessionID)
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
