package ledger

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"daybook/events"
)

// MovedTags is the result of MoveTags.
type MovedTags struct {
	// Tags is the number of tags that the heap from had.
	Tags int
	// Seq is the position of the last edit; 0 if there was none.
	Seq uint64
}

// MoveTags adds the tags of the heap from to the heap to, and then deletes them from the heap
// from. Of a tag that both heaps have, the value that was set last counts. The deletion is
// recorded only if the tags are those that were added: if a client edits them meanwhile,
// MoveTags adds the edited ones too. If it is interrupted, both heaps have the tags until it is
// repeated. Errors are CodeInvalid, also for more tags than a heap may have, CodeExhausted and
// CodeUnavailable.
func (l *Ledger) MoveTags(ctx context.Context, tenant, from, to string, actor events.Actor) (done MovedTags, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	if err := checkTenant(tenant); err != nil {
		return done, err
	}
	for _, heap := range []string{from, to} {
		if err := checkHeap(heap); err != nil {
			return done, err
		}
	}
	if from == to {
		return done, Invalid("heap", "the tags of heap %s cannot be moved to the same heap", from)
	}
	m := tagMove{l: l, tenant: tenant, from: from, to: to, actor: sanitizeActor(actor)}
	err = retry(ctx, "move the tags of heap "+from, func() error { return m.try(ctx) })
	return m.done, err
}

// tagMove is one move of tags.
type tagMove struct {
	l                *Ledger
	tenant, from, to string
	actor            events.Actor
	done             MovedTags
}

// try adds the tags and deletes them. The error is events.ErrConflict if the tags of the heap
// from changed between the two.
func (m *tagMove) try(ctx context.Context) error {
	edits, _, err := m.l.readEdits(ctx, m.tenant, m.from, allEdits)
	if err != nil {
		return err
	}
	tags, keyID := currentTags(edits)
	if len(tags) == 0 {
		return nil
	}
	if err := m.add(ctx, tags, keyID, tagPositions(edits)); err != nil {
		return err
	}
	changed := false
	seq, err := m.l.editTags(ctx, m.tenant, m.from, editsInForce, func(edits []events.Event) (*events.HeapTagged, string) {
		now, keyID := currentTags(edits)
		if changed = !maps.Equal(now, tags); changed {
			return nil, ""
		}
		return m.edit(m.from, events.EditDelete, map[string]string{}), keyID
	})
	switch {
	case errors.Is(err, events.ErrShredded), err == nil && changed:
		return events.ErrConflict
	case err != nil:
		return err
	}
	m.done = MovedTags{Tags: len(tags), Seq: seq}
	return nil
}

// add adds tags of the heap from, which are encrypted under a key and were set at positions, to
// the heap to.
func (m *tagMove) add(ctx context.Context, tags map[string]string, keyID string, positions map[string]uint64) error {
	var refused error
	var releases []func()
	defer func() {
		for _, release := range releases {
			release()
		}
	}()
	seq, err := m.l.editTags(ctx, m.tenant, m.to, allEdits, func(edits []events.Event) (*events.HeapTagged, string) {
		present, presentKeyID := currentTags(edits)
		since := tagPositions(edits)
		merged := maps.Clone(present)
		for k, v := range tags {
			if since[k] < positions[k] { // 0 for a tag that the heap does not have
				merged[k] = v
			}
		}
		if maps.Equal(merged, present) {
			return nil, ""
		}
		if refused = checkTags(merged); refused != nil {
			return nil, ""
		}
		id, release, err := m.l.UseKeyOfContent(m.tenant, m.l.keyOfMerged(m.tenant, keyID, presentKeyID))
		if refused = err; err != nil {
			return nil, ""
		}
		releases = append(releases, release)
		return m.edit(m.to, events.EditSet, merged), id
	})
	switch {
	case errors.Is(refused, events.ErrShredded), errors.Is(err, events.ErrShredded):
		return events.ErrConflict // the next try finds the tags erased
	case refused != nil:
		return refused
	case err != nil:
		return err
	}
	m.done.Seq = max(m.done.Seq, seq)
	return nil
}

func (m *tagMove) edit(heap string, kind events.TagEdit, tags map[string]string) *events.HeapTagged {
	return &events.HeapTagged{Heap: heap, Content: events.Plain(events.TagContent{Tags: tags}), Edit: kind, Actor: m.actor}
}

// tagPositions returns the positions from which the current tags have their values. The edits
// are all edits of a heap.
func tagPositions(edits []events.Event) map[string]uint64 {
	since, tags := map[string]uint64{}, map[string]string{}
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b events.Event) int { return cmp.Compare(appliesFrom(a), appliesFrom(b)) })
	for _, e := range edits {
		d, ok := e.Data.(*events.HeapTagged)
		if !ok {
			continue
		}
		now := d.Content.Value().Tags
		for k, v := range now {
			if before, has := tags[k]; !has || before != v {
				since[k] = appliesFrom(e)
			}
		}
		tags = now
	}
	maps.DeleteFunc(since, func(k string, _ uint64) bool { _, has := tags[k]; return !has })
	return since
}

// keyOfMerged returns the key for tags that are moved to tags under another key: that of a
// session, so that a shred of the session reaches its tags. Of two sessions it is that of the
// moved tags.
func (l *Ledger) keyOfMerged(tenant, moved, present string) string {
	if moved == "" || present == "" || l.opts.Keys == nil {
		return moved + present
	}
	if id, ok := l.opts.Keys.Find(tenant, events.NoSessionID(tenant)); ok && id == moved {
		return present
	}
	return moved
}
