package retention

import (
	"context"
	"fmt"
	"time"

	"daybook/events"
)

// ExecutionKey identifies an execution.
type ExecutionKey struct{ Tenant, ExecutionID string }

// HeapKey identifies a heap.
type HeapKey struct{ Tenant, Heap string }

// VolumeFacts holds facts about the volumes up to a position that only the projections
// know.
type VolumeFacts struct {
	// Running lists executions that were requested in these volumes and have not ended.
	Running []ExecutionKey
	// Later lists executions with events after the position.
	Later []ExecutionKey
	// FirstProducers lists the executions that first left a heap that still exists.
	FirstProducers []ExecutionKey
	// MigratedHeaps lists tagged heaps that exist and that a migration made, whichever runs
	// left them too.
	MigratedHeaps []HeapKey
}

// VolumePlan lists what to keep of removed volumes.
type VolumePlan struct {
	// Keep lists the positions of the kept events, in ascending order.
	Keep []uint64
	// Executions is the number of executions that were requested in these volumes, Kept the
	// number of those that are kept.
	Executions, Kept int
}

// PlanVolume decides which events up to a position are kept. last MUST be the last
// position of a volume. All events of an execution are kept, or none. An execution is
// kept if any of this is true: it has not ended; an event after the position concerns it,
// or such an event is still to be recorded; it first left a heap that still exists; a
// session continues from it; an ACP session or a conversation context lists it. Of the
// events that are not about executions, PlanVolume keeps those that still have an effect.
//
// An event of a type of a newer version is an error, because it may depend on another
// event in a way that this version does not know. PlanVolume changes nothing.
func PlanVolume(ctx context.Context, feed Feed, last uint64, facts VolumeFacts) (VolumePlan, error) {
	f := &volumeState{
		runs: map[ExecutionKey]*volumeRun{}, sessions: map[ExecutionKey]ExecutionKey{}, contexts: map[ExecutionKey]*volumeContext{}, deletedWebhooks: map[string]bool{},
		turns: map[ExecutionKey]*volumeTurns{}, prompts: map[ExecutionKey][]ExecutionKey{}, deletedAgents: map[ExecutionKey]bool{}, collected: map[ExecutionKey]bool{}, gone: map[ExecutionKey]uint64{},
		migrated: map[ExecutionKey]bool{}, verdicts: map[verdictKey]uint64{},
	}
	var plan VolumePlan
	if err := readTo(ctx, feed, last, func(m events.Stored) error {
		if _, known := heapEventTypes[typeOf(m)]; !known {
			return newerType(m.Seq, typeOf(m))
		}
		e, err := events.Decode(m.Seq, m.Message())
		if err != nil {
			return err
		}
		f.take(&e)
		return nil
	}); err != nil {
		return plan, fmt.Errorf("plan the removal of a volume: %w", err)
	}
	f.decide(facts)
	plan.Executions = len(f.runs)
	for _, r := range f.runs {
		if r.keep {
			plan.Kept++
		}
	}
	err := readTo(ctx, feed, last, func(m events.Stored) error {
		e, err := events.Decode(m.Seq, m.Message())
		if err == nil && f.keeps(&e) {
			plan.Keep = append(plan.Keep, m.Seq)
		}
		return err
	})
	if err != nil {
		return plan, fmt.Errorf("plan the removal of a volume: %w", err)
	}
	return plan, nil
}

// readTo calls fn with each event up to and including a position.
func readTo(ctx context.Context, feed Feed, last uint64, fn func(events.Stored) error) error {
	for after := uint64(0); after < last; {
		batch, err := feed.ReadRaw(ctx, after, readBatch)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return fmt.Errorf("the ledger ends at %d, before %d: %w", after, last, events.ErrDamaged)
		}
		for _, m := range batch {
			if m.Seq > last {
				return nil
			}
			if err := fn(m); err != nil {
				return err
			}
		}
		after = batch[len(batch)-1].Seq
	}
	return nil
}

// volumeRun is the state of an execution according to the events that were read.
type volumeRun struct {
	end             uint64
	heap            string
	logged, entered bool
	tags, tagged    bool
	context         string
	keep            bool
}

// volumeContext is the state of a conversation context. Events before reset have no
// effect. used is the time of the last use in ms since 1970 UTC; unsure is true if it may
// be later, because content is encrypted. running counts the executions that have not
// ended.
type volumeContext struct {
	reset   uint64
	used    int64
	unsure  bool
	running int
}

// volumeTurns holds the runs of a logical session that have a turn. since is the number of
// the last turn that left a heap: the runs from this turn on are kept.
type volumeTurns struct {
	since int64
	runs  []turnOf
}

type turnOf struct {
	number int64
	run    ExecutionKey
}

