package projections

import (
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"daybook/events"
)

// executionState holds the fields of an execution that applying an event needs. It is
// kept until the execution ends, see Store.states. A change of it is written to the row
// immediately, except that output changes extent and lastSeq, which are written at the end
// of the batch; see executionRow for a row that is not in the table yet.
type executionState struct {
	id int64
	// requestedSeq is the position of the request, and isInNoContext reports that the run
	// belongs to no conversation context. Both are set only if the request was applied since
	// Open.
	requestedSeq  uint64
	isInNoContext bool

	status     events.Status
	lastSeq    uint64
	extent     events.Extent
	isUnstored bool // extent and lastSeq are newer than the row
	tags       sql.NullString
	session    sql.NullString // id of the named session
	logical    sql.NullString // id of the session in which the run has a turn
	turn       int64
	warnings   []string
	// row is not nil until the row is in the table. Changes are made to it instead.
	row *executionRow
}

type executionKey struct{ tenant, id string }

// isNew reports that nothing of the execution but its request was applied.
func (st *executionState) isNew() bool { return st.requestedSeq != 0 && st.lastSeq == st.requestedSeq }

// loadExecution returns the state of an execution. It reports false and records an
// anomaly if there is no such execution.
func (a *applier) loadExecution(e *events.Event, id string) (st *executionState, ok bool, err error) {
	st, err = a.findExecution(e.Tenant, id)
	if err == nil && st == nil {
		err = a.reportUnrequested(e, id)
	}
	return st, st != nil, err
}

// findExecution returns the state of an execution, or nil if there is no such execution.
func (a *applier) findExecution(tenant, id string) (*executionState, error) {
	key := executionKey{tenant, id}
	if st := a.states[key]; st != nil {
		return st, nil
	}
	st := new(executionState)
	var warnings string
	err := a.queryRow(a.s.state, tenant, id).Scan(&st.id, &st.status, &st.lastSeq,
		&st.extent.Line, &st.extent.Byte, &st.extent.Open, &st.extent.Attempt, &st.tags, &st.session, &st.logical, &st.turn, &warnings)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(warnings), &st.warnings); err != nil {
		return nil, err
	}
	a.states[key] = st
	return st, nil
}

// storeExtents writes the changes that were deferred to the end of the batch.
func (a *applier) storeExtents() error {
	for _, st := range a.states {
		if !st.isUnstored || st.row != nil {
			continue
		}
		if err := a.exec(a.s.extent, st.id, st.lastSeq, st.extent.Line, st.extent.Byte, st.extent.Open); err != nil {
			return err
		}
		st.isUnstored = false
	}
	return nil
}

func (a *applier) applyRequested(e *events.Event, d *events.ExecutionRequested) error {
	known, err := a.findExecution(e.Tenant, d.ExecutionID)
	if err != nil {
		return err
	}
	if known != nil {
		return a.recordAnomaly(e, "execution %s was requested twice", d.ExecutionID)
	}
	st := requestedState(e, d)
	if err := a.addExecution(st); err != nil {
		return err
	}
	a.states[executionKey{e.Tenant, d.ExecutionID}] = st
	if key := events.ContentKeyID(d); key != "" {
		if err := a.exec(a.s.seal, st.id, e.Tenant, key, d.FileName == ""); err != nil {
			return err
		}
	}
	if err := a.useSessions(e, d); err != nil {
		return err
	}
	a.usageOf(e.Tenant).Runs++
	return a.noteRequestInContext(e, d)
}

