package retention

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"daybook/events"
)

// Shredder destroys content that was recorded under content keys. It is safe for concurrent
// use and needs no closing.
type Shredder struct {
	opts ShredOptions
	// sem holds one token while no session is being shredded.
	sem chan struct{}
}

// Keys holds the content keys.
type Keys interface {
	// Retire marks the keys of a session as not usable for new content, and returns
	// their ids.
	Retire(tenant, sessionID string) (ids []string, err error)
	// Settle closes the keys for edits of earlier content until Reopen, and waits until all
	// content that commands are writing under the keys is stored, or ctx is canceled.
	Settle(ctx context.Context, ids []string) error
	// Reopen undoes the closing of keys that are not destroyed.
	Reopen(ids []string)
	// ContentKey returns the key, and whether it exists.
	ContentKey(id string) ([]byte, bool)
	// Destroy destroys a key permanently.
	Destroy(id string) error
}

// ShredRecorder records the shredding of a session. *ledger.Ledger implements it.
type ShredRecorder interface {
	Recorder
	RecordShred(ctx context.Context, tenant string, d *events.SessionShredded) (events.Event, error)
}

// ShredStore reads the ledger and evicts cached heaps of a tenant.
type ShredStore interface {
	Feed
	// EachMatching calls fn with every recorded event on the subjects of a pattern of
	// package events, in order.
	EachMatching(ctx context.Context, pattern string, fn func(events.Event) error) error
	// EvictHeaps drops the heaps of a tenant from memory.
	EvictHeaps(tenant string)
}

// ShredOptions configures a Shredder. Store, Recorder and Keys are required.
type ShredOptions struct {
	Store    ShredStore
	Recorder ShredRecorder
	Keys     Keys
	// Wait is the maximum time for which Shred waits for runs under the keys to end. Runs that start meanwhile are
	// under another key, so that it also ends on a server that always has some run. 0 waits for none.
	Wait time.Duration
}

// openPoll is the time between two reads of the ledger while Shred waits for runs to end.
const openPoll = 50 * time.Millisecond

// NewShredder returns a Shredder. It starts nothing.
func NewShredder(opts ShredOptions) *Shredder {
	s := &Shredder{opts: opts, sem: make(chan struct{}, 1)}
	s.sem <- struct{}{}
	return s
}

// ShredResult is the result of Shred.
type ShredResult struct {
	// Seq is the position of the recorded event, At its time.
	Seq uint64 `json:"seq" doc:"Position of the event that says so."`
	At  string `json:"at" format:"date-time"`
	// Last is the position of the last event that Shred recorded.
	Last uint64 `json:"-"`
	// Executions counts the runs whose content was destroyed, Heaps the heaps that they
	// left.
	Executions int `json:"executions" doc:"Number of runs whose content was destroyed."`
	Heaps      int `json:"heaps" doc:"Number of heaps that these runs left."`
	// Kept counts the runs of the session whose content stays because it was recorded
	// without a key.
	Kept int `json:"kept" doc:"Number of runs of the session, or without a session, whose content stays, because it was recorded without a key."`
}

// RefusedError is returned if Shred refuses to destroy the content. Message is a
// human-readable reason.
type RefusedError struct{ Message string }

// Error returns the message.
func (e *RefusedError) Error() string { return e.Message }

// Target is what to shred: a session of a kind, or with events.SessionNone everything that
// belongs to no session.
type Target struct {
	Kind events.SessionKind
	// Name is the name of a named session. SessionID is the id of a logical or ACP session.
	Name, SessionID string
}

// Named returns the target of a named session.
func Named(session string) Target { return Target{Kind: events.SessionLog, Name: session} }

// id returns the key of the target within a tenant.
func (t Target) id(tenant string) string {
	switch t.Kind {
	case events.SessionNone:
		return events.NoSessionID(tenant)
	case events.SessionLogical, events.SessionACP:
		return t.SessionID
	default:
		return events.SessionID(tenant, t.Name)
	}
}

// String returns a human-readable description of the content.
func (t Target) String() string { return events.ShredLabel(t.Kind, t.Name, t.SessionID) }

