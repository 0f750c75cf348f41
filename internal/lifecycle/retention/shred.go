package retention

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"daybook/events"
)

// Shredder destroys the content of sessions whose runs were recorded under content
// keys. It is safe for concurrent use and needs no closing.
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

// ShredStore reads the ledger and evicts cached heaps.
type ShredStore interface {
	Feed
	// EachMatching calls fn with every recorded event on the subjects of a pattern of
	// package events, in order.
	EachMatching(ctx context.Context, pattern string, fn func(events.Event) error) error
	// EvictHeap drops a heap from memory.
	EvictHeap(tenant, hash string)
}

// ShredOptions configures a Shredder. All fields are required.
type ShredOptions struct {
	Store    ShredStore
	Recorder ShredRecorder
	Keys     Keys
}

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
	Kept int `json:"kept" doc:"Number of runs of the session whose content stays, because it was recorded without a key."`
}

// RefusedError is returned if Shred refuses to destroy the content. Message is a
// human-readable reason.
type RefusedError struct{ Message string }

// Error returns the message.
func (e *RefusedError) Error() string { return e.Message }

// Shred destroys the content of a session's runs. It records an event, collects the
// heaps that the runs left, and destroys the keys. It returns a *RefusedError if a run of
// the session has not ended or has no session entry yet, or if no content is left that was
// recorded under a key. Unless force is set, it also returns one if other runs used or left
// one of the heaps, or if a key of the session is missing that no event records as
// destroyed: the content under it may be readable with a copy of the key. It returns
// events.ErrNotFound if the session has no runs. After these errors nothing is recorded or
// destroyed, but the keys are retired.
//
// A run that is requested during the call is recorded under a new key, and its content
// stays. Once the event is recorded, a canceled ctx has no effect. If Shred fails after
// that, Finish completes the shredding.
func (s *Shredder) Shred(ctx context.Context, tenant, session string, force bool, actor events.Actor) (ShredResult, error) {
	select {
	case <-s.sem:
		defer func() { s.sem <- struct{}{} }()
	case <-ctx.Done():
		return ShredResult{}, context.Cause(ctx)
	}
	id := events.SessionID(tenant, session)
	keys, err := s.opts.Keys.Retire(tenant, id)
	if err != nil {
		return ShredResult{}, fmt.Errorf("shred session: %w", err)
	}
	destroyed, err := s.destroyedKeys(ctx, tenant, id)
	if err != nil {
		return ShredResult{}, fmt.Errorf("shred session: %w", err)
	}
	f, err := s.scanSession(ctx, tenant, id, keys, destroyed)
	if err != nil {
		return ShredResult{}, fmt.Errorf("shred session: %w", err)
	}
	switch {
	case len(f.encrypted) == 0 && f.unreadable > 0:
		return ShredResult{}, &RefusedError{fmt.Sprintf("the content keys of %d runs of session %q are missing, and no event records that they were destroyed: restore the keys, so that they can be destroyed", f.unreadable, session)}
	case len(f.encrypted) == 0 && len(f.shredded) > 0 && f.kept > 0:
		return ShredResult{}, &RefusedError{fmt.Sprintf("the content of session %q is already shredded, except that of %d runs, which were recorded without a key: their content cannot be shredded", session, f.kept)}
	case len(f.encrypted) == 0 && len(f.shredded) > 0:
		return ShredResult{}, &RefusedError{fmt.Sprintf("the content of session %q is already shredded", session)}
	case len(f.encrypted) == 0 && f.kept > 0:
		return ShredResult{}, &RefusedError{fmt.Sprintf("the %d runs of session %q were recorded without a content key, because --erasable-sessions was not set then: their content cannot be shredded", f.kept, session)}
	case len(f.encrypted) == 0:
		return ShredResult{}, fmt.Errorf("session %q: %w", session, events.ErrNotFound)
	case len(f.open) > 0:
		return ShredResult{}, &RefusedError{"runs of the session are under way: cancel them, or wait until they have ended and their session entries are recorded: " + firstOf(f.open)}
	case f.unreadable > 0 && !force:
		return ShredResult{}, &RefusedError{fmt.Sprintf("the content keys of %d runs of session %q are missing, and no event records that they were destroyed: restore the keys, so that they are destroyed too, or use force to shred the other runs", f.unreadable, session)}
	}
	if users := f.outsideUsers(); len(users) > 0 && !force {
		return ShredResult{}, &RefusedError{"heaps of the session were also used or left by runs outside of it: " + firstOf(users) + "; use force to remove them anyway"}
	}
	e, err := s.opts.Recorder.RecordShred(ctx, tenant, &events.SessionShredded{SessionID: id, Session: session, KeyIDs: sorted(keys), Executions: len(f.encrypted), Actor: actor})
	if err != nil {
		return ShredResult{}, err
	}
	last, err := s.finish(context.WithoutCancel(ctx), tenant, id, keys, f, actor)
	if err != nil {
		return ShredResult{}, fmt.Errorf("session %q is recorded as shredded (event %d), but its content is not completely destroyed; restart the server to finish: %w", session, e.Seq, err)
	}
	return ShredResult{Seq: e.Seq, Last: max(e.Seq, last), At: events.FormatTime(e.Time), Executions: len(f.encrypted), Heaps: len(f.heaps), Kept: f.kept}, nil
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
		f, err := s.scanSession(ctx, e.Tenant, d.SessionID, d.KeyIDs, nil)
		if err == nil {
			_, err = s.finish(ctx, e.Tenant, d.SessionID, d.KeyIDs, f, d.Actor)
		}
		if err != nil {
			return fmt.Errorf("finish shredding session %q: %w", d.Session, err)
		}
	}
	return nil
}