// requestedState returns the state of an execution after its request, with the row to add.
func requestedState(e *events.Event, d *events.ExecutionRequested) *executionState {
	content := d.Content.Value()
	st := &executionState{
		requestedSeq: e.Seq, isInNoContext: d.Context == nil, status: events.StatusRunning, lastSeq: e.Seq, extent: events.Extent{Line: 1},
		session: sql.NullString{String: d.SessionID, Valid: d.SessionID != ""}, warnings: slices.Clone(d.Warnings),
	}
	row := &executionRow{
		colTenant: e.Tenant, colExecutionID: d.ExecutionID, colRequestedSeq: int64(e.Seq), colRequestedAt: e.Time.UnixMilli(), colQueued: true, colAttempt: int64(0),
		colSource: asJSON(content.Source), colFileName: d.ShownFileName(), colRequestedHeap: orNull(d.Heap), colSession: orNull(d.Session), colSessionID: orNull(d.SessionID),
		colHeapMB: d.Limits.HeapMemoryMaxMB, colTimeoutSecs: d.Limits.ExecutionTimeoutSecs, colWithoutHeap: !d.Stateful, colActor: asJSON(d.Actor),
		colResultTruncated: false, colOutTruncated: false,
	}
	if content.Tags != nil {
		st.tags = sql.NullString{String: asJSON(content.Tags), Valid: true}
		row[colTags] = st.tags.String
	}
	if d.Turn != nil {
		st.logical, st.turn = sql.NullString{String: d.Turn.SessionID, Valid: true}, d.Turn.Number
		row[colLogicalID], row[colTurn] = d.Turn.SessionID, d.Turn.Number
	}
	st.row = row
	return st
}

func (a *applier) applyStarted(e *events.Event, d *events.ExecutionStarted) error {
	st, ok, err := a.loadExecution(e, d.ExecutionID)
	if err != nil || !ok {
		return err
	}
	if st.status.Terminal() {
		return a.recordAnomaly(e, "started after the end of execution %s", d.ExecutionID)
	}
	next := events.ExtentFrom(d)
	// Before the first attempt there is no output and no artifact that it could void.
	if !st.isNew() || next != (events.Extent{Attempt: d.Attempt, Line: 1}) {
		if next, err = a.beginAttempt(e, st, d); err != nil {
			return err
		}
		if err := a.dropVoidArtifacts(e.Tenant, st.id); err != nil {
			return err
		}
	}
	if len(d.WASMModules) > 0 {
		if err := a.noteModulesInContext(e, d.ExecutionID); err != nil {
			return err
		}
	}
	a.usageOf(e.Tenant).OutputBytes += next.Byte - st.extent.Byte
	st.extent, st.lastSeq, st.isUnstored = next, e.Seq, false
	st.warnings = mergeWarnings(st.warnings, d.Warnings)
	if row := st.row; row != nil {
		if row[colStartedAt] == nil {
			row[colStartedAt] = e.Time.UnixMilli()
		}
		row[colQueued], row[colAttempt], row[colEngineID], row[colInputHeap], row[colMigratedFrom] = false, int64(d.Attempt), orNull(d.Engine.ID), orNull(d.InputHeap), orNull(d.MigratedFrom)
		return nil
	}
	return a.exec(a.s.start, st.id, e.Seq, e.Time.UnixMilli(), d.Attempt, orNull(d.Engine.ID), orNull(d.InputHeap),
		warningsJSON(st.warnings), next.Line, next.Byte, orNull(d.MigratedFrom))
}

func (a *applier) applyCancelRequested(e *events.Event, d *events.ExecutionCancelRequested) error {
	st, ok, err := a.loadExecution(e, d.ExecutionID)
	if err != nil || !ok {
		return err
	}
	return a.touch(e, st)
}

func (a *applier) applyHandedBack(e *events.Event, d *events.ExecutionHandedBack) error {
	st, ok, err := a.loadExecution(e, d.ExecutionID)
	if err != nil || !ok {
		return err
	}
	if st.status.Terminal() {
		return a.recordAnomaly(e, "handed back after the end of execution %s", d.ExecutionID)
	}
	if d.Attempt != st.extent.Attempt {
		return a.recordAnomaly(e, "attempt %d of execution %s was handed back, which is at attempt %d", d.Attempt, d.ExecutionID, st.extent.Attempt)
	}
	st.lastSeq = e.Seq
	if st.row != nil {
		st.row[colQueued] = true
		return nil
	}
	return a.exec(a.s.handBack, st.id, e.Seq)
}

