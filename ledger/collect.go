package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"daybook/events"
)

// CollectHeaps records that heaps of a tenant are collected. It skips a heap if any event
// about it is stored after its Decided position, such as a tag edit, because the decision did
// not take the event into account. It calls recorded with the position of each event once the
// event is on disk, in the order of the list. It is not idempotent: a heap collected twice is
// recorded twice.
func (l *Ledger) CollectHeaps(ctx context.Context, tenant string, list []events.HeapCollected, recorded func(heap string, seq uint64)) error {
	if err := checkTenant(tenant); err != nil {
		return err
	}
	for i := range list {
		seq, err := l.collectHeap(ctx, tenant, &list[i])
		if err != nil {
			return err
		}
		if seq != 0 {
			recorded(list[i].Heap, seq)
		}
	}
	return nil
}

// collectHeap returns the position of the recorded event, or 0 for a heap that is skipped.
func (l *Ledger) collectHeap(ctx context.Context, tenant string, d *events.HeapCollected) (seq uint64, err error) {
	if err := checkHeap(d.Heap); err != nil {
		return 0, err
	}
	doing := "collect heap " + d.Heap
	unlock, err := l.heaps.lock(ctx, tenant+" "+d.Heap)
	if err != nil {
		return 0, unavailable(doing, err)
	}
	defer unlock()
	err = retry(ctx, doing, func() error {
		last, newer, err := l.store.LastWithOther(ctx, events.HeapSubject(tenant, d.Heap), events.HeapBucketSubject(tenant, d.Heap))
		if err != nil || last.Seq > d.Decided {
			return err
		}
		meanwhile, err := l.readHeapEvents(ctx, tenant, d.Heap, d.Decided, last, newer)
		if err != nil || len(meanwhile) > 0 {
			return err
		}
		seq, err = l.store.Append(ctx, l.newEvent(tenant, "", d), int64(last.Seq))
		return err
	})
	return seq, err
}

// ExplainRemoval returns why a recorded heap is no longer in the blob store, as a
// CodeGone error. The error wraps *events.RemovedError for a collected heap, and for one whose
// event a removed volume may have had, and *events.LostError for a heap lost with accepted
// damage. If no event gives the reason and no volume was removed, another program removed the
// heap, and the error is events.ErrDamaged.
func (l *Ledger) ExplainRemoval(ctx context.Context, tenant, heap string) error {
	doing := "look up why heap " + heap + " was removed"
	collected, err := l.lastCollection(ctx, tenant, heap)
	if err != nil {
		return unavailable(doing, err)
	}
	lost, err := l.store.LostHeap(ctx, tenant, heap)
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		return unavailable(doing, err)
	}
	var why error
	if lost != 0 {
		why = &events.LostError{What: "heap " + heap, Seq: lost}
	}
	if collected.Seq > lost {
		why = events.Collected(heap, collected.Seq, collected.Time)
	}
	if why == nil {
		removed := l.store.Removed() // may have had the event
		if removed.UpTo() == 0 {
			return fmt.Errorf("heap %s was removed, and no event records why: %w", heap, events.ErrDamaged)
		}
		why = removed.Gone("heap " + heap + " is not stored any more, and the event that records why was")
	}
	return &Error{Code: CodeGone, Field: "heap", Message: why.Error() + "; continue from another heap, or start without one", Err: why}
}

// lastCollection returns the newest collected event of a heap, or the zero event. The event is
// usually the last one about the heap.
func (l *Ledger) lastCollection(ctx context.Context, tenant, heap string) (events.Event, error) {
	last, newer, err := l.store.LastWithOther(ctx, events.HeapSubject(tenant, heap), events.HeapBucketSubject(tenant, heap))
	if err != nil || last.Type == events.TypeHeapCollected && newer == 0 {
		return last, err
	}
	list, err := l.readHeapEvents(ctx, tenant, heap, 0, last, newer)
	if err != nil {
		return events.Event{}, err
	}
	for _, e := range slices.Backward(list) {
		if e.Type == events.TypeHeapCollected {
			return e, nil
		}
	}
	return events.Event{}, nil
}