// volumeState is the state after the events up to a position. Its keys are a tenant and
// the id of an execution, session, context or heap.
type volumeState struct {
	runs     map[ExecutionKey]*volumeRun
	sessions map[ExecutionKey]ExecutionKey // the run of a session's last entry
	contexts map[ExecutionKey]*volumeContext
	turns    map[ExecutionKey]*volumeTurns
	// deletedWebhooks holds deleted webhooks, deletedAgents deleted ACP sessions, and prompts
	// the runs of ACP sessions.
	deletedWebhooks map[string]bool
	deletedAgents   map[ExecutionKey]bool
	prompts         map[ExecutionKey][]ExecutionKey
	// produced holds the heaps that a run left, kept those that a kept run left, and
	// collected those that were collected or lost.
	produced, kept, collected map[ExecutionKey]bool
	// gone holds the position of the newest event that a heap was collected or lost.
	gone map[ExecutionKey]uint64
	// migrated holds the heaps of VolumeFacts.MigratedHeaps. verdicts holds the position of
	// the newest verdict about the migration of a heap to an engine.
	migrated map[ExecutionKey]bool
	verdicts map[verdictKey]uint64
}

// verdictKey identifies the verdicts of which only the newest has an effect.
type verdictKey struct{ tenant, heap, engineID string }

func (f *volumeState) context(tenant, key string) *volumeContext {
	k := ExecutionKey{tenant, key}
	if f.contexts[k] == nil {
		f.contexts[k] = &volumeContext{}
	}
	return f.contexts[k]
}

func (c *volumeContext) use(at time.Time) { c.used = max(c.used, at.UnixMilli()) }

func (f *volumeState) take(e *events.Event) {
	switch d := e.Data.(type) {
	case *events.ExecutionRequested:
		r := &volumeRun{logged: d.SessionID != "", tags: len(d.Content.Value().Tags) > 0}
		f.runs[ExecutionKey{e.Tenant, d.ExecutionID}] = r
		if d.Context != nil {
			r.context = d.Context.Key
			c := f.context(e.Tenant, d.Context.Key)
			c.running++
			c.use(e.Time)
		}
		if d.Turn != nil {
			k := ExecutionKey{e.Tenant, d.Turn.SessionID}
			if f.turns[k] == nil {
				f.turns[k] = &volumeTurns{}
			}
			f.turns[k].runs = append(f.turns[k].runs, turnOf{d.Turn.Number, ExecutionKey{e.Tenant, d.ExecutionID}})
		}
	case *events.SessionEntryRecorded:
		if r := f.runs[ExecutionKey{e.Tenant, d.ExecutionID}]; r != nil {
			r.entered = true
		}
		f.sessions[ExecutionKey{e.Tenant, d.SessionID}] = ExecutionKey{e.Tenant, d.ExecutionID}
	case *events.HeapTagged:
		if r := f.runs[ExecutionKey{e.Tenant, d.ExecutionID}]; r != nil {
			r.tagged = true
		}
	case *events.HeapCollected:
		f.collected[ExecutionKey{e.Tenant, d.Heap}] = true
		f.gone[ExecutionKey{e.Tenant, d.Heap}] = e.Seq
	case *events.HeapMigrated:
		f.verdicts[verdictKey{e.Tenant, d.Heap, d.Engine.ID}] = e.Seq
	case *events.LedgerVolumeOpened:
		f.lose(e.Seq, d.LostBlobs)
	case *events.BlobsLost:
		f.lose(e.Seq, d.Of(e.Tenant))
	case *events.AgentPrompted:
		if d.ExecutionID != "" {
			k := ExecutionKey{e.Tenant, d.SessionID}
			f.prompts[k] = append(f.prompts[k], ExecutionKey{e.Tenant, d.ExecutionID})
		}
	case *events.AgentSessionDeleted:
		f.deletedAgents[ExecutionKey{e.Tenant, d.SessionID}] = true
	case *events.WebhookDeleted:
		f.deletedWebhooks[d.WebhookID] = true
	case *events.ContextUpdated, *events.ContextCleared, *events.ContextExpired, *events.ContextNoted:
		f.applyContextEvent(e)
	default:
		if end := events.EndingOf(e.Data); end != nil {
			f.applyEnding(e, end)
		}
	}
}

func (f *volumeState) lose(seq uint64, list []events.LostBlob) {
	for _, l := range list {
		if l.Kind == "heap" {
			f.collected[ExecutionKey{l.Tenant, l.SHA256}] = true
			f.gone[ExecutionKey{l.Tenant, l.SHA256}] = seq
		}
	}
}

func (f *volumeState) applyEnding(e *events.Event, d *events.Ending) {
	r := f.runs[ExecutionKey{e.Tenant, d.ExecutionID}]
	if r == nil || r.end != 0 {
		return
	}
	r.end = e.Seq
	if d.Heap != nil {
		r.heap = d.Heap.SHA256
	}
	if r.context != "" {
		c := f.context(e.Tenant, r.context)
		c.running--
		c.use(e.Time)
	}
}

