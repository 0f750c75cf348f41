package ledger

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
)

// Finalize records the tags and the session entry of an ended execution unless they are
// recorded, and releases the next turn of its logical session. It is idempotent and safe
// to call concurrently, also from several processes. Cancelling ctx does not interrupt
// it.
func (l *Ledger) Finalize(ctx context.Context, r Request, terminal events.Event) error {
	if events.EndingOf(terminal.Data) == nil || terminal.Seq == 0 {
		return fmt.Errorf("finalize execution %s: %s at position %d is not a recorded end", r.ExecutionID, terminal.Type, terminal.Seq)
	}
	ctx, stop := commitContext(ctx)
	defer stop()
	input := ""
	if r.Session != "" {
		h, err := l.history(ctx, r.Tenant, r.ExecutionID)
		if err != nil {
			return err
		}
		input = h.inputHeap()
	}
	unlock, err := l.lockSession(ctx, r)
	if err != nil {
		return unavailable("finalize execution "+r.ExecutionID, err)
	}
	defer unlock()
	return l.finalizeLocked(ctx, r, terminal, input)
}

// lockSession locks the run's named session against other writers of this process.
func (l *Ledger) lockSession(ctx context.Context, r Request) (unlock func(), err error) {
	if r.Session == "" {
		return func() {}, nil
	}
	return l.sessions.lock(ctx, sessionLock(r.Tenant, r.SessionID))
}

// sessionLock returns the key in Ledger.sessions of a tenant's session.
func sessionLock(tenant, session string) string { return tenant + " " + session }

// finalizeLocked is Finalize for a caller that holds the session's lock. input is the heap that
// the run restored.
func (l *Ledger) finalizeLocked(ctx context.Context, r Request, terminal events.Event, input string) error {
	return errors.Join(l.releaseNext(ctx, r, terminal), l.recordRunTags(ctx, r, terminal), l.recordSessionEntry(ctx, r, terminal, input))
}

func (l *Ledger) recordRunTags(ctx context.Context, r Request, terminal events.Event) error {
	tags, heap := r.Content.Value().Tags, events.EndingOf(terminal.Data).Heap
	if tags == nil || heap == nil || terminal.Type != events.TypeExecutionCompleted {
		return nil
	}
	// The tag edit of the run is stored after its terminal event.
	_, err := l.editTags(ctx, r.Tenant, heap.SHA256, wantedEdits(terminal.Seq), func(edits []events.Event) (*events.HeapTagged, string) {
		for _, e := range edits {
			if d, ok := e.Data.(*events.HeapTagged); ok && d.ExecutionID == r.ExecutionID {
				return nil, ""
			}
		}
		return &events.HeapTagged{
			Heap:        heap.SHA256,
			Content:     events.Plain(events.TagContent{Tags: tags}),
			Edit:        events.EditRun,
			ExecutionID: r.ExecutionID,
			AppliesAt:   terminal.Seq,
			Actor:       r.Actor,
		}, r.ContentKeyID()
	})
	if errors.Is(err, events.ErrShredded) {
		return nil // the tags are shredded with the run
	}
	return err
}

func (l *Ledger) recordSessionEntry(ctx context.Context, r Request, terminal events.Event, input string) error {
	if r.Session == "" {
		return nil
	}
	status, _ := terminal.Type.Status()
	entry := &events.SessionEntryRecorded{
		SessionID:   r.SessionID,
		Session:     r.Session,
		ExecutionID: r.ExecutionID,
		Status:      status,
		InputHeap:   input,
		CompletedAt: events.Instant{Time: terminal.Time},
		TerminalSeq: terminal.Seq,
	}
	if heap := events.EndingOf(terminal.Data).Heap; heap != nil {
		entry.OutputHeap = heap.SHA256
	}
	return retry(ctx, "record execution "+r.ExecutionID+" in its session", func() error {
		last, err := l.store.Last(ctx, events.SessionSubject(r.Tenant, r.SessionID))
		switch {
		case errors.Is(err, events.ErrNotFound):
			entry.Index = 0
		case err != nil:
			return err
		default:
			next, err := nextEntry(last)
			if err != nil {
				return err
			}
			// An entry is stored after its terminal event, so that only a newer event can
			// be the entry.
			if last.Seq > terminal.Seq {
				if recorded, err := l.hasEntry(ctx, r, terminal.Seq); recorded || err != nil {
					return err
				}
			}
			entry.Index = next
		}
		_, err = l.store.Append(ctx, l.newEvent(r.Tenant, r.Traceparent, entry), int64(last.Seq))
		return err
	})
}

// hasEntry reports whether the entry of a run is stored after a position.
func (l *Ledger) hasEntry(ctx context.Context, r Request, after uint64) (bool, error) {
	_, err := l.store.Each(ctx, events.SessionSubject(r.Tenant, r.SessionID), after, func(e events.Event) error {
		if d, ok := e.Data.(*events.SessionEntryRecorded); ok && d.ExecutionID == r.ExecutionID {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return true, nil
	}
	return false, err
}

// nextEntry returns the index of the next entry in the log of a named session
// whose newest event is last.
func nextEntry(last events.Event) (int64, error) {
	switch d := last.Data.(type) {
	case *events.SessionEntryRecorded:
		return d.Index + 1, nil
	case *events.SessionReset:
		return d.Entries, nil
	default:
		return 0, newerSessionError(last.About(), last)
	}
}
