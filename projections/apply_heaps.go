package projections

import (
	"database/sql"
	"errors"

	"daybook/events"
)

// applyHeapCollected marks a heap as collected. A heap that no known run has left has
// no row and needs none.
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
func (a *applier) applyLostBlobs(e *events.Event, d *events.LedgerVolumeOpened) error {
	for _, l := range d.LostBlobs {
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
