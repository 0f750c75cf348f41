package ledger

import (
	"cmp"
	"context"
	"math"
	"slices"

	"daybook/events"
)

// wantedEdits selects edits of a heap's tags. A position selects the edits that are stored
// after it.
type wantedEdits uint64

const (
	// allEdits selects the complete history of the tags of a heap.
	allEdits wantedEdits = 0
	// noEdits selects none.
	noEdits wantedEdits = math.MaxUint64
	// editsInForce selects the edit that newestEdit returns for all edits, and no edit that
	// is much older.
	editsInForce wantedEdits = math.MaxUint64 - 1
)

// readEdits returns some edits of a heap's tags, oldest first, and the position of the last
// event on the heap's subject (0: none), for a conditional append. Usually it reads the last
// event only.
func (l *Ledger) readEdits(ctx context.Context, tenant, heap string, which wantedEdits) (edits []events.Event, position uint64, err error) {
	last, newer, err := l.store.LastWithOther(ctx, events.HeapSubject(tenant, heap), events.HeapBucketSubject(tenant, heap))
	if err != nil {
		return nil, 0, err
	}
	after := uint64(which)
	if which == editsInForce {
		// An edit that holds from an earlier position than its own may be older than edits
		// between the two.
		after = 0
		if _, ok := last.Data.(*events.HeapTagged); ok {
			after = appliesFrom(last) - 1
		}
	}
	if edits, err = l.readHeapEvents(ctx, tenant, heap, after, last, newer); err != nil {
		return nil, 0, err
	}
	edits = slices.DeleteFunc(edits, func(e events.Event) bool { return e.Type == events.TypeHeapCollected })
	for _, e := range edits {
		if _, ok := e.Data.(*events.HeapTagged); !ok {
			return nil, 0, &Error{Code: CodeUnavailable, Message: "heap " + heap + " has tag edits written by a newer version of Daybook; upgrade this one"}
		}
	}
	return edits, last.Seq, nil
}

// readHeapEvents returns the tag edits and the collected events of a heap that are stored after
// a position, oldest first. last and newer are the results of LastWithOther.
func (l *Ledger) readHeapEvents(ctx context.Context, tenant, heap string, after uint64, last events.Event, newer uint64) (list []events.Event, err error) {
	add := func(e events.Event) error {
		list = append(list, e)
		return nil
	}
	rest := max(last.Seq, 1) - 1 // the events before the last one are up to here
	switch {
	case last.Seq <= after:
	case rest == after:
		list = append(list, last)
	default:
		if _, err := l.store.Each(ctx, events.HeapSubject(tenant, heap), after, add); err != nil {
			return nil, err
		}
	}
	// Earlier versions recorded the events of a heap on a subject that heaps shared. It is
	// read only if it may have some of those that are wanted.
	if newer == 0 && rest <= after || newer != 0 && newer <= after {
		return list, nil
	}
	if _, err := l.store.EachAbout(ctx, events.HeapBucketSubject(tenant, heap), heap, after, add); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b events.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return list, nil
}