// applyContextEvent finds the position from which the events of a context have an effect. An
// expiry by idle time counts only if it names the last use that the events before it show.
// If the time of the last use is not known for sure, such an expiry does not count, and the
// events before it stay.
func (f *volumeState) applyContextEvent(e *events.Event) {
	c := f.context(e.Tenant, e.About())
	switch d := e.Data.(type) {
	case *events.ContextUpdated:
		c.use(e.Time)
	case *events.ContextCleared:
		c.reset = e.Seq
		c.use(e.Time)
	case *events.ContextExpired:
		switch {
		case c.running > 0:
		case d.Kind == events.ContextTransport:
			c.reset, c.used, c.unsure = e.Seq, 0, false
		case !c.unsure && d.LastUse.UnixMilli() == c.used:
			c.reset = e.Seq
		}
	case *events.ContextNoted:
		c.use(d.UsedAt.Time)
		c.unsure = c.unsure || d.Content.Plain == nil
		content := d.Content.Value()
		for _, call := range content.Calls {
			c.use(call.CalledAt.Time)
		}
		for _, r := range content.Resources {
			c.use(r.FetchedAt.Time)
		}
	}
}

func (f *volumeState) decide(facts VolumeFacts) {
	hold := func(k ExecutionKey) {
		if r := f.runs[k]; r != nil {
			r.keep = true
		}
	}
	for _, list := range [][]ExecutionKey{facts.Running, facts.Later, facts.FirstProducers} {
		for _, k := range list {
			hold(k)
		}
	}
	for _, h := range facts.MigratedHeaps {
		f.migrated[ExecutionKey{h.Tenant, h.Heap}] = true
	}
	for k, r := range f.runs {
		switch {
		case r.end == 0, r.logged && !r.entered, r.tags && r.heap != "" && !r.tagged:
			r.keep = true // a later event about it is still to be recorded
		case r.context != "" && r.end >= f.context(k.Tenant, r.context).reset:
			r.keep = true
		}
	}
	for _, k := range f.sessions {
		hold(k)
	}
	for session, list := range f.prompts {
		for _, k := range list {
			if !f.deletedAgents[session] {
				hold(k)
			}
		}
	}
	for _, t := range f.turns {
		for _, at := range t.runs {
			if r := f.runs[at.run]; r.heap != "" {
				t.since = max(t.since, at.number)
			}
		}
		for _, at := range t.runs {
			if at.number >= t.since {
				hold(at.run)
			}
		}
	}
	f.produced, f.kept = map[ExecutionKey]bool{}, map[ExecutionKey]bool{}
	for k, r := range f.runs {
		if r.heap != "" {
			h := ExecutionKey{k.Tenant, r.heap}
			f.produced[h] = true
			if r.keep {
				f.kept[h] = true
			}
		}
	}
	// A later run may have left a collected or lost heap again.
	for k, r := range f.runs {
		if h := (ExecutionKey{k.Tenant, r.heap}); r.heap != "" && f.kept[h] && f.collected[h] {
			r.keep = true
		}
	}
}

// keeps reports whether an event is kept.
func (f *volumeState) keeps(e *events.Event) bool {
	switch d := e.Data.(type) {
	case *events.LedgerCheckpointed, *events.LedgerVolumeSealed:
		return false
	case *events.LedgerProjectionsCopied:
		return false // a removal deletes all earlier copies
	case *events.LedgerVolumeOpened:
		return len(d.LostBlobs) > 0 // explains why a kept heap cannot be read
	case *events.BlobsLost:
		return true // as above
	case *events.HeapTagged:
		h := ExecutionKey{e.Tenant, d.Heap}
		return f.kept[h] || f.migrated[h] || !f.produced[h]
	case *events.HeapCollected:
		return f.kept[ExecutionKey{e.Tenant, d.Heap}]
	case *events.HeapMigrated:
		// Nothing else names a migrated heap that exists, and no run tries again after a difference.
		h := ExecutionKey{e.Tenant, d.NewHeap}
		isNewest := f.verdicts[verdictKey{e.Tenant, d.Heap, d.Engine.ID}] == e.Seq
		return d.Verdict == events.MigrationDifferent && isNewest || d.Verdict == events.MigrationDone && (e.Seq > f.gone[h] || f.kept[h])
	case *events.ContextUpdated, *events.ContextCleared, *events.ContextExpired, *events.ContextNoted:
		return e.Seq >= f.context(e.Tenant, e.About()).reset
	case *events.SessionEntryRecorded:
		return f.keepsRun(e.Tenant, d.ExecutionID)
	}
	if e.Type.Webhook() {
		return !f.deletedWebhooks[e.About()]
	}
	if e.Type.OfExecution() {
		return f.keepsRun(e.Tenant, e.About())
	}
	return true
}

// keepsRun reports whether the events of an execution are kept. If its request was not
// read, it was removed before or never existed, and its events are not kept.
func (f *volumeState) keepsRun(tenant, id string) bool {
	r := f.runs[ExecutionKey{tenant, id}]
	return r != nil && r.keep
}
