package ledger

import (
	"context"
	"errors"
	"maps"
	"strings"

	"daybook/events"
)

// SetTags replaces all tags of a heap and returns the position of the edit. The heap key
// MUST be well-formed; it need not be recorded yet. Nil tags delete all. Errors are
// CodeInvalid, CodeExhausted and CodeUnavailable.
func (l *Ledger) SetTags(ctx context.Context, tenant, heap string, tags map[string]string, actor events.Actor) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	if err := checkTags(tags); err != nil {
		return 0, err
	}
	if tags == nil {
		tags = map[string]string{}
	}
	keyID, done, err := l.UseKeyOfContent(tenant, "")
	if err != nil {
		return 0, err
	}
	defer done()
	which := editsInForce
	if keyID == "" {
		which = noEdits // the new tags do not depend on earlier ones
	}
	var releases []func()
	defer func() {
		for _, release := range releases {
			release()
		}
	}()
	return l.editClientTags(ctx, tenant, heap, which, func(edits []events.Event) (*events.HeapTagged, string) {
		d := &events.HeapTagged{
			Heap:    heap,
			Content: events.Plain(events.TagContent{Tags: tags}),
			Edit:    events.EditSet,
			Actor:   sanitizeActor(actor),
		}
		if keyID == "" {
			return d, ""
		}
		// The tags of a heap are shredded with the session whose run set the first ones. While
		// that session is being shredded, the new tags would be lost under its key.
		if _, before := currentTags(edits); before != "" {
			if id, release, err := l.UseKeyOfContent(tenant, before); err == nil {
				releases = append(releases, release)
				return d, id
			}
		}
		return d, keyID
	})
}

// DeleteTags deletes the tags of a heap with the given keys, or all tags if keys is nil,
// and returns the position of the edit. Keys are trimmed; empty and unknown keys are
// ignored. If no tag would be deleted, nothing is recorded, and the position is that of
// the newest edit, or 0 without one. Errors are CodeInvalid, CodeExhausted and
// CodeUnavailable.
func (l *Ledger) DeleteTags(ctx context.Context, tenant, heap string, keys []string, actor events.Actor) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	return l.editClientTags(ctx, tenant, heap, editsInForce, func(edits []events.Event) (*events.HeapTagged, string) {
		tags, keyID := currentTags(edits)
		before := len(tags)
		if keys == nil {
			clear(tags)
		}
		for _, k := range keys {
			delete(tags, strings.TrimSpace(k))
		}
		if len(tags) == before {
			return nil, ""
		}
		return &events.HeapTagged{
			Heap:    heap,
			Content: events.Plain(events.TagContent{Tags: tags}),
			Edit:    events.EditDelete,
			Actor:   sanitizeActor(actor),
		}, keyID // the remaining values are content of the edit before
	})
}

// editClientTags is editTags for an edit that is made again if a shred destroyed the key of
// the tags before it: it then finds these tags erased.
func (l *Ledger) editClientTags(ctx context.Context, tenant, heap string, which wantedEdits, edit func([]events.Event) (*events.HeapTagged, string)) (seq uint64, err error) {
	seq, err = l.editTags(ctx, tenant, heap, which, edit)
	if errors.Is(err, events.ErrShredded) {
		seq, err = l.editTags(ctx, tenant, heap, which, edit)
	}
	return seq, err
}

// editTags records an edit of a heap's tags. It calls edit with some of the heap's edits.
// If another edit is stored before the append, the append fails and edit is called again.
// edit returns nil if there is nothing to record, and the id of the key to encrypt the tags
// under, or empty. The error is CodeGone if that key was destroyed.
func (l *Ledger) editTags(ctx context.Context, tenant, heap string, which wantedEdits, edit func([]events.Event) (d *events.HeapTagged, keyID string)) (seq uint64, err error) {
	if err := checkTenant(tenant); err != nil {
		return 0, err
	}
	if err := checkHeap(heap); err != nil {
		return 0, err
	}
	doing := "edit the tags of heap " + heap
	unlock, err := l.heaps.lock(ctx, tenant+" "+heap)
	if err != nil {
		return 0, lockError(doing, err)
	}
	defer unlock()
	err = retry(ctx, doing, func() error {
		edits, position, err := l.readEdits(ctx, tenant, heap, which)
		if err != nil {
			return err
		}
		d, keyID := edit(edits)
		if d == nil {
			if len(edits) > 0 {
				seq = edits[len(edits)-1].Seq
			}
			return nil
		}
		done, err := l.useKey(keyID)
		if err != nil {
			return err
		}
		defer done()
		e := l.newEvent(tenant, "", d)
		e.EncryptWithKey = keyID
		seq, err = l.store.Append(ctx, e, int64(position))
		return err
	})
	return seq, err
}

// newestEdit returns the edit in force and the position from which it holds. This is the
// edit with the highest such position; the tags of a run hold from its completed event.
// It returns the zero event if there is none.
func newestEdit(edits []events.Event) (newest events.Event, at uint64) {
	for _, e := range edits {
		if _, ok := e.Data.(*events.HeapTagged); !ok {
			continue
		}
		if from := appliesFrom(e); from >= at {
			newest, at = e, from
		}
	}
	return newest, at
}

// appliesFrom returns the position from which an edit holds.
func appliesFrom(e events.Event) uint64 {
	if d, ok := e.Data.(*events.HeapTagged); ok && d.AppliesAt != 0 && d.AppliesAt < e.Seq { // a position after the edit itself does not count
		return d.AppliesAt
	}
	return e.Seq
}

// currentTags returns a copy of the tags that hold after the edits, and the id of the key
// that they are encrypted under, or empty.
func currentTags(edits []events.Event) (tags map[string]string, keyID string) {
	tags = map[string]string{}
	newest, _ := newestEdit(edits)
	if d, ok := newest.Data.(*events.HeapTagged); ok {
		maps.Copy(tags, d.Content.Value().Tags)
		keyID = events.ContentKeyID(d)
	}
	return tags, keyID
}
