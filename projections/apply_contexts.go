package projections

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"daybook/events"
)

// contextStatements are the statements about conversation contexts.
type contextStatements struct {
	context, putContext, dropContext    *statement
	contextRun, runContext, endContexts *statement
	contextsWithKey                     *statement
}

func (s *contextStatements) queries() []statementDef {
	return []statementDef{
		{&s.context, selectContext + ` WHERE tenant = ? AND context_key = ?`},
		{&s.putContext, `INSERT OR REPLACE INTO contexts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.dropContext, `DELETE FROM contexts WHERE tenant = ? AND context_key = ?`},
		{&s.contextRun, `INSERT OR IGNORE INTO context_runs VALUES (?, ?, ?, ?)`},
		{&s.runContext, `SELECT context_key, since FROM context_runs WHERE tenant = ? AND execution_id = ?`},
		// Keys are random, so no other text contains one.
		{&s.contextsWithKey, `SELECT context_key FROM contexts WHERE tenant = ? AND instr(state, ?) > 0`},
		{&s.endContexts, `DELETE FROM context_runs WHERE tenant = ? AND execution_id = ?`},
	}
}

// contextKey identifies a conversation context of a batch. Watchers use the same key.
type contextKey = executionKey

func scanContext(row interface{ Scan(dest ...any) error }) (*contextRow, error) {
	var r contextRow
	var state string
	var empty bool
	if err := row.Scan(&r.Key, &r.SessionID, &r.Kind, &r.createdAt, &r.updatedAt, &r.usedAt, &r.running, &r.seq, &empty, &state); err != nil {
		return nil, err
	}
	r.bytes, r.isStored = len(state), true
	return &r, json.Unmarshal([]byte(state), &r.contextBody)
}

// loadContext returns a conversation context with the changes of the batch so far, or
// nil if there is none.
func (a *applier) loadContext(tenant, key string) (*contextRow, error) {
	k := contextKey{tenant, key}
	if r, isCached := a.contexts[k]; isCached {
		if r != nil && r.isRemoved {
			r = nil
		}
		return r, nil
	}
	r, err := scanContext(a.queryRow(a.s.context, tenant, key))
	if errors.Is(err, sql.ErrNoRows) {
		r, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if a.contexts == nil {
		a.contexts = map[contextKey]*contextRow{}
	}
	a.contexts[k] = r
	return r, nil
}

// ensureContext returns the conversation context that an event is about. It creates one
// if there is none.
func (a *applier) ensureContext(e *events.Event, ref events.ContextRef) (*contextRow, error) {
	r, err := a.loadContext(e.Tenant, ref.Key)
	if err != nil {
		return nil, err
	}
	if r == nil {
		r = &contextRow{ContextRef: ref}
		if before := a.contexts[contextKey{e.Tenant, ref.Key}]; before != nil {
			r.isStored = before.isStored // an earlier event of the batch removed it
		}
		r.reset(e.Time)
		a.contexts[contextKey{e.Tenant, ref.Key}] = r
	}
	r.seq = e.Seq
	return r, nil
}

// storeContexts writes the changes of the batch.
func (a *applier) storeContexts() error {
	keys := make([]contextKey, 0, len(a.contexts))
	for k := range a.contexts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y contextKey) int { return cmp.Or(cmp.Compare(x.tenant, y.tenant), cmp.Compare(x.id, y.id)) })
	for _, k := range keys {
		r := a.contexts[k]
		if r == nil {
			continue
		}
		if r.isRemoved {
			if r.isStored {
				a.usageOf(k.tenant).Contexts--
			}
			if err := a.exec(a.s.dropContext, k.tenant, k.id); err != nil {
				return err
			}
			continue
		}
		if !r.isStored {
			a.usageOf(k.tenant).Contexts++
		}
		if err := a.exec(a.s.putContext, k.tenant, k.id, r.SessionID, string(r.Kind), r.createdAt, r.updatedAt, r.usedAt, r.running, r.seq, r.isEmpty(), asJSON(r.contextBody)); err != nil {
			return err
		}
	}
	return nil
}

// signalContexts signals the watchers of the changed conversation contexts. It is
// called before the position of the batch is published, so that a caller that waits for
// the position finds the signal.
func (s *Store) signalContexts(changed map[contextKey]*contextRow) {
	if len(changed) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range changed {
		s.watchers.signal(k)
	}
}

func (a *applier) applyContextEvent(e *events.Event) error {
	switch d := e.Data.(type) {
	case *events.ContextUpdated:
		r, err := a.ensureContext(e, d.ContextRef)
		if err != nil {
			return err
		}
		content := d.Content.Value()
		r.Preferences, r.Custom = content.UserPreferences, content.Custom
		r.ValuesKeyID = events.ContentKeyID(d)
		r.touchUpdated(e.Time)
	case *events.ContextCleared:
		if err := a.resetContext(e, d.ContextRef); err != nil {
			return err
		}
		a.contexts[contextKey{e.Tenant, d.Key}].touch(e.Time)
	case *events.ContextExpired:
		if err := a.resetContext(e, d.ContextRef); err != nil {
			return err
		}
		// Most expired contexts of transport sessions belong to closed connections, so
		// their rows are removed.
		r := a.contexts[contextKey{e.Tenant, d.Key}]
		r.touch(d.LastUse.Time) // already recorded, unless earlier events were removed with their volume
		r.isRemoved = r.Kind == events.ContextTransport && r.running == 0
	case *events.ContextNoted:
		return a.applyNoted(e, d)
	}
	return nil
}

func (a *applier) resetContext(e *events.Event, ref events.ContextRef) error {
	r, err := a.ensureContext(e, ref)
	if err == nil {
		r.reset(e.Time)
	}
	return err
}

func (a *applier) applyNoted(e *events.Event, d *events.ContextNoted) error {
	before, err := a.loadContext(e.Tenant, d.Key)
	if err != nil {
		return err
	}
	r, err := a.ensureContext(e, d.ContextRef)
	if err != nil {
		return err
	}
	if before == nil && !d.Since.IsZero() {
		r.reset(d.Since.Time)
	}
	r.touch(d.UsedAt.Time)
	if key := events.ContentKeyID(d); key != "" {
		r.addNoteKey(key)
		r.touchUpdated(d.UsedAt.Time) // a rebuild without the key does not know the times of the uses
	}
	content := d.Content.Value()
	for _, c := range content.Calls {
		at := events.FormatTime(c.CalledAt.Time)
		r.addCall(keptCall{ArgsSHA256: c.ArgumentsSHA256, ToolCallRecord: ToolCallRecord{
			Tool: c.Tool, Args: c.Arguments, CalledAt: at, ResultSummary: excerpt(c.ResultSummary, maxCallSummary), Times: c.Times,
		}})
		r.addPriorCall(PriorCall{
			ArgsSHA256: c.ArgumentsSHA256, Tool: c.Tool, CalledAt: at, Times: c.Times, Summary: excerpt(c.ResultSummary, maxCallSummary), Results: c.Results, ResultSHA256: c.ResultSHA256,
		})
		r.touchUpdated(c.CalledAt.Time)
	}
	for _, f := range content.Resources {
		r.addResource(FetchedResource{
			ResourceID: f.ResourceID, ResourceType: f.ResourceType, FetchedAt: events.FormatTime(f.FetchedAt.Time), ContentHash: f.ContentSHA256, Summary: f.Summary,
		})
		r.touchUpdated(f.FetchedAt.Time)
	}
	return nil
}

// eraseInContexts erases the runs, answers and resources of all contexts that list a run or
// a note under a content key: one of them cannot be removed from a summary. It erases the
// values of a context whose last edit is under the key. An edit that was recorded while its
// context was being shredded is under another key, and stays.
func (a *applier) eraseInContexts(tenant, key string) error {
	rows, err := a.query(a.s.contextsWithKey, tenant, key)
	if err != nil {
		return err
	}
	var keys []string
	for rows.Next() {
		var k string
		if err := rows.Scan(&k); err != nil {
			return errors.Join(err, rows.Close())
		}
		keys = append(keys, k)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, k := range keys {
		if _, err := a.loadContext(tenant, k); err != nil {
			return err
		}
	}
	for k, r := range a.contexts { // including changes of this batch
		if k.tenant != tenant || r == nil {
			continue
		}
		if r.ValuesKeyID == key {
			r.forgetValues()
		}
		if slices.Contains(r.KeyIDs, key) || slices.Contains(r.NoteKeyIDs, key) {
			r.forget()
		}
	}
	return nil
}

// noteRequestInContext adds a run that was requested in a conversation context.
func (a *applier) noteRequestInContext(e *events.Event, d *events.ExecutionRequested) error {
	if d.Context == nil {
		return nil
	}
	r, err := a.ensureContext(e, *d.Context)
	if err != nil {
		return err
	}
	r.addRequest(e, d)
	r.addKey(events.ContentKeyID(d))
	r.running++
	r.touchUpdated(e.Time)
	return a.exec(a.s.contextRun, e.Tenant, d.ExecutionID, d.Context.Key, r.createdAt)
}

// noteEndInContext adds the end of a run.
func (a *applier) noteEndInContext(e *events.Event, status events.Status, d *events.Ending) error {
	r, _, err := a.loadContextOfRun(e.Tenant, d.ExecutionID)
	if err != nil || r == nil {
		return err
	}
	r.seq = e.Seq
	r.running--
	r.applyEnd(status, d)
	r.touchUpdated(e.Time)
	return a.exec(a.s.endContexts, e.Tenant, d.ExecutionID)
}

// loadContextOfRun returns the conversation context in which a run in progress was
// requested, or nil if there is none. isCurrent is false if the context was reset
// since.
func (a *applier) loadContextOfRun(tenant, execution string) (r *contextRow, isCurrent bool, err error) {
	var key string
	var since int64
	err = a.queryRow(a.s.runContext, tenant, execution).Scan(&key, &since)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	r, err = a.loadContext(tenant, key)
	return r, r != nil && r.createdAt == since, err
}
