package retention

import (
	"encoding/hex"
	"fmt"
	"time"

	"daybook/events"
)

// heapKey is a tenant and a heap's key. It is compact because there may be a million.
type heapKey struct {
	tenant uint32
	hash   [32]byte
}

// heap is the state of a heap according to the events.
type heap struct {
	size       int64
	producedAt uint64 // position of the newest event that names it as an output; 0: none
	used       int64  // time of the newest event for which markUsed was called, in ms since 1970 UTC
	// tagged reports whether the heap has tags. It is valid from position taggedAt on.
	tagged   bool
	taggedAt uint64
	// collected and collectedAt are position and time (ms since 1970 UTC) of the newest
	// event that collected the heap.
	collected   uint64
	collectedAt int64
	// migrated is the newest heap that a migration made of this one, or nil. It is kept as
	// long as this one would be.
	migrated *heap
	// pins counts the session entries, runs, sessions and contexts that need the heap.
	pins int32
}

// exists reports whether the heap exists according to the events.
func (h *heap) exists() bool { return h.producedAt > h.collected }

// isKept reports whether a use protects the heap. before is the time, in ms since 1970 UTC,
// since which a use protects it.
func (h *heap) isKept(before int64) bool { return h.tagged || h.pins > 0 || h.used >= before }

// run is an execution that has not ended, or whose session entry is not yet recorded.
type run struct {
	input, output *heap
	turn          string // the logical session, if the run is a turn
	hasSession    bool   // a session entry follows the end
	context       string // key of the conversation context of the request
	started       *heap  // heap that the newest attempt restored, if it is not input
}

// window holds the heaps of the newest entries, in a ring.
type window struct {
	entries [][2]*heap
	next    int
}

// add pins the heaps of the newest entry, and unpins those of the oldest one if there
// are more than keep entries.
func (w *window) add(keep int, input, output *heap) {
	pair := [2]*heap{pin(input), pin(output)}
	if len(w.entries) < keep {
		w.entries = append(w.entries, pair)
		return
	}
	unpin(w.entries[w.next][0])
	unpin(w.entries[w.next][1])
	w.entries[w.next] = pair
	w.next = (w.next + 1) % keep
}

// unpinAll unpins all heaps.
func (w *window) unpinAll() {
	for _, pair := range w.entries {
		unpin(pair[0])
		unpin(pair[1])
	}
}

// keepContextExecutions is the number of the newest executions of a conversation
// context whose heaps are kept until the context is reset. The context lists as many,
// and a client may use the heap of each one.
const keepContextExecutions = 200

// head holds the heaps that the next turn of a logical session may start from.
type head struct{ output, initial *heap }

// heapState is the state of all heaps after the events up to a position.
type heapState struct {
	keep    int // number of newest entries of a session whose heaps are kept
	tenants map[string]uint32
	names   []string
	heaps   map[heapKey]*heap
	runs    map[string]*run
	windows map[string]*window
	heads   map[string]*head
	// contexts holds the executions of each conversation context since its last reset.
	contexts map[string]*window
	// first is the time of the first event in the ledger.
	first time.Time
}

func newHeapState(keepEntries int) *heapState {
	return &heapState{
		keep: keepEntries, tenants: map[string]uint32{}, heaps: map[heapKey]*heap{},
		runs: map[string]*run{}, windows: map[string]*window{}, heads: map[string]*head{}, contexts: map[string]*window{},
	}
}

// heapEventTypes maps each known type to whether its events concern heaps. Events of
// the other types are skipped without decoding.
var heapEventTypes = func() map[events.Type]bool {
	all := map[events.Type]bool{}
	for _, t := range events.Types() {
		all[t] = false
	}
	for _, t := range []events.Type{
		events.TypeExecutionRequested, events.TypeExecutionStarted, events.TypeExecutionCompleted, events.TypeExecutionFailed,
		events.TypeExecutionTimedOut, events.TypeExecutionCancelled, events.TypeHeapTagged, events.TypeHeapCollected,
		events.TypeSessionEntryRecorded, events.TypeSessionOpened, events.TypeSessionExpanded, events.TypeSessionTurnQueued,
		events.TypeSessionTurnSkipped, events.TypeSessionRebound, events.TypeSessionReset,
		events.TypeContextCleared, events.TypeContextExpired, events.TypeHeapMigrated,
	} {
		all[t] = true
	}
	return all
}()