func (a *applier) applyEnd(e *events.Event, d *events.Ending) error {
	st, ok, err := a.loadExecution(e, d.ExecutionID)
	if err != nil || !ok {
		return err
	}
	if st.status.Terminal() {
		return a.recordAnomaly(e, "a second end of execution %s, which is %s", d.ExecutionID, st.status)
	}
	status, _ := e.Type.Status()
	content := d.Content.Value()
	var heap, cancelledBy, usage, nondeterministic, sum, lines, bytes any
	truncated := d.Output != nil && d.Output.Truncated
	if d.Heap != nil {
		heap = d.Heap.SHA256
	}
	if d.Actor != nil {
		cancelledBy = asJSON(d.Actor)
	}
	if d.Usage != nil {
		usage = asJSON(d.Usage)
	}
	if len(d.Nondeterministic) > 0 {
		nondeterministic = asJSON(d.Nondeterministic)
	}
	if d.Output != nil {
		sum = orNull(d.Output.SHA256)
		if truncated {
			lines, bytes = d.Output.Lines, d.Output.Bytes
		}
		if err := a.checkTotals(e, st, d.Output); err != nil {
			return err
		}
	}
	st.status, st.lastSeq = status, e.Seq
	a.usageOf(e.Tenant).Runs--
	a.noteEndInSession(e, st, d.ExecutionID)
	if !st.isInNoContext {
		if err := a.noteEndInContext(e, status, d); err != nil {
			return err
		}
	}
	st.warnings = mergeWarnings(st.warnings, d.AllWarnings())
	if row := st.row; row != nil {
		row[colCompletedAt], row[colOutputHeap], row[colResult], row[colResultTruncated], row[colError] = e.Time.UnixMilli(), heap, bodyJSON(content.Result), content.ResultTruncated, bodyJSON(content.Error)
		row[colReason], row[colUsage], row[colCancelledBy], row[colPristine], row[colNondeterministic] = orNull(d.Reason), usage, cancelledBy, d.Pristine, nondeterministic
		row[colOutTruncated], row[colOutSHA256], row[colWrittenLines], row[colWrittenBytes] = row[colOutTruncated] == true || truncated, sum, lines, bytes
	} else if err := a.exec(a.s.end, st.id, string(status), e.Seq, e.Time.UnixMilli(), heap, bodyJSON(content.Result), content.ResultTruncated, bodyJSON(content.Error),
		orNull(d.Reason), usage, warningsJSON(st.warnings), cancelledBy, truncated, sum, lines, bytes, d.Pristine, nondeterministic); err != nil {
		return err
	}
	if d.Heap == nil {
		return nil
	}
	if st.logical.Valid {
		if err := a.moveHead(e, st.logical.String, st.turn, d.Heap.SHA256); err != nil {
			return err
		}
	}
	added, err := a.execCount(a.s.heap, e.Tenant, d.Heap.SHA256, e.Seq, d.Heap.Size, d.Heap.EngineID, orNull(d.Heap.Parent), d.ExecutionID, e.Time.UnixMilli())
	if err != nil {
		return err
	}
	if added == 1 {
		if err := a.uncountTaggedHeap(e.Tenant, d.Heap.SHA256); err != nil {
			return err
		}
	}
	if added == 0 { // equal heaps share a row, which may have been marked as collected or lost
		if added, err = a.execCount(a.s.remake, e.Tenant, d.Heap.SHA256); err != nil {
			return err
		}
	}
	a.usageOf(e.Tenant).HeapBytes += added * d.Heap.Size
	if status != events.StatusCompleted || !st.tags.Valid {
		return nil
	}
	// The tags of a run are current from its end on. The tag edit that is recorded next
	// adds them to the history.
	var tags map[string]string
	if err := json.Unmarshal([]byte(st.tags.String), &tags); err != nil {
		return err
	}
	return a.setTags(e, d.Heap.SHA256, e.Seq, tags)
}

// checkTotals compares the runner's output totals with the stored output.
func (a *applier) checkTotals(e *events.Event, st *executionState, o *events.OutputTotals) error {
	if o.Truncated {
		return nil
	}
	lines := st.extent.Line - 1
	if st.extent.Open {
		lines++
	}
	if o.Lines != lines || o.Bytes != st.extent.Byte {
		return a.recordAnomaly(e, "%d lines and %d bytes of output are recorded, the runner counted %d and %d", lines, st.extent.Byte, o.Lines, o.Bytes)
	}
	return nil
}

