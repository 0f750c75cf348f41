package projections_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

func contextRef(kind events.ContextKind, name string) events.ContextRef {
	return events.ContextRef{Key: events.ContextKey(tenant, kind, name), SessionID: events.Hash([]byte(name)), Kind: kind}
}

func inContext(ref events.ContextRef) func(*events.ExecutionRequested) {
	return func(d *events.ExecutionRequested) { d.Context = &ref }
}

func noted(ref events.ContextRef, at time.Time, calls ...events.NotedCall) *events.ContextNoted {
	return &events.ContextNoted{
		ContextRef: ref, UsedAt: events.Instant{Time: at}, Content: events.Plain(events.NotedContent{Calls: calls}),
	}
}

func called(tool string, n int, at time.Time) events.NotedCall {
	return events.NotedCall{
		Tool: tool, Arguments: map[string]json.RawMessage{"n": fmt.Append(nil, n)}, ArgumentsSHA256: events.Hash(fmt.Append(nil, tool, n)),
		CalledAt: events.Instant{Time: at}, ResultSummary: fmt.Sprintf("result %d", n),
	}
}

func contextNow(t *testing.T, s *projections.Store, ref events.ContextRef) projections.ContextState {
	t.Helper()
	c, err := s.Context(t.Context(), tenant, ref.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Calls beyond the window are summarized: at the fifteenth call, the newest ten stay.
func TestCallsAreSummarized(t *testing.T) {
	t.Parallel()
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	for n := range 40 {
		b.add(noted(ref, began, called("search", n, began.Add(time.Duration(n)*time.Second))))
		apply(t, s, b)
		c := contextNow(t, s, ref).Context
		live, first := n+1, 0
		for live >= 15 { // five more calls each
			live, first = live-5, first+5
		}
		if len(c.RecentToolCalls) != live || c.WindowStartIndex != first || c.RecentToolCalls[live-1].ResultSummary != fmt.Sprintf("result %d", n) {
			t.Fatalf("after %d calls %d are live, %d summed up, the last is %+v", n+1, len(c.RecentToolCalls), c.WindowStartIndex, c.RecentToolCalls[live-1])
		}
		if (c.SummaryBeforeWindow != "") != (first > 0) {
			t.Fatalf("after %d calls the summary is %q", n+1, c.SummaryBeforeWindow)
		}
	}
}

// Notes are recorded in batches, and therefore after runs that were requested later.
// The window and the summaries list the calls in the order in which they were made.
func TestWindowIsInOrder(t *testing.T) {
	t.Parallel()
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	var late []events.NotedCall
	for n := range 40 {
		at := b.add(requested(n, inContext(ref))) // one per second
		late = append(late, called("set_heap_tags", n, began.Add(time.Duration(at)*time.Second-1500*time.Millisecond)))
		if n%4 == 3 {
			b.add(noted(ref, began.Add(time.Duration(at)*time.Second), late...))
			late = nil
		}
	}
	apply(t, s, b)
	c := contextNow(t, s, ref).Context
	if !slices.IsSortedFunc(c.RecentToolCalls, func(x, y projections.ToolCallRecord) int { return strings.Compare(x.CalledAt, y.CalledAt) }) {
		t.Errorf("the window is out of order: %+v", c.RecentToolCalls)
	}
	ranges := regexp.MustCompile(`\((\S+) to (\S+)\)`).FindAllStringSubmatch(c.SummaryBeforeWindow, -1)
	if len(ranges) < 5 {
		t.Fatalf("%d summaries in %q", len(ranges), c.SummaryBeforeWindow)
	}
	for _, r := range ranges {
		if r[1] > r[2] {
			t.Errorf("a summary is of %s to %s", r[1], r[2])
		}
	}
}

// A summary counts calls by tool and quotes the first three results.
func TestSummaryText(t *testing.T) {
	t.Parallel()
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	for n := range 15 {
		tool := "get_execution"
		if n == 1 {
			tool = "list_sessions"
		}
		b.add(noted(ref, began, called(tool, n, began.Add(time.Duration(n)*time.Second))))
	}
	apply(t, s, b)
	want := `Summary of 5 earlier tool calls (2026-11-21T09:30:00.125Z to 2026-11-21T09:30:04.125Z):
  - get_execution: called 4 times
  - list_sessions: called 1 time
  - get_execution result: result 0
  - list_sessions result: result 1
  - get_execution result: result 2`
	if diff := cmp.Diff(want, contextNow(t, s, ref).Context.SummaryBeforeWindow); diff != "" {
		t.Error(diff)
	}
}

// The summary stays within 8 KiB for any number of calls, and states how many calls it
// omits.
func TestSummaryIsBounded(t *testing.T) {
	t.Parallel()
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	for n := range 500 {
		c := called("search", n, began.Add(time.Duration(n)*time.Second))
		c.ResultSummary = strings.Repeat("ä", 5_000)
		b.add(noted(ref, began, c))
	}
	apply(t, s, b)
	c := contextNow(t, s, ref).Context
	if n := len(c.SummaryBeforeWindow); n > 8<<10 || n < 4<<10 {
		t.Errorf("the summary is %d bytes", n)
	}
	if want := fmt.Sprintf("Of %d earlier tool calls", c.WindowStartIndex); !strings.HasPrefix(c.SummaryBeforeWindow, want) || c.WindowStartIndex+len(c.RecentToolCalls) != 500 {
		t.Errorf("%d summed up, %d live, and the summary begins %.60q", c.WindowStartIndex, len(c.RecentToolCalls), c.SummaryBeforeWindow)
	}
	for _, call := range c.RecentToolCalls {
		if n := len([]rune(call.ResultSummary)); n > 280 {
			t.Errorf("a result summary has %d characters", n)
		}
	}
}

// Two hundred resources are kept, each once. The one that was read longest ago is
// dropped first.
func TestResourcesAreBounded(t *testing.T) {
	t.Parallel()
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	read := func(n int) {
		b.add(&events.ContextNoted{ContextRef: ref, UsedAt: events.Instant{Time: began}, Content: events.Plain(events.NotedContent{Resources: []events.NotedResource{{
			ResourceID: fmt.Sprint("execution://", n), ResourceType: "database_row", FetchedAt: events.Instant{Time: began}, ContentSHA256: heap(n), Summary: "s",
		}}})})
	}
	for n := range 200 {
		read(n)
	}
	read(0) // again: resource 1 is now the oldest
	read(200)
	apply(t, s, b)
	got := contextNow(t, s, ref).Context.FetchedResources
	if len(got) != 200 || got[0].ResourceID != "execution://2" || got[198].ResourceID != "execution://0" || got[199].ResourceID != "execution://200" {
		t.Errorf("%d resources, from %s to %s, %s", len(got), got[0].ResourceID, got[198].ResourceID, got[199].ResourceID)
	}
	if got[199] != (projections.FetchedResource{ResourceID: "execution://200", ResourceType: "database_row", FetchedAt: "2026-11-21T09:30:00.125Z", ContentHash: heap(200), Summary: "s"}) {
		t.Errorf("%+v", got[199])
	}
}

// A run is in its context from its request on, and its outcome from its end on.
func TestContextOfARun(t *testing.T) {
	t.Parallel()
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	b.add(requested(1, inContext(ref), func(d *events.ExecutionRequested) { d.RequestSHA256 = heap(1) }))
	apply(t, s, b)
	c := contextNow(t, s, ref)
	if len(c.Context.RecentToolCalls) != 1 || c.Context.RecentToolCalls[0].ExecutionID != id(1) || c.Context.RecentToolCalls[0].ResultSummary != "running" || c.Running != 1 {
		t.Errorf("requested: %+v", c)
	}
	b.add(ended(1, events.StatusCompleted, func(d *events.Ending) {
		d.Content = events.Plain(events.EndingContent{Result: &events.Body{Text: "4\n2"}})
	}))
	apply(t, s, b)
	c = contextNow(t, s, ref)
	if got := c.Context.RecentToolCalls[0]; got.ResultSummary != "completed: 4 2" || c.Running != 0 {
		t.Errorf("ended: %+v, %d running", got, c.Running)
	}
	if len(c.PriorCalls) != 1 || c.PriorCalls[0].ArgsSHA256 != heap(1) || c.PriorCalls[0].Status != events.StatusCompleted || !c.PriorCalls[0].Reusable {
		t.Errorf("tried: %+v", c.PriorCalls)
	}
	// A run with requested tags changes more than its own heap and cannot be reused.
	b.add(requested(2, inContext(ref), func(d *events.ExecutionRequested) {
		d.RequestSHA256 = heap(2)
		d.Content.Plain.Tags = tags{"k": "v"}
	}), ended(2, events.StatusCompleted))
	b.add(requested(3, inContext(ref), func(d *events.ExecutionRequested) { d.RequestSHA256 = heap(3) }), ended(3, events.StatusTimedOut))
	b.add(requested(4, inContext(ref), func(d *events.ExecutionRequested) {
		d.RequestSHA256 = heap(4)
		d.Turn = &events.Turn{SessionID: heap(9), Number: 1}
	}))
	apply(t, s, b)
	c = contextNow(t, s, ref)
	if len(c.PriorCalls) != 3 || c.PriorCalls[1].Reusable || c.PriorCalls[2].Reusable {
		t.Errorf("tried: %+v", c.PriorCalls)
	}
	// A cleared context lists nothing, and the run in progress still counts.
	b.add(&events.ContextCleared{ContextRef: ref})
	apply(t, s, b)
	c = contextNow(t, s, ref)
	if !c.Empty || c.Running != 1 || c.Context.CreatedAt != c.Context.LastUpdatedAt || c.SessionID != ref.SessionID {
		t.Errorf("cleared: %+v", c)
	}
	b.add(ended(4, events.StatusFailed))
	apply(t, s, b)
	if c = contextNow(t, s, ref); c.Running != 0 || !c.Empty {
		t.Errorf("after the last run: %+v", c)
	}
}

// The row of an expired context of a transport session is removed. The context of a
// named session keeps its id.
func TestExpiredContexts(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	name, line := contextRef(events.ContextSession, "a"), contextRef(events.ContextTransport, "b")
	for _, ref := range []events.ContextRef{name, line} {
		b.add(noted(ref, began, called("search", 1, began)))
	}
	apply(t, s, b)
	idle, err := s.IdleContexts(t.Context(), began, 10)
	if err != nil || len(idle) != 2 || idle[0].Tenant != tenant || !idle[0].UsedAt.Equal(began) {
		t.Errorf("idle: %+v, %v", idle, err)
	}
	if idle, err = s.IdleContexts(t.Context(), began.Add(-time.Millisecond), 10); err != nil || len(idle) != 0 {
		t.Errorf("idle a moment before: %+v, %v", idle, err)
	}
	b.add(&events.ContextExpired{ContextRef: name}, &events.ContextExpired{ContextRef: line})
	apply(t, s, b)
	if c := contextNow(t, s, name); !c.Empty || c.SessionID != name.SessionID {
		t.Errorf("%+v", c)
	}
	if _, err := s.Context(t.Context(), tenant, line.Key); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("an expired connection: %v", err)
	}
	if idle, err = s.IdleContexts(t.Context(), began.Add(time.Hour), 10); err != nil || len(idle) != 0 {
		t.Errorf("idle after: %+v, %v", idle, err)
	}
}

// An empty context of a transport session expires, too: sessions that only read would
// leave a row each.
func TestEmptyContextsExpire(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	name, line, busy := contextRef(events.ContextSession, "a"), contextRef(events.ContextTransport, "b"), contextRef(events.ContextTransport, "c")
	for _, ref := range []events.ContextRef{name, line, busy} {
		b.add(noted(ref, began))
	}
	b.add(&events.ContextCleared{ContextRef: name}, requested(1, inContext(busy)), &events.ContextExpired{ContextRef: busy, LastUse: events.Instant{Time: began}})
	wantIdle := func(what string, want ...events.ContextRef) {
		t.Helper()
		apply(t, s, b)
		idle, err := s.IdleContexts(t.Context(), began.Add(time.Hour), 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []events.ContextRef
		for _, c := range idle {
			got = append(got, c.ContextRef)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	wantIdle("an empty context of a connection, and one with a run", line)
	b.add(&events.ContextExpired{ContextRef: line})
	wantIdle("it has expired")
	b.add(started(1, 1, fresh, ""), ended(1, events.StatusCompleted))
	wantIdle("the run has ended", busy)
	b.add(&events.ContextExpired{ContextRef: busy})
	wantIdle("that has expired, too")
	if got := usage(t, s, tenant); got.Contexts != 1 {
		t.Errorf("%+v", got)
	}
}

// The result is the same for batches of any size and after a restart at any event.
func TestContextsRebuildEqual(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 7))
	b := newMemoryLedger()
	refs := []events.ContextRef{
		contextRef(events.ContextSession, "a"), contextRef(events.ContextTransport, "b"), contextRef(events.ContextLogical, "c"), contextRef(events.ContextTransport, "d"),
	}
	for n := range 600 {
		ref, at := refs[rnd.IntN(len(refs))], began.Add(time.Duration(n)*time.Second)
		switch rnd.IntN(12) {
		case 0:
			b.add(&events.ContextUpdated{ContextRef: ref, Content: events.Plain(events.ContextContent{
				UserPreferences: events.UserPreferences{MaxResults: n}, Custom: map[string]json.RawMessage{"k": fmt.Append(nil, n)},
			})})
		case 1:
			b.add(&events.ContextCleared{ContextRef: ref})
		case 2, 3:
			b.add(&events.ContextExpired{ContextRef: ref})
		case 4, 5:
			b.add(requested(n, inContext(ref)))
		case 6, 7:
			b.add(ended(rnd.IntN(n+1), events.StatusCompleted))
		case 8:
			b.add(&events.ContextNoted{ContextRef: ref, Since: events.Instant{Time: at}, UsedAt: events.Instant{Time: at}, Content: events.Plain(events.NotedContent{
				Resources: []events.NotedResource{{ResourceID: fmt.Sprint("r", rnd.IntN(5)), FetchedAt: events.Instant{Time: at}}},
			})})
		default:
			b.add(noted(ref, at, called("search", rnd.IntN(3), at)))
		}
	}
	var want []projections.ContextState
	for _, batch := range []int{600, 1, 7, 64} {
		path := filepath.Join(t.TempDir(), "projections.db")
		var got []projections.ContextState
		for from := 0; from < 600; from += 200 { // each part in a new process
			s, err := projections.Open(t.Context(), projections.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			for at := from; at < from+200; at += batch {
				if err := s.Apply(t.Context(), b.all()[at:min(at+batch, from+200)]); err != nil {
					t.Fatal(err)
				}
			}
			if from == 400 {
				for _, ref := range refs {
					c, err := s.Context(t.Context(), tenant, ref.Key)
					if err != nil && !errors.Is(err, events.ErrNotFound) {
						t.Fatal(err)
					}
					got = append(got, c)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in batches of %d:\n%s", batch, diff)
		}
	}
}

// Watchers of a context are signalled for the ends of its runs, which are events about
// executions.
func TestContextIsWatched(t *testing.T) {
	t.Parallel()
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	b.add(requested(1, inContext(ref)))
	apply(t, s, b)
	changed, stop := s.Watch(tenant, ref.Key)
	defer stop()
	b.add(ended(1, events.StatusCompleted))
	apply(t, s, b)
	select {
	case <-changed:
	default:
		t.Error("no watcher was signalled")
	}
}