// take adds the next event. It returns an error for a type of a newer version, which
// may need a heap in a way that this version does not know.
func (f *heapState) take(m events.Stored) error {
	typ := typeOf(m)
	matter, known := heapEventTypes[typ]
	if !known {
		return newerType(m.Seq, typ)
	}
	if !matter && !f.first.IsZero() {
		return nil
	}
	e, err := events.Decode(m.Seq, m.Message())
	if err != nil {
		return err
	}
	if f.first.IsZero() {
		f.first = e.Time
	}
	f.apply(&e)
	return nil
}

func typeOf(m events.Stored) events.Type {
	return events.Type(events.HeaderValue(m.Header, "ce-type"))
}

func newerType(seq uint64, typ events.Type) error {
	return fmt.Errorf("event %d has type %s of a newer version of Daybook and may depend on heaps; upgrade Daybook", seq, typ)
}

func (f *heapState) apply(e *events.Event) {
	switch d := e.Data.(type) {
	case *events.ExecutionRequested:
		r := &run{input: f.markUsed(e, d.Heap), hasSession: d.Session != ""}
		if d.Turn != nil {
			// While the run waits for its turn, a reset may change the session head.
			r.input, r.turn = f.markUsed(e, d.Turn.Heap), d.Turn.SessionID
			f.setInitialHead(e, r.turn, d.Turn.Heap)
		}
		if d.Context != nil {
			r.context = d.Context.Key
		}
		pin(r.input)
		f.runs[e.Tenant+" "+d.ExecutionID] = r
	case *events.ExecutionStarted:
		if r := f.runs[e.Tenant+" "+d.ExecutionID]; r != nil {
			unpin(r.started)
			r.started = pin(f.markUsed(e, d.InputHeap))
		}
	case *events.HeapTagged:
		f.applyTags(e, d)
	case *events.HeapMigrated:
		f.applyMigrated(e, d)
	case *events.HeapCollected:
		if h := f.heap(e.Tenant, d.Heap); h != nil {
			h.collected, h.collectedAt = e.Seq, e.Time.UnixMilli()
		}
	case *events.SessionEntryRecorded:
		f.applySessionEntry(e, d)
	case *events.SessionOpened:
		f.setInitialHead(e, d.SessionID, d.Head)
	case *events.SessionExpanded:
		f.setInitialHead(e, d.SessionID, d.Next.Heap)
	case *events.SessionTurnQueued:
		f.setInitialHead(e, d.SessionID, d.Heap)
	case *events.SessionTurnSkipped:
		f.setInitialHead(e, d.SessionID, d.Next.Heap)
	case *events.SessionRebound:
		f.setInitialHead(e, d.SessionID, d.Next.Heap)
	case *events.SessionReset:
		f.setInitialHead(e, d.SessionID, d.Heap)
	case *events.ContextCleared:
		f.resetContext(e, d.Key)
	case *events.ContextExpired:
		f.resetContext(e, d.Key)
	default:
		if end := events.EndingOf(e.Data); end != nil {
			f.applyEnding(e, end)
		}
	}
}

// heap returns the state of a heap, or nil for an empty hash.
func (f *heapState) heap(tenant, hash string) *heap {
	if hash == "" {
		return nil
	}
	k := f.key(tenant, hash)
	h := f.heaps[k]
	if h == nil {
		h = &heap{}
		f.heaps[k] = h
	}
	return h
}

func (f *heapState) key(tenant, hash string) heapKey {
	n, ok := f.tenants[tenant]
	if !ok {
		n = uint32(len(f.names))
		f.tenants[tenant], f.names = n, append(f.names, tenant)
	}
	k := heapKey{tenant: n}
	_, _ = hex.Decode(k.hash[:], []byte(hash[:min(len(hash), 64)])) // recorded keys are hashes
	return k
}

// markUsed updates the time of the last use of a heap. These are its uses: a run is
// requested with it, restores it or produces it; an edit changes its tags; a logical
// session is set to continue from it.
func (f *heapState) markUsed(e *events.Event, hash string) *heap {
	h := f.heap(e.Tenant, hash)
	if h != nil {
		h.used = max(h.used, e.Time.UnixMilli())
	}
	return h
}

func pin(h *heap) *heap {
	if h != nil {
		h.pins++
	}
	return h
}

func unpin(h *heap) {
	if h != nil {
		h.pins--
	}
}

