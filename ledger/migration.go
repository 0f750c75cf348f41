package ledger

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
)

// Migration is the newest recorded verdict about the migration of a heap to an engine.
type Migration struct {
	// Seq is the position of the event.
	Seq uint64
	events.HeapMigrated
}

// Migration returns the newest verdict about the migration of a heap to an engine. The error
// is events.ErrNotFound if there is none.
func (l *Ledger) Migration(ctx context.Context, tenant, heap, engineID string) (Migration, error) {
	var found Migration
	if err := checkTenant(tenant); err != nil {
		return found, err
	}
	take := func(e events.Event) error {
		if d, ok := e.Data.(*events.HeapMigrated); ok && d.Heap == heap && d.Engine.ID == engineID {
			found = Migration{e.Seq, *d}
		}
		return nil
	}
	subject, bucket := events.MigrationSubject(tenant, heap), events.MigrationBucketSubject(tenant, heap)
	last, newer, err := l.store.LastWithOther(ctx, subject, bucket)
	if err == nil {
		err = take(last)
	}
	if err == nil && last.Seq > 0 && found.Seq == 0 { // the last verdict is about another engine
		_, err = l.store.Each(ctx, subject, 0, take)
	}
	// Earlier versions recorded verdicts on a subject that heaps shared. It is read only if it may
	// have the newest one.
	if err == nil && (newer > 0 || found.Seq != last.Seq) {
		_, err = l.store.EachAbout(ctx, bucket, heap, found.Seq, take)
	}
	switch {
	case err != nil && !errors.Is(err, events.ErrNotFound):
		return found, unavailable("read the migrations of heap "+heap, err)
	case found.Seq == 0:
		return found, fmt.Errorf("migration of heap %s to engine %s: %w", heap, engineID, events.ErrNotFound)
	}
	return found, nil
}

// Why returns why the heap was not migrated, without the two texts of a difference; empty for
// a migrated heap.
func (m Migration) Why() string {
	switch m.Verdict {
	case events.MigrationDone:
		return ""
	case events.MigrationDifferent:
		where := string(m.Part)
		if m.Line > 0 {
			where += fmt.Sprintf(", line %d", m.Line)
		}
		if m.Call > 0 {
			where += fmt.Sprintf(", call %d", m.Call)
		}
		if m.Artifact > 0 {
			where += fmt.Sprintf(", artifact %d", m.Artifact)
		}
		return fmt.Sprintf("the replay of execution %s by this engine differs from the record: %s", m.ExecutionID, where)
	default:
		return m.Reason
	}
}

// RecordMigration records the verdict about a migration, and returns the position of the
// event. r is the execution that left the heap or that differs; nil if it is not known. The
// content of the event is encrypted with its key.
//
// If store is set, RecordMigration first calls it with the id of that key, empty for none, to
// store the heap, and records the hash that it returns. Nothing destroys the key meanwhile. An
// error of store is returned unchanged. The error wraps events.ErrShredded if the key is
// destroyed, and is CodeUnavailable while a shred is about to destroy it; without store, the
// event then has no content.
func (l *Ledger) RecordMigration(ctx context.Context, tenant string, r *Recording, d *events.HeapMigrated, store func(keyID string) (hash string, err error)) (seq uint64, err error) {
	if err := checkTenant(tenant); err != nil {
		return 0, err
	}
	var keyID string
	if r != nil {
		keyID = r.Request.ContentKeyID()
	}
	done, err := l.useKey(keyID)
	switch {
	case err == nil:
		defer done()
		if store != nil && keyID != "" && l.opts.Keys.IsClosed(keyID) {
			return 0, &Error{Code: CodeUnavailable, Message: "the content of the heap is being shredded; try again in a few seconds"}
		}
	case errors.Is(err, events.ErrShredded) && store == nil:
		d.Content, keyID = events.Plain(events.ReplayedContent{}), ""
	default:
		return 0, err
	}
	if store != nil {
		if d.NewHeap, err = store(keyID); err != nil {
			return 0, err
		}
	}
	e := l.newEvent(tenant, "", d)
	e.EncryptWithKey = keyID
	if seq, err = l.store.Append(ctx, e, AnyPosition); err != nil {
		return 0, unavailable("record the migration of heap "+d.Heap, err)
	}
	return seq, nil
}

// checkEngine returns an error for a heap of another engine that cannot be restored here: one
// that is not migrated here, or whose migration is recorded as different. Whether another one
// can be migrated is found when the run starts.
func (l *Ledger) checkEngine(ctx context.Context, tenant string, info events.HeapInfo) error {
	if l.opts.EngineID == "" || info.EngineID == "" || info.EngineID == l.opts.EngineID {
		return nil
	}
	refusal := fmt.Sprintf("heap %s was made by engine %s and cannot be restored by this server's engine %s; run it on a server with that engine, or start without heap", info.SHA256, info.EngineID, l.opts.EngineID)
	if l.opts.MigratesHeaps {
		m, err := l.Migration(ctx, tenant, info.SHA256, l.opts.EngineID)
		switch {
		case errors.Is(err, events.ErrNotFound):
			return nil
		case err != nil:
			return err
		case m.Verdict != events.MigrationDifferent:
			return nil
		}
		refusal += ". It cannot be migrated: " + m.Why()
		if c := m.Content.Value(); c != (events.ReplayedContent{}) {
			refusal += fmt.Sprintf("; recorded %q, replayed %q", c.Recorded, c.Replayed)
		}
		refusal += ". Migrate the heap again after a change of the server"
	}
	return &Error{Code: CodeConflict, Field: "heap", Message: refusal}
}