// finish collects the heaps and destroys the keys. It returns the position of the last
// event that it recorded.
func (s *Shredder) finish(ctx context.Context, tenant, session string, keys []string, f *sessionScan, actor events.Actor) (last uint64, err error) {
	together := map[string][]events.HeapCollected{}
	for hash, h := range f.heaps {
		if h.collected > h.madeAt {
			continue
		}
		together[hash[:2]] = append(together[hash[:2]], events.HeapCollected{
			Heap: hash, Rule: events.CollectionRule{Session: session}, Size: h.size, MadeAt: h.madeAt,
			LastUse: events.Instant{Time: h.lastUse}, Decided: f.decided, Actor: actor,
		})
	}
	for _, list := range together {
		if err := s.opts.Recorder.CollectHeaps(ctx, tenant, list, func(_ string, seq uint64) { last = max(last, seq) }); err != nil {
			return last, err
		}
	}
	var errs []error
	for _, key := range keys {
		errs = append(errs, s.opts.Keys.Destroy(key))
	}
	for hash := range f.heaps {
		s.opts.Store.EvictHeap(tenant, hash)
	}
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
	// decided is the position of the last event that was read.
	decided uint64
	// encrypted holds the runs that were recorded under the keys, shredded those of earlier
	// calls. kept counts the runs that were recorded without a key, unreadable those whose
	// key is missing although no event records that it was destroyed.
	encrypted, shredded map[string]bool
	kept, unreadable    int
	// open lists the runs without a session entry.
	open  []string
	heaps map[string]*sessionHeap
	// others maps heaps to the runs outside of the session that used or left them.
	others map[string][]string
}

type sessionHeap struct {
	size              int64
	madeAt, collected uint64
	lastUse           time.Time
}

// outsideUsers returns the runs outside of the session that used or left its heaps.
func (f *sessionScan) outsideUsers() []string {
	found := map[string]bool{}
	for hash := range f.heaps {
		for _, id := range f.others[hash] {
			found[id] = true
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

// scanSession reads the ledger for a session. keys are the keys to destroy, destroyed those
// that earlier calls destroyed.
func (s *Shredder) scanSession(ctx context.Context, tenant, session string, keys []string, destroyed map[string]bool) (*sessionScan, error) {
	f := &sessionScan{encrypted: map[string]bool{}, shredded: map[string]bool{}, heaps: map[string]*sessionHeap{}, others: map[string][]string{}}
	open := map[string]bool{}
	last, err := readAll(ctx, s.opts.Store, func(m events.Stored) error {
		typ := typeOf(m)
		if !heapEventTypes[typ] {
			if _, known := heapEventTypes[typ]; !known {
				return newerType(m.Seq, typ)
			}
			return nil
		}
		e, err := events.Decode(m.Seq, m.Message())
		if err != nil || e.Tenant != tenant {
			return err
		}
		use := func(id, hash string) {
			if hash != "" && !f.encrypted[id] && !f.shredded[id] {
				f.others[hash] = append(f.others[hash], id)
			}
		}
		switch d := e.Data.(type) {
		case *events.ExecutionRequested:
			if d.SessionID == session {
				key := events.ContentKeyID(d)
				switch _, exists := s.opts.Keys.ContentKey(key); {
				case slices.Contains(keys, key):
					f.encrypted[d.ExecutionID], open[d.ExecutionID] = true, true
				case key == "":
					f.kept++
				case destroyed[key]:
					f.shredded[d.ExecutionID] = true
				case !exists: // the key of a run that was requested during this call exists
					f.unreadable++
				}
			}
			use(d.ExecutionID, d.Heap)
		case *events.ExecutionStarted:
			use(d.ExecutionID, d.InputHeap)
		case *events.SessionEntryRecorded:
			delete(open, d.ExecutionID)
		case *events.HeapCollected:
			if h := f.heaps[d.Heap]; h != nil {
				h.collected = e.Seq
			}
		default:
			if end := events.EndingOf(e.Data); end != nil && end.Heap != nil {
				use(end.ExecutionID, end.Heap.SHA256)
				if f.encrypted[end.ExecutionID] {
					f.addHeap(end.Heap, &e)
				}
			}
		}
		return nil
	})
	f.decided, f.open = last, slices.Sorted(maps.Keys(open))
	return f, err
}

func (f *sessionScan) addHeap(r *events.HeapRecord, e *events.Event) {
	h := f.heaps[r.SHA256]
	if h == nil {
		h = &sessionHeap{}
		f.heaps[r.SHA256] = h
	}
	h.size, h.madeAt, h.lastUse = r.Size, e.Seq, e.Time
}
