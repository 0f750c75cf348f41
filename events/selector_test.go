package events_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"daybook/events"
)

// Every kind of selection is applied to the example of each type.
func TestSelector(t *testing.T) {
	t.Parallel()
	var all, aboutRun, entries []events.Type
	for i, typ := range events.Types() {
		all = append(all, typ)
		switch d := examples()[i].(type) {
		case *events.SessionEntryRecorded:
			entries = append(entries, typ)
			aboutRun = append(aboutRun, typ)
		default:
			if slices.Contains(events.ExecutionsOf(events.New("default", began, d)), execution) {
				aboutRun = append(aboutRun, typ)
			}
		}
	}
	if len(aboutRun) < 12 {
		t.Fatalf("only %q are about an execution", aboutRun)
	}
	ended := []events.Type{events.TypeExecutionCompleted, events.TypeExecutionFailed}
	for _, tt := range []struct {
		name string
		sel  events.Selection
		want []events.Type
	}{
		{"everything", events.Selection{}, all},
		{"another tenant", events.Selection{Tenant: "other"}, []events.Type{events.TypeLedgerCheckpointed, events.TypeLedgerVolumeSealed, events.TypeLedgerVolumeOpened, events.TypeLedgerVolumeRemoved, events.TypeLedgerSignersChanged, events.TypeLedgerProjectionsCopied}},
		{"types", events.Selection{Types: ended}, ended},
		{"execution", events.Selection{Execution: execution}, aboutRun},
		{"another execution", events.Selection{Execution: webhook}, nil},
		{"execution and types", events.Selection{Execution: execution, Types: ended}, ended},
		{"session", events.Selection{Session: "trip-planner"}, slices.Insert(slices.Clone(aboutRun), slices.Index(aboutRun, events.TypeExecutionReplayed), events.TypeSessionReset)}, // it was introduced before the replay
		{"logical session", events.Selection{Session: logical, Types: []events.Type{events.TypeExecutionRequested, events.TypeSessionNamed, events.TypeSessionTurnQueued, events.TypeAgentPrompted}},
			[]events.Type{events.TypeSessionNamed, events.TypeSessionTurnQueued, events.TypeAgentPrompted}},
		{"another session", events.Selection{Session: "other"}, nil},
		{"session and types", events.Selection{Session: "trip-planner", Types: entries}, entries},
		{"session and execution and types", events.Selection{Session: "trip-planner", Execution: execution, Types: ended}, ended},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.sel.Tenant == "" {
				tt.sel.Tenant = "default"
			}
			asked := 0
			s := events.Selector{Selection: tt.sel, SessionOf: func(context.Context, uint64, string) ([]string, error) {
				asked++
				return []string{"trip-planner"}, nil
			}}
			var got []events.Type
			for i, d := range examples() {
				in, err := s.Wants(t.Context(), envelope(i, d))
				if err != nil {
					t.Fatal(err)
				}
				if in {
					got = append(got, events.TypeOf(d))
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if asked != 0 {
				t.Errorf("SessionOf was called %d times, although the requested event names the session", asked)
			}
		})
	}
}

// A migration of a heap belongs to the run that left the heap, to the run that needed it, and to
// the sessions of both.
func TestSelectorOfMigrations(t *testing.T) {
	t.Parallel()
	const left, needs = execution, webhook
	sessions := map[string][]string{left: {"of left"}, needs: {"of needs"}}
	for _, tt := range []struct {
		last, run string
		sel       events.Selection
		want      bool
	}{
		{left, needs, events.Selection{Execution: left}, true},
		{left, needs, events.Selection{Execution: needs}, true},
		{left, needs, events.Selection{Session: "of left"}, true},
		{left, needs, events.Selection{Session: "of needs"}, true},
		{left, needs, events.Selection{Session: "of needs", Execution: left}, true},
		{left, needs, events.Selection{Session: "other"}, false},
		{left, "", events.Selection{Session: "of left"}, true},
		{left, "", events.Selection{Session: "of needs"}, false},
		{left, "", events.Selection{Execution: needs}, false},
		{"", needs, events.Selection{Session: "of needs"}, true},
		{"", "", events.Selection{Session: "of needs"}, false},
		{"", "", events.Selection{}, true},
	} {
		tt.sel.Tenant = "default"
		s := events.Selector{Selection: tt.sel, SessionOf: func(_ context.Context, _ uint64, id string) ([]string, error) { return sessions[id], nil }}
		e := events.New("default", began, &events.HeapMigrated{Heap: heapOut, Verdict: events.MigrationDone, NewHeap: heapIn, LastExecutionID: tt.last, RunID: tt.run})
		if in, err := s.Wants(t.Context(), e); err != nil || in != tt.want {
			t.Errorf("left by %q, needed by %q, selection %+v: %t, want %t, %v", tt.last, tt.run, tt.sel, in, tt.want, err)
		}
	}
}

// SessionOf is called once for a run whose requested event was not read, and again if it
// fails.
func TestSelectorLooksUpSessions(t *testing.T) {
	t.Parallel()
	asked := 0
	var failure error
	s := events.Selector{Selection: events.Selection{Tenant: "default", Session: "trip-planner"},
		SessionOf: func(_ context.Context, _ uint64, id string) ([]string, error) {
			asked++
			if id != execution {
				t.Errorf("called for execution %s", id)
			}
			return []string{"trip-planner"}, failure
		}}
	e := events.New("default", began, &events.ExecutionCancelRequested{ExecutionID: execution})
	failure = errors.New("on purpose")
	if _, err := s.Wants(t.Context(), e); !errors.Is(err, failure) {
		t.Errorf("%v, want %v", err, failure)
	}
	failure = nil
	for range 3 {
		if in, err := s.Wants(t.Context(), e); err != nil || !in {
			t.Errorf("%t, %v", in, err)
		}
	}
	if asked != 2 {
		t.Errorf("called %d times, want one failure and one success", asked)
	}
	// A tag edit of a client belongs to no run.
	edit := events.New("default", began, &events.HeapTagged{Heap: heapOut, Edit: events.EditSet})
	if in, err := s.Wants(t.Context(), edit); err != nil || in {
		t.Errorf("an edit of no run: %t, %v", in, err)
	}
}
