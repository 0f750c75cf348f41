package access_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/web/access"
)

// A tenant at a limit can add nothing new, and can use what it has.
func TestKeptLimits(t *testing.T) {
	t.Parallel()
	limits := access.Limits{Sessions: 3, TaggedHeaps: 2}
	for name, test := range map[string]struct {
		use    access.Usage
		kept   access.Kept
		refuse string // part of the message; empty if it is allowed
	}{
		"below":                  {access.Usage{Sessions: 2, Contexts: 2, TaggedHeaps: 1}, access.Kept{NewSession: true, Session: "s", Context: "c", Heap: "h"}, ""},
		"a logical session":      {access.Usage{Sessions: 3}, access.Kept{NewSession: true}, "sessions, logical and named (limit-sessions: 3, 3 in use); use an existing session"},
		"a short name":           {access.Usage{ShortNames: 3}, access.Kept{NewShortName: true}, "short names of sessions (limit-sessions: 3, 3 in use); use the id of the session"},
		"names do not count":     {access.Usage{ShortNames: 3}, access.Kept{NewSession: true, Session: "s", Context: "c"}, ""},
		"a name":                 {access.Usage{Sessions: 4}, access.Kept{Session: "s"}, "(limit-sessions: 3, 4 in use)"},
		"a known name":           {access.Usage{Sessions: 3}, access.Kept{Session: "known"}, ""},
		"contexts do not count":  {access.Usage{Contexts: 3, TaggedHeaps: 2}, access.Kept{NewSession: true}, ""},
		"a context":              {access.Usage{Contexts: 3}, access.Kept{Context: "c"}, "conversation contexts (limit-sessions: 3, 3 in use); use a session that has a context"},
		"a known context":        {access.Usage{Contexts: 3}, access.Kept{Context: "known"}, ""},
		"sessions do not count":  {access.Usage{Sessions: 3}, access.Kept{Context: "c", Heap: "h"}, ""},
		"a known name, context":  {access.Usage{Sessions: 3, Contexts: 3}, access.Kept{Session: "known", Context: "c"}, "conversation contexts"},
		"a heap":                 {access.Usage{TaggedHeaps: 2}, access.Kept{Heap: "h"}, "tagged heaps that no run has left (limit-tagged-heaps: 2, 2 in use); tag heaps that runs have left"},
		"a known heap":           {access.Usage{TaggedHeaps: 2}, access.Kept{Heap: "known"}, ""},
		"nothing, over a limit":  {access.Usage{Sessions: 9, Contexts: 9, TaggedHeaps: 9}, access.Kept{}, ""},
		"runs are another limit": {access.Usage{Runs: 9}, access.Kept{NewSession: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := access.NewQuotas(limits, &meter{use: test.use, has: "known"}, nil)
			asked := q.Allows(t.Context(), "acme", test.kept)
			if len(q.Refusals()) != 0 {
				t.Errorf("a question was counted: %v", q.Refusals())
			}
			err := q.CheckKept(t.Context(), "acme", test.kept)
			if fmt.Sprint(asked) != fmt.Sprint(err) {
				t.Errorf("asked: %v, then: %v", asked, err)
			}
			if unlimited := access.NewQuotas(access.Limits{}, &meter{use: test.use}, nil).CheckKept(t.Context(), "acme", test.kept); unlimited != nil {
				t.Errorf("without limits: %v", unlimited)
			}
			if test.refuse == "" {
				if err != nil || len(q.Refusals()) != 0 {
					t.Errorf("got %v, refusals %v", err, q.Refusals())
				}
				return
			}
			limit := "limit-sessions"
			if strings.Contains(test.refuse, "tagged") {
				limit = "limit-tagged-heaps"
			}
			if over := wantLimit(t, err, limit); !strings.Contains(over.Error(), test.refuse) || q.Refusals()[limit] != 1 {
				t.Errorf("%v does not say %q; refusals %v", over, test.refuse, q.Refusals())
			}
		})
	}
	broken := errors.New("disk on fire")
	if err := access.NewQuotas(limits, &meter{err: broken}, nil).CheckKept(t.Context(), "acme", access.Kept{Heap: "h"}); !errors.Is(err, broken) {
		t.Errorf("got %v, want the meter's error", err)
	}
}

// KeptBy covers each event of a client that adds something permanent.
func TestKeptBy(t *testing.T) {
	t.Parallel()
	ref := events.ContextRef{Key: "c"}
	for name, test := range map[string]struct {
		data events.Data
		want access.Kept
	}{
		"an intent":             {&events.SessionNamed{}, access.Kept{NewSession: true}},
		"a session":             {&events.SessionOpened{}, access.Kept{NewSession: true}},
		"one of an intent":      {&events.SessionOpened{IntentSHA256: "h"}, access.Kept{}},
		"a turn":                {&events.SessionTurnQueued{}, access.Kept{}},
		"values of a context":   {&events.ContextUpdated{ContextRef: ref}, access.Kept{Context: "c"}},
		"a cleared context":     {&events.ContextCleared{ContextRef: ref}, access.Kept{Context: "c"}},
		"a noted call":          {&events.ContextNoted{ContextRef: ref}, access.Kept{Context: "c"}},
		"an expired context":    {&events.ContextExpired{ContextRef: ref}, access.Kept{}},
		"tags":                  {&events.HeapTagged{Heap: "h", Edit: events.EditSet}, access.Kept{Heap: "h"}},
		"deleted tags":          {&events.HeapTagged{Heap: "h", Edit: events.EditDelete}, access.Kept{}},
		"the tags of a run":     {&events.HeapTagged{Heap: "h", Edit: events.EditRun}, access.Kept{}},
		"a run, asked for":      {&events.ExecutionRequested{Session: "s", Context: &ref}, access.Kept{}},
		"an end":                {&events.ExecutionCompleted{}, access.Kept{}},
		"an entry of a session": {&events.SessionEntryRecorded{Session: "s"}, access.Kept{}},
	} {
		if got := access.KeptBy(test.data); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
