package httpapi_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/ledger"
)

// readCounter counts the events that are read from a ledger.
type readCounter struct {
	httpapi.EventLog
	events   atomic.Int64
	earliest atomic.Uint64 // the earliest position of an id, if set
}

func (c *readCounter) EarliestPosition(id string) uint64 {
	if at := c.earliest.Load(); at > 0 && events.ValidID(id) {
		return at
	}
	return c.EventLog.EarliestPosition(id)
}

func (c *readCounter) Read(ctx context.Context, after uint64, limit int) ([]events.Event, error) {
	list, err := c.EventLog.Read(ctx, after, limit)
	c.events.Add(int64(len(list)))
	return list, err
}

// The events of an execution or a session are read from the first one on, and all of them.
func TestEventsAreReadFromTheFirst(t *testing.T) {
	t.Parallel()
	var counter *readCounter
	s := start(t, func(o *httpapi.Options) {
		counter = &readCounter{EventLog: o.Events}
		o.Events = counter
	})
	const before = 1000
	s.request(events.DefaultTenant, before)
	named := s.submit(`{"code":"1","session":"s1"}`)
	s.begin(named).finish(events.StatusCompleted, "1", someHeap)
	opened, err := s.ledger.OpenSession(t.Context(), ledger.Opening{Tenant: events.DefaultTenant, Intent: "an intent"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.ledger.AssignRef(t.Context(), events.DefaultTenant, events.Hash([]byte("a holder")), opened.SessionID); err != nil {
		t.Fatal(err)
	}
	turn := s.submit(`{"code":"2","logical_session":"` + opened.SessionID + `"}`)
	s.begin(turn).finish(events.StatusCompleted, "2", someHeap)
	if _, err := s.ledger.ResetSession(t.Context(), ledger.Reset{Tenant: events.DefaultTenant, Name: "s1"}); err != nil {
		t.Fatal(err)
	}
	if err := s.q.Wait(t.Context(), s.lastSeq()); err != nil {
		t.Fatal(err)
	}
	all, err := s.store.Read(t.Context(), 0, before*2)
	if err != nil {
		t.Fatal(err)
	}
	selected := func(sel events.Selection) (list []string) {
		t.Helper()
		sel.Tenant = events.DefaultTenant
		selector := events.Selector{Selection: sel, SessionOf: func(ctx context.Context, _ uint64, id string) ([]string, error) {
			return s.q.SessionsOfExecution(ctx, events.DefaultTenant, id)
		}}
		for _, e := range all {
			if wanted, err := selector.Wants(t.Context(), e); err != nil {
				t.Fatal(err)
			} else if wanted {
				list = append(list, strconv.FormatUint(e.Seq, 10))
			}
		}
		if len(list) < 3 {
			t.Fatalf("%+v selects %q", sel, list)
		}
		return list
	}
	ofLogical := events.Selection{Session: opened.SessionID}
	for path, sel := range map[string]events.Selection{
		"/api/events?execution=" + named:                          {Execution: named},
		"/api/events?session=s1":                                  {Session: "s1"},
		"/api/events?session=s1&execution=" + named:               {Session: "s1", Execution: named},
		"/api/events?session=" + opened.SessionID:                 ofLogical,
		"/api/sessions/s1/replay?speed=max":                       {Session: "s1"},
		"/api/sessions/" + opened.SessionID + "/replay?speed=max": ofLogical,
		"/api/events?after=0&execution=" + turn:                   {Execution: turn},
	} {
		counter.events.Store(0)
		var got []string
		for _, e := range s.replayed("GET", path) {
			got = append(got, e.Sequence)
		}
		if want := selected(sel); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		if n := counter.events.Load(); n > int64(len(all)-before) {
			t.Errorf("%s reads %d events of %d", path, n, len(all))
		}
	}
	// What the projections do not know is read from the beginning, or from the time in its id.
	counter.events.Store(0)
	if list := s.replayed("GET", "/api/events?session=unknown"); len(list) != 0 || counter.events.Load() < before {
		t.Errorf("%d events of an unknown session, %d of %d events read", len(list), counter.events.Load(), len(all))
	}
	unknown := events.NewID(time.Now())
	for _, path := range []string{"/api/events?execution=", "/api/events?session="} {
		counter.earliest.Store(before)
		counter.events.Store(0)
		if list := s.replayed("GET", path+unknown); len(list) != 0 || counter.events.Load() > int64(len(all)-before)+1 {
			t.Errorf("%s%s returns %d events after reading %d of %d events", path, unknown, len(list), counter.events.Load(), len(all))
		}
	}
}