func (f *heapState) applyMigrated(e *events.Event, d *events.HeapMigrated) {
	if d.Verdict != events.MigrationDone {
		return
	}
	f.markUsed(e, d.From)
	h := f.markUsed(e, d.NewHeap)
	h.size, h.producedAt = d.Size, e.Seq
	if old := f.heap(e.Tenant, d.Heap); old != h {
		old.migrated = h
	}
}

// heapsOfKept returns the migrated heaps that are kept because the heaps of which they were
// made would be, whether or not those still exist.
func (f *heapState) heapsOfKept(before int64) map[*heap]bool {
	kept := map[*heap]bool{}
	for _, h := range f.heaps {
		if !h.isKept(before) {
			continue
		}
		for next := h.migrated; next != nil && !kept[next]; next = next.migrated {
			kept[next] = true
		}
	}
	return kept
}

func (f *heapState) applyTags(e *events.Event, d *events.HeapTagged) {
	h := f.markUsed(e, d.Heap)
	from := e.Seq
	if d.AppliesAt != 0 && d.AppliesAt < e.Seq {
		from = d.AppliesAt
	}
	if h != nil && from >= h.taggedAt {
		// Encrypted content may contain tags.
		h.taggedAt, h.tagged = from, d.Content.Sealed != nil || len(d.Content.Value().Tags) > 0
	}
}

func (f *heapState) applyEnding(e *events.Event, d *events.Ending) {
	k := e.Tenant + " " + d.ExecutionID
	r := f.runs[k]
	if d.Heap != nil {
		h := f.markUsed(e, d.Heap.SHA256)
		h.size, h.producedAt = d.Heap.Size, e.Seq
		if r != nil {
			r.output = pin(h)
			if r.turn != "" {
				f.setTurnHead(e, r.turn, h)
			}
		}
	}
	if r == nil {
		return
	}
	f.noteContextExecution(e, r, r.output)
	unpin(r.started)
	r.started = nil
	if !r.hasSession {
		f.finishExecution(k, r)
	}
}

func (f *heapState) finishExecution(k string, r *run) {
	unpin(r.input)
	unpin(r.output)
	delete(f.runs, k)
}

func (f *heapState) applySessionEntry(e *events.Event, d *events.SessionEntryRecorded) {
	k := e.Tenant + " " + d.ExecutionID
	if r := f.runs[k]; r != nil {
		f.finishExecution(k, r)
	}
	if at := f.heads[e.Tenant+" "+d.SessionID]; at != nil && d.OutputHeap != "" {
		unpin(at.initial) // the named session continues from the output heap of this entry now
		delete(f.heads, e.Tenant+" "+d.SessionID)
	}
	if f.keep == 0 {
		return
	}
	w := f.windows[e.Tenant+" "+d.SessionID]
	if w == nil {
		w = &window{}
		f.windows[e.Tenant+" "+d.SessionID] = w
	}
	w.add(f.keep, f.heap(e.Tenant, d.InputHeap), f.heap(e.Tenant, d.OutputHeap))
}

// noteContextExecution adds an ended execution to its conversation context.
func (f *heapState) noteContextExecution(e *events.Event, r *run, output *heap) {
	if r.context == "" || r.input == nil && output == nil {
		return
	}
	k := e.Tenant + " " + r.context
	w := f.contexts[k]
	if w == nil {
		w = &window{}
		f.contexts[k] = w
	}
	w.add(keepContextExecutions, r.input, output)
}

// resetContext unpins the heaps of a conversation context that was cleared or has
// expired.
func (f *heapState) resetContext(e *events.Event, key string) {
	k := e.Tenant + " " + key
	if w := f.contexts[k]; w != nil {
		w.unpinAll()
		delete(f.contexts, k)
	}
}

// setInitialHead pins the heap that the next turn of a logical session starts from.
func (f *heapState) setInitialHead(e *events.Event, session, hash string) {
	h := f.markUsed(e, hash)
	if h == nil {
		return
	}
	at := f.head(e, session)
	unpin(at.initial)
	at.initial = pin(h)
}

// setTurnHead pins the heap that a turn of a session left.
func (f *heapState) setTurnHead(e *events.Event, session string, h *heap) {
	at := f.head(e, session)
	unpin(at.output)
	at.output = pin(h)
}

func (f *heapState) head(e *events.Event, session string) *head {
	k := e.Tenant + " " + session
	if f.heads[k] == nil {
		f.heads[k] = &head{}
	}
	return f.heads[k]
}