func (a *applier) applyEntry(e *events.Event, d *events.SessionEntryRecorded) error {
	if _, ok, err := a.loadExecution(e, d.ExecutionID); err != nil || !ok {
		return err
	}
	var before int64
	if err := a.queryRow(a.s.lastEntry, e.Tenant, d.SessionID).Scan(&before); err != nil {
		return err
	}
	if d.Index <= before {
		return a.recordAnomaly(e, "entry %d of session %q comes after entry %d", d.Index, d.Session, before)
	}
	if d.Index > before+1 && !e.Kept() {
		if err := a.recordAnomaly(e, "entries %d to %d of session %q are missing", before+1, d.Index-1, d.Session); err != nil {
			return err
		}
	}
	if err := a.exec(a.s.entry, e.Tenant, d.SessionID, d.Index, d.Session, d.ExecutionID, string(d.Status), orNull(d.InputHeap), orNull(d.OutputHeap), d.CompletedAt.UnixMilli()); err != nil {
		return err
	}
	a.logChanges = append(a.logChanges, logChange{key: sessionKey{e.Tenant, d.SessionID}, execution: d.ExecutionID, hasEntry: true})
	known, err := a.execCount(a.s.namedHead, e.Tenant, d.Session, orNull(d.OutputHeap))
	if err != nil || known > 0 {
		return err
	}
	if err := a.addNamedSession(e.Tenant, d.Session, d.SessionID); err != nil {
		return err
	}
	return a.exec(a.s.namedHead, e.Tenant, d.Session, orNull(d.OutputHeap))
}

func (a *applier) applyTagged(e *events.Event, d *events.HeapTagged) error {
	effective := e.Seq
	switch {
	case d.AppliesAt > e.Seq: // would block every edit before that position
		if err := a.recordAnomaly(e, "tags of heap %s apply from position %d on, which is after the event", d.Heap, d.AppliesAt); err != nil {
			return err
		}
	case d.AppliesAt != 0:
		effective = d.AppliesAt
	}
	tags := d.Content.Value().Tags
	if tags == nil {
		tags = map[string]string{}
	}
	if err := a.exec(a.s.edit, e.Tenant, d.Heap, e.Seq, effective, string(d.Edit), asJSON(d.Actor), asJSON(tags), orNull(d.ExecutionID), e.Time.UnixMilli(), orNull(events.ContentKeyID(d))); err != nil {
		return err
	}
	return a.setTags(e, d.Heap, effective, tags)
}

// asJSON encodes values that cannot fail to encode.
func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data of this module's own types
	}
	return string(raw)
}

func bodyJSON(b *events.Body) any {
	if b == nil {
		return nil
	}
	return asJSON(b)
}

func warningsJSON(w []string) string {
	if w == nil {
		w = []string{}
	}
	return asJSON(w)
}

// mergeWarnings returns have with the warnings in more that it does not contain. Later
// events of a run may repeat warnings of earlier ones.
func mergeWarnings(have, more []string) []string {
	for _, w := range more {
		if !slices.Contains(have, w) {
			have = append(have, w)
		}
	}
	return have
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// applyHeapCollected marks a heap as collected. A heap that no known run produced has no row
// and needs none.
func (a *applier) applyHeapCollected(e *events.Event, d *events.HeapCollected) error {
	var size int64
	err := a.queryRow(a.s.collect, e.Tenant, d.Heap, e.Seq, e.Time.UnixMilli()).Scan(&size)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	a.usageOf(e.Tenant).HeapBytes -= size
	return nil
}

// applyLostBlobs marks the heaps that an accepted loss names. They belong to the
// tenants named with them and take no space.
func (a *applier) applyLostBlobs(e *events.Event, list []events.LostBlob) error {
	for _, l := range list {
		if l.Kind != "heap" {
			continue
		}
		var size int64
		err := a.queryRow(a.s.lose, l.Tenant, l.SHA256, e.Seq).Scan(&size)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		a.usageOf(l.Tenant).HeapBytes -= size
	}
	return nil
}