// Shred destroys the content of a session, or of what belongs to no session. It records an
// event, collects the heaps that the runs left, and destroys the keys. It returns a
// *RefusedError if a run does not end and get its session entry within ShredOptions.Wait, or if no content is left
// that was recorded under a key. Unless force is set, it also returns one if other runs used
// or left one of the heaps, or another session was forked from one or set to one, or if a key is missing that no event records as destroyed: the
// content under it may be readable with a copy of the key. It returns events.ErrNotFound if
// there is no content. After these errors nothing is recorded or destroyed, but the keys are
// retired.
//
// Content is either recorded before it is destroyed, so that Shred finds it, or it is
// recorded under a new key and stays. For this Shred waits until the commands that use the
// keys have recorded their events. Once the event is recorded, a canceled ctx has no effect.
// If Shred fails after that, Finish completes the shredding.
func (s *Shredder) Shred(ctx context.Context, tenant string, t Target, force bool, actor events.Actor) (ShredResult, error) {
	select {
	case <-s.sem:
		defer func() { s.sem <- struct{}{} }()
	case <-ctx.Done():
		return ShredResult{}, context.Cause(ctx)
	}
	id := t.id(tenant)
	keys, err := s.opts.Keys.Retire(tenant, id)
	if err != nil {
		return ShredResult{}, fmt.Errorf("shred %s: %w", t, err)
	}
	// A run whose request is being recorded under a retired key must be among those that the
	// scan finds.
	if err := s.opts.Keys.Settle(ctx, keys); err != nil {
		return ShredResult{}, fmt.Errorf("shred %s: wait for events that are being recorded: %w", t, err)
	}
	isRefused := true
	defer func() {
		if isRefused {
			s.opts.Keys.Reopen(keys)
		}
	}()
	destroyed, err := s.destroyedKeys(ctx, tenant, id)
	if err != nil {
		return ShredResult{}, fmt.Errorf("shred %s: %w", t, err)
	}
	f := s.newScan(tenant, id, keys, destroyed)
	for late := time.Now().Add(s.opts.Wait); ; {
		if err := f.readNew(ctx, s.opts.Store); err != nil {
			return ShredResult{}, fmt.Errorf("shred %s: %w", t, err)
		}
		err := f.check(t, force)
		if err == nil {
			break
		}
		if len(f.open) == 0 || time.Now().After(late) {
			return ShredResult{}, err
		}
		select {
		case <-time.After(openPoll):
		case <-ctx.Done():
			return ShredResult{}, context.Cause(ctx)
		}
	}
	d := &events.SessionShredded{SessionID: id, Session: t.Name, KeyIDs: sorted(keys), Executions: len(f.encrypted), Actor: actor}
	if t.Kind != events.SessionLog {
		d.Kind = t.Kind
	}
	isRefused = false // even an append that failed may be stored
	e, err := s.opts.Recorder.RecordShred(ctx, tenant, d)
	if err != nil {
		return ShredResult{}, err
	}
	last, err := s.finish(context.WithoutCancel(ctx), tenant, d, f)
	if err != nil {
		return ShredResult{}, fmt.Errorf("%s is recorded as shredded (event %d), but not completely destroyed; restart the server to finish: %w", t, e.Seq, err)
	}
	return ShredResult{Seq: e.Seq, Last: max(e.Seq, last), At: events.FormatTime(e.Time), Executions: len(f.encrypted), Heaps: len(f.heaps), Kept: f.kept}, nil
}

// check returns the reason why the content cannot be shredded, or nil.
func (f *sessionScan) check(t Target, force bool) error {
	isEmpty := len(f.encrypted) == 0 && !f.hasContent
	switch {
	case isEmpty && f.unreadable > 0:
		return &RefusedError{fmt.Sprintf("the content keys of %d runs are missing, and no event records that they were destroyed: restore the keys, so that they can be destroyed, and shred %s then", f.unreadable, t)}
	case isEmpty && len(f.shredded) > 0 && f.kept > 0:
		return &RefusedError{fmt.Sprintf("%s is already shredded, except that of %d runs, which were recorded without a key: their content cannot be shredded", t, f.kept)}
	case isEmpty && (len(f.shredded) > 0 || f.wasShredded):
		return &RefusedError{fmt.Sprintf("%s is already shredded", t)}
	case isEmpty && f.kept > 0:
		return &RefusedError{fmt.Sprintf("%s cannot be shredded: its %d runs were recorded without a content key, because --erasable-sessions was not set then", t, f.kept)}
	case isEmpty:
		return fmt.Errorf("%s: %w", t, events.ErrNotFound)
	case len(f.open) > 0:
		return &RefusedError{"runs are under way: cancel them, or wait until they have ended and their session entries are recorded: " + firstOf(slices.Sorted(maps.Keys(f.open)))}
	case f.unreadable > 0 && !force:
		return &RefusedError{fmt.Sprintf("the content keys of %d runs are missing, and no event records that they were destroyed: restore the keys, so that they are destroyed too, or use force to shred the rest of %s", f.unreadable, t)}
	}
	if users := f.outsideUsers(); len(users) > 0 && !force {
		return &RefusedError{"its heaps were also used or left by runs or sessions outside of it: " + firstOf(users) + "; use force to remove them anyway"}
	}
	return nil
}

