package projections

import "daybook/events"

// applyHeapMigrated stores a migrated heap and what it was made of. The heap of a migration
// that is made again after it was collected or lost replaces the row of the first one.
func (a *applier) applyHeapMigrated(e *events.Event, d *events.HeapMigrated) error {
	if d.Verdict != events.MigrationDone {
		return nil // readers of events show it
	}
	if err := a.exec(a.s.migrate, e.Seq, e.Tenant, d.Heap, d.Engine.ID, d.NewHeap, d.Size, orNull(d.Parent), d.LastExecutionID, e.Time.UnixMilli()); err != nil {
		return err
	}
	row := []any{e.Tenant, d.NewHeap, e.Seq, d.Size, d.Engine.ID, orNull(d.Parent), d.LastExecutionID, e.Time.UnixMilli()}
	added, err := a.execCount(a.s.heap, row...)
	if err != nil {
		return err
	}
	if added == 1 {
		if err := a.uncountTaggedHeap(e.Tenant, d.NewHeap); err != nil {
			return err
		}
	}
	if added == 0 {
		if added, err = a.execCount(a.s.migrateAgain, row...); err != nil {
			return err
		}
	}
	a.usageOf(e.Tenant).HeapBytes += added * d.Size
	return nil
}
