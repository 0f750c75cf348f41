package ledger

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
)

// CollectHeaps records that heaps of a tenant are collected. The heaps MUST share a
// subject, which is the first two characters of their keys, and a Decided position.
// CollectHeaps skips a heap if any later event about it exists, such as a tag edit,
// because the decision did not take the event into account. It calls recorded with the
// position of each event once the event is on disk, in the order of the list. It is not
// idempotent: a heap collected twice is recorded twice.
func (l *Ledger) CollectHeaps(ctx context.Context, tenant string, list []events.HeapCollected, recorded func(heap string, seq uint64)) error {
	if len(list) == 0 {
		return nil
	}
	if err := checkTenant(tenant); err != nil {
		return err
	}
	waiting := make(map[string]bool, len(list))
	for i := range list {
		if err := checkHeap(list[i].Heap); err != nil {
			return err
		}
		if list[i].Heap[:2] != list[0].Heap[:2] || list[i].Decided != list[0].Decided {
			return fmt.Errorf("collect heaps %s and %s together: they differ in subject or decision", list[0].Heap, list[i].Heap)
		}
		waiting[list[i].Heap] = true
	}
	doing := "collect heaps"
	unlock, err := l.heaps.lock(ctx, tenant+" "+list[0].Heap[:2])
	if err != nil {
		return unavailable(doing, err)
	}
	defer unlock()
	seen, position := list[0].Decided, uint64(0)
	readNew := func() error {
		last, err := l.store.Each(ctx, events.HeapSubject(tenant, list[0].Heap), seen, func(e events.Event) error {
			delete(waiting, e.About())
			return nil
		})
		if err == nil {
			seen, position = max(seen, last), last
		}
		return err
	}
	if err := readNew(); err != nil {
		return unavailable(doing, err)
	}
	for i := range list {
		d := &list[i]
		err := retry(ctx, doing, func() error {
			if !waiting[d.Heap] {
				return nil
			}
			seq, err := l.store.Append(ctx, l.newEvent(tenant, "", d), int64(position))
			switch {
			case errors.Is(err, events.ErrConflict):
				return errors.Join(err, readNew())
			case err != nil:
				return err
			}
			seen, position = seq, seq
			recorded(d.Heap, seq)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ExplainRemoval returns why a recorded heap is no longer in the blob store, as a
// CodeGone error. The error wraps *events.RemovedError for a collected heap, and for one whose
// event a removed volume may have had, and *events.LostError for a heap lost with accepted
// damage. If no event gives the reason and no volume was removed, another program removed the
// heap, and the error is events.ErrDamaged.
func (l *Ledger) ExplainRemoval(ctx context.Context, tenant, heap string) error {
	doing := "look up why heap " + heap + " was removed"
	edits, _, err := l.heapEvents(ctx, tenant, heap)
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
	for i := len(edits) - 1; i >= 0; i-- {
		if edits[i].Type == events.TypeHeapCollected {
			if edits[i].Seq > lost {
				why = events.Collected(heap, edits[i].Seq, edits[i].Time)
			}
			break
		}
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
