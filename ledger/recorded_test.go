package ledger_test

import (
	"context"
	"slices"
	"testing"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// noting is a store that notes the events of commands, as the store of a server does.
type noting struct {
	*jetstream.Store
	before *[]bool // for each event, whether the command had recorded one before
}

func (s noting) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	*s.before = append(*s.before, ledger.HasRecorded(ctx))
	seq, err := s.Store.Append(ctx, e, after)
	if err == nil {
		ledger.NoteRecorded(ctx)
	}
	return seq, err
}

// The store can detect that a command has already recorded an event.
func TestHasRecorded(t *testing.T) {
	t.Parallel()
	var before []bool
	l := ledger.New(noting{storetest.Start(t), &before}, ledger.Options{Logger: storetest.Logger(t)})
	for range 2 {
		opened, err := l.OpenSession(t.Context(), ledger.Opening{Tenant: tenant, Intent: "count"}) // records two events, then none
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: "1", LogicalSession: opened.SessionID}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []bool{false, true, false, true, false, true}; !slices.Equal(before, want) {
		t.Errorf("events of commands that had recorded something: %v, want %v", before, want)
	}
	if ledger.NoteRecorded(t.Context()); ledger.HasRecorded(t.Context()) {
		t.Error("a context without a command has recorded something")
	}
}
