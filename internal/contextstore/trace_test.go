package contextstore_test

import (
	"fmt"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/contextstore"
)

// A read under WithoutTrace appends nothing: it creates no context, notes nothing, does not
// count as a use and expires nothing.
func TestReadingWithoutTrace(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store()
	first := set(t, s, named(1), "a", "1")
	b.settle()
	last, err := b.log.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := contextstore.WithoutTrace(t.Context())
	b.clock.advance(20 * time.Minute)
	for i := range 10 {
		if c, err := s.Get(ctx, named(100+i), "test"); err != nil || c.SessionID == "" || len(c.RecentToolCalls) != 0 {
			t.Errorf("a missing context: %+v, %v", c, err)
		}
		if c, err := s.Get(ctx, named(1), "test"); err != nil || len(c.Custom) != 1 || c.SessionID != first.SessionID {
			t.Errorf("an existing context: %+v, %v", c, err)
		}
		if _, err := s.Preferences(ctx, named(200+i), "test"); err != nil {
			t.Error(err)
		}
		if err := s.Note(ctx, named(1), contextstore.Call{Tool: fmt.Sprint("tool ", i), CalledAt: b.clock.Now(), Durable: true}); err != nil {
			t.Error(err)
		}
		if err := s.NoteResource(ctx, named(1), contextstore.Resource{ID: "x", Content: "y", FetchedAt: b.clock.Now()}); err != nil {
			t.Error(err)
		}
	}
	b.clock.advance(11 * time.Minute) // 31 minutes since the last use
	now := events.FormatTime(b.clock.Now())
	if c, err := s.Get(ctx, named(1), "test"); err != nil || len(c.Custom) != 0 || c.SessionID != first.SessionID || c.CreatedAt != now {
		t.Errorf("a context that is idle for too long: %+v, %v", c, err)
	}
	s.Flush(t.Context())
	if end, err := b.log.LastSeq(t.Context()); err != nil || end != last {
		t.Errorf("the reads appended the events %d to %d, %v", last+1, end, err)
	}
	// A sweep records the expiry once.
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(events.TypeContextExpired); n != 1 {
		t.Errorf("%d expiries are recorded, want 1", n)
	}
}