// Finish completes interrupted calls of Shred: it destroys the keys that recorded
// events name and that still exist.
func (s *Shredder) Finish(ctx context.Context) error {
	var unfinished []events.Event
	err := s.opts.Store.EachMatching(ctx, events.ShredSubjects(), func(e events.Event) error {
		if d, ok := e.Data.(*events.SessionShredded); ok && slices.ContainsFunc(d.KeyIDs, func(id string) bool { _, there := s.opts.Keys.ContentKey(id); return there }) {
			unfinished = append(unfinished, e)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("find shredded sessions: %w", err)
	}
	for _, e := range unfinished {
		d := e.Data.(*events.SessionShredded)
		f := s.newScan(e.Tenant, d.SessionID, d.KeyIDs, nil)
		err := f.readNew(ctx, s.opts.Store)
		if err == nil {
			_, err = s.finish(ctx, e.Tenant, d, f)
		}
		if err != nil {
			return fmt.Errorf("finish shredding %s: %w", d.Label(), err)
		}
	}
	return nil
}

// finish collects the heaps and destroys the keys. It returns the position of the last
// event that it recorded.
func (s *Shredder) finish(ctx context.Context, tenant string, d *events.SessionShredded, f *sessionScan) (last uint64, err error) {
	var list []events.HeapCollected
	for hash, h := range f.heaps {
		if h.collected > h.madeAt {
			continue
		}
		list = append(list, events.HeapCollected{
			Heap: hash, Rule: events.CollectionRule{Session: d.SessionID}, Size: h.size, MadeAt: h.madeAt,
			LastUse: events.Instant{Time: h.lastUse}, Decided: f.decided, Actor: d.Actor,
		})
	}
	if err := s.opts.Recorder.CollectHeaps(ctx, tenant, list, func(_ string, seq uint64) { last = max(last, seq) }); err != nil {
		return last, err
	}
	var errs []error
	for _, key := range d.KeyIDs {
		errs = append(errs, s.opts.Keys.Destroy(key))
	}
	// All heaps: the event that names one may be lost, and then f.heaps lacks it.
	s.opts.Store.EvictHeaps(tenant)
	return last, errors.Join(errs...)
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// firstOf lists at most five entries and the number of the others.
func firstOf(list []string) string {
	const few = 5
	if len(list) <= few {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
}

// sessionScan is the state of a session and its heaps according to the ledger.
type sessionScan struct {
	tenant, session string
	// keys are the keys to destroy, destroyed those that earlier calls destroyed.
	keys      []string
	destroyed map[string]bool
	keyring   Keys
	// decided is the position of the last event that was read.
	decided uint64
	// encrypted holds the runs that were recorded under the keys, shredded those of earlier
	// calls. kept counts the runs that were recorded without a key, unreadable those whose
	// key is missing although no event records that it was destroyed.
	encrypted, shredded map[string]bool
	kept, unreadable    int
	// hasContent is true if any event has content under the keys. wasShredded is true if
	// earlier calls destroyed keys.
	hasContent, wasShredded bool
	// open holds the runs that have not ended, or lack the entry of their named session, which inNamed says.
	open, inNamed map[string]bool
	heaps         map[string]*sessionHeap
	// entryHeaps holds the heaps that the session's entries name. heaps lacks one of them if the end of its run is
	// lost.
	entryHeaps map[string]bool
	// others maps heaps to the runs and sessions outside of the session that used or left them.
	others map[string][]string
}

type sessionHeap struct {
	size              int64
	madeAt, collected uint64
	lastUse           time.Time
}

// outsideUsers returns the runs and sessions outside of the session that used or left its heaps.
func (f *sessionScan) outsideUsers() []string {
	found := map[string]bool{}
	for _, hashes := range []iter.Seq[string]{maps.Keys(f.heaps), maps.Keys(f.entryHeaps)} {
		for hash := range hashes {
			for _, id := range f.others[hash] {
				found[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// destroyedKeys returns the ids of the keys of a session that were destroyed according to the
// ledger.
func (s *Shredder) destroyedKeys(ctx context.Context, tenant, session string) (map[string]bool, error) {
	ids := map[string]bool{}
	err := s.opts.Store.EachMatching(ctx, events.ShredSubjects(), func(e events.Event) error {
		if d, ok := e.Data.(*events.SessionShredded); ok && e.Tenant == tenant && d.SessionID == session {
			for _, id := range d.KeyIDs {
				ids[id] = true
			}
		}
		return nil
	})
	return ids, err
}

// newScan returns a scan that has read nothing. keys are the keys to destroy, destroyed those that earlier calls
// destroyed.
func (s *Shredder) newScan(tenant, session string, keys []string, destroyed map[string]bool) *sessionScan {
	return &sessionScan{
		tenant: tenant, session: session, keys: keys, destroyed: destroyed, keyring: s.opts.Keys, wasShredded: len(destroyed) > 0,
		encrypted: map[string]bool{}, shredded: map[string]bool{}, open: map[string]bool{}, inNamed: map[string]bool{},
		heaps: map[string]*sessionHeap{}, entryHeaps: map[string]bool{}, others: map[string][]string{},
	}
}

// readNew reads the events that were recorded since the last call.
func (f *sessionScan) readNew(ctx context.Context, feed Feed) error {
	last, err := readAfter(ctx, feed, f.decided, f.read)
	if err == nil {
		f.decided = max(f.decided, last)
	}
	return err
}

// read reads a message.
func (f *sessionScan) read(m events.Stored) error {
	typ := typeOf(m)
	f.hasContent = f.hasContent || typ != events.TypeSessionShredded && slices.ContainsFunc(f.keys, func(key string) bool { return bytes.Contains(m.Body, []byte(key)) })
	if !heapEventTypes[typ] {
		if _, known := heapEventTypes[typ]; !known {
			return newerType(m.Seq, typ)
		}
		return nil
	}
	e, err := events.Decode(m.Seq, m.Message())
	if err != nil || e.Tenant != f.tenant {
		return err
	}
	switch d := e.Data.(type) {
	case *events.ExecutionRequested:
		f.readRequest(d)
	case *events.ExecutionStarted:
		f.use(d.ExecutionID, d.InputHeap)
	case *events.SessionOpened: // a fork, whose first turn starts from the heap
		f.useIn(d.SessionID, d.Head)
	case *events.SessionReset:
		f.useIn(d.SessionID, d.Heap)
	case *events.SessionTurnQueued: // its run may not have started yet
		f.useIn(d.SessionID, d.Heap)
	case *events.SessionEntryRecorded:
		delete(f.open, d.ExecutionID)
		if f.encrypted[d.ExecutionID] && d.OutputHeap != "" {
			f.entryHeaps[d.OutputHeap] = true
		}
	case *events.HeapMigrated:
		if f.heaps[d.Heap] != nil && d.Verdict == events.MigrationDone { // it has the content of the other one
			f.addHeap(&events.HeapRecord{SHA256: d.NewHeap, Size: d.Size}, &e)
		}
	case *events.HeapCollected:
		if h := f.heaps[d.Heap]; h != nil {
			h.collected = e.Seq
		}
	default:
		end := events.EndingOf(e.Data)
		if end != nil && !f.inNamed[end.ExecutionID] {
			delete(f.open, end.ExecutionID) // no session entry follows
		}
		if end != nil && end.Heap != nil {
			f.use(end.ExecutionID, end.Heap.SHA256)
			if f.encrypted[end.ExecutionID] {
				f.addHeap(end.Heap, &e)
			}
		}
	}
	return nil
}

func (f *sessionScan) readRequest(d *events.ExecutionRequested) {
	if ownerOf(f.tenant, d) == f.session {
		key := events.ContentKeyID(d)
		switch _, exists := f.keyring.ContentKey(key); {
		case slices.Contains(f.keys, key):
			f.encrypted[d.ExecutionID], f.open[d.ExecutionID] = true, true
		case key == "":
			f.kept++
		case f.destroyed[key]:
			f.shredded[d.ExecutionID] = true
		case !exists: // the key of a run that was requested during this call exists
			f.unreadable++
		}
	}
	if d.SessionID != "" && f.open[d.ExecutionID] {
		f.inNamed[d.ExecutionID] = true
	}
	f.use(d.ExecutionID, d.Heap)
}

// use notes that a run used or left a heap.
func (f *sessionScan) use(id, hash string) {
	if hash != "" && !f.encrypted[id] && !f.shredded[id] {
		f.others[hash] = append(f.others[hash], id)
	}
}

// useIn notes that a turn of a session starts from a heap.
func (f *sessionScan) useIn(session, hash string) {
	if session != f.session {
		f.use("session "+session, hash)
	}
}

// ownerOf returns the key of what the content of a run belongs to. ledger/encryption.go
// encrypts it under the key of that.
func ownerOf(tenant string, d *events.ExecutionRequested) string {
	switch {
	case d.SessionID != "":
		return d.SessionID
	case d.Turn != nil:
		return d.Turn.SessionID
	default:
		return events.NoSessionID(tenant)
	}
}

func (f *sessionScan) addHeap(r *events.HeapRecord, e *events.Event) {
	h := f.heaps[r.SHA256]
	if h == nil {
		h = &sessionHeap{}
		f.heaps[r.SHA256] = h
	}
	h.size, h.madeAt, h.lastUse = r.Size, e.Seq, e.Time
}
