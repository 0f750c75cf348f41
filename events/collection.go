package events

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

// EventType returns TypeHeapCollected.
func (*HeapCollected) EventType() Type { return TypeHeapCollected }

func (d *HeapCollected) about() string { return d.Heap }

func (d *HeapCollected) subject(tenant string) string {
	return HeapSubject(tenant, d.Heap)
}
