package ledger

import (
	"context"
	"maps"
	"slices"
	"strings"

	"daybook/events"
)

// SetTags replaces all tags of a heap and returns the position of the edit. Any
// well-formed heap key may be tagged, also one not on record yet. Nil tags
// clear. Errors are CodeInvalid, or CodeUnavailable.
func (l *Ledger) SetTags(ctx context.Context, tenant, heap string, tags map[string]string, actor events.Actor) (seq uint64, err error) {
	ctx, answered := l.answering(ctx)
	defer answered(&err)
	if err := checkTags(tags); err != nil {
		return 0, err
	}
	if tags == nil {
		tags = map[string]string{}
	}
	// The new tags do not depend on the earlier ones: the edits that were looked at
	// before need not be read again.
	return l.editTagsUnder(ctx, tenant, heap, "", l.tagged.upTo(tenant, heap), func([]events.Event) *events.HeapTagged {
		return &events.HeapTagged{
			Heap:    heap,
			Content: events.Plain(events.TagContent{Tags: tags}),
			Edit:    events.EditSet,
			Actor:   sanitizeActor(actor),
		}
	})
}

// DeleteTags removes the tags of a heap with the given keys, or all with nil
// keys, and returns the position of the edit. Keys are trimmed; empty and
// unknown ones are ignored. When nothing is left to remove nothing is recorded,
// and the position is that of the newest edit, 0 when there is none. Errors are
// CodeInvalid, or CodeUnavailable.
func (l *Ledger) DeleteTags(ctx context.Context, tenant, heap string, keys []string, actor events.Actor) (seq uint64, err error) {
	ctx, answered := l.answering(ctx)
	defer answered(&err)
	// The edits before the one that counts need not be read again.
	return l.editTagsUnder(ctx, tenant, heap, "", l.tagged.beforeNewest(tenant, heap), func(edits []events.Event) *events.HeapTagged {
		tags := currentTags(edits)
		before := len(tags)
		if keys == nil {
			clear(tags)
		}
		for _, k := range keys {
			delete(tags, strings.TrimSpace(k))
		}
		if len(tags) == before {
			return nil
		}
		return &events.HeapTagged{
			Heap:    heap,
			Content: events.Plain(events.TagContent{Tags: tags}),
			Edit:    events.EditDelete,
			Actor:   sanitizeActor(actor),
		}
	})
}

// editTagsUnder records an edit of a heap's tags, encrypted under a key if keyID is
// not empty. edit gets the heap's edits stored after a position: no other can come in
// between. It returns nil when there is nothing to record.
func (l *Ledger) editTagsUnder(ctx context.Context, tenant, heap, keyID string, after uint64, edit func([]events.Event) *events.HeapTagged) (seq uint64, err error) {
	if err := checkTenant(tenant); err != nil {
		return 0, err
	}
	if err := checkHeap(heap); err != nil {
		return 0, err
	}
	doing := "edit the tags of heap " + heap
	// Heaps share subjects by the first two characters.
	unlock, err := l.heaps.lock(ctx, tenant+" "+heap[:2])
	if err != nil {
		return 0, notLocked(doing, err)
	}
	defer unlock()
	err = retry(ctx, doing, func() error {
		edits, position, err := l.editsAfter(ctx, tenant, heap, after)
		if err != nil {
			return err
		}
		d := edit(edits)
		if d == nil {
			if len(edits) > 0 {
				seq = edits[len(edits)-1].Seq
			}
			return nil
		}
		e := l.event(tenant, "", d)
		e.EncryptWithKey = keyID
		seq, err = l.store.Append(ctx, e, int64(position))
		return err
	})
	return seq, err
}

// editsAfter returns the edits of a heap's tags stored after a position, oldest
// first, and the position of the last event on the heap's subject.
func (l *Ledger) editsAfter(ctx context.Context, tenant, heap string, after uint64) (edits []events.Event, position uint64, err error) {
	if after == 0 {
		edits, position, err = l.store.TagEdits(ctx, tenant, heap)
	} else {
		position, err = l.store.HeapEvents(ctx, tenant, heap, after, func(e events.Event) error {
			if e.About() == heap {
				edits = append(edits, e)
			}
			return nil
		})
	}
	if err != nil {
		return nil, 0, err
	}
	edits = slices.DeleteFunc(edits, func(e events.Event) bool { return e.Type == events.TypeHeapCollected })
	for _, e := range edits {
		if _, ok := e.Data.(*events.HeapTagged); !ok {
			return nil, 0, &Error{Code: CodeUnavailable, Message: "heap " + heap + " has tag edits written by a newer version of Daybook; upgrade this one"}
		}
	}
	l.tagged.advance(tenant, heap, after, position, edits)
	return edits, position, nil
}

// newestEdit is the edit that counts, and the position from which it holds: the one
// with the highest such position, since a run's tags hold from its completed event.
// It is the zero event when there is none.
func newestEdit(edits []events.Event) (newest events.Event, at uint64) {
	for _, e := range edits {
		d, ok := e.Data.(*events.HeapTagged)
		if !ok {
			continue
		}
		from := e.Seq
		if d.AppliesAt != 0 && d.AppliesAt < e.Seq { // what it says of the future does not count
			from = d.AppliesAt
		}
		if from >= at {
			newest, at = e, from
		}
	}
	return newest, at
}

// currentTags returns a copy of the tags that hold after the edits.
func currentTags(edits []events.Event) map[string]string {
	tags := map[string]string{}
	newest, _ := newestEdit(edits)
	if d, ok := newest.Data.(*events.HeapTagged); ok {
		maps.Copy(tags, d.Content.Value().Tags)
	}
	return tags
}
