package projections_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

func agentID(n int) string { return strings.Repeat(fmt.Sprintf("%x", n%16), 64) }

func created(n int, cwd string, fork *events.AgentFork) *events.AgentSessionCreated {
	return &events.AgentSessionCreated{SessionID: agentID(n), Content: events.Plain(events.AgentWorkspace{Cwd: cwd}), Config: events.AgentConfig{Mode: events.AgentModeAsk}, Fork: fork}
}

func prompted(n int, prompt, title string) *events.AgentPrompted {
	return &events.AgentPrompted{SessionID: agentID(n), PromptID: prompt, Content: events.Plain(events.PromptContent{Blocks: events.Body{Text: "[" + prompt + "]"}, Title: title})}
}

func answered(n int, prompt, text string, cleared bool) *events.AgentAnswered {
	return &events.AgentAnswered{SessionID: agentID(n), PromptID: prompt, Content: events.Plain(events.AnswerContent{Text: events.Body{Text: text}}), Cleared: cleared}
}

func promptIDs(t testing.TB, s *projections.Store, n int) []string {
	t.Helper()
	list, err := s.AgentPrompts(t.Context(), tenant, agentID(n))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range list {
		ids = append(ids, p.PromptID)
	}
	return ids
}

// TestAgentConversations checks that a forked session starts with the prompts that it
// shares with its parent, even if the parent is cleared or deleted later.
func TestAgentConversations(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(created(1, "/a", nil), prompted(1, "p1", "first"), answered(1, "p1", "yes", false))
	fork := b.add(prompted(1, "p2", ""))
	b.add(created(2, "/b", &events.AgentFork{SessionID: agentID(1), Position: fork}), prompted(1, "p3", ""), prompted(2, "q1", "branch"))
	b.add(created(3, "/a", &events.AgentFork{SessionID: agentID(2), Position: fork + 1}), prompted(3, "r1", ""))
	apply(t, s, b)
	for n, want := range map[int][]string{1: {"p1", "p2", "p3"}, 2: {"p1", "p2", "q1"}, 3: {"p1", "p2", "r1"}, 4: nil} {
		if got := promptIDs(t, s, n); !slices.Equal(got, want) {
			t.Errorf("session %d has %v, want %v", n, got, want)
		}
	}
	// To clear or delete the parent leaves the forks unchanged.
	b.add(prompted(1, "p4", ""), answered(1, "p4", "cleared", true), prompted(1, "p5", ""), &events.AgentSessionDeleted{SessionID: agentID(1)})
	b.add(prompted(2, "q2", ""), answered(2, "q2", "", true), prompted(2, "q3", ""))
	apply(t, s, b)
	for n, want := range map[int][]string{1: {"p5"}, 2: {"q3"}, 3: {"p1", "p2", "r1"}} {
		if got := promptIDs(t, s, n); !slices.Equal(got, want) {
			t.Errorf("session %d has %v, want %v", n, got, want)
		}
	}
	if _, err := s.AgentSession(t.Context(), tenant, agentID(1)); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("a deleted session is found: %v", err)
	}
	if _, err := s.AgentSession(t.Context(), "another", agentID(2)); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("another tenant finds the session: %v", err)
	}
	got, err := s.AgentSession(t.Context(), tenant, agentID(2))
	if err != nil || got.Cwd != "/b" || got.Title == nil || *got.Title != "branch" || got.Parent == nil || *got.Parent != agentID(1) {
		t.Errorf("session 2 is %+v, %v", got, err)
	}
}

// TestAgentsRebuilt checks that events in any order, including orders that break every
// rule, give the same tables in one batch and one by one.
func TestAgentsRebuilt(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		b := newMemoryLedger()
		for i := range 300 {
			n, prompt := 1+rnd.IntN(5), fmt.Sprint("p", rnd.IntN(40))
			var d events.Data
			switch rnd.IntN(12) {
			case 0, 1:
				var fork *events.AgentFork
				if rnd.IntN(2) == 0 {
					fork = &events.AgentFork{SessionID: agentID(1 + rnd.IntN(6)), Position: uint64(rnd.IntN(400))}
				}
				d = created(n, fmt.Sprint("/", rnd.IntN(2)), fork)
			case 2:
				d = &events.AgentSessionAttached{SessionID: agentID(n), Content: events.Plain(events.AgentWorkspace{Cwd: "/x", AdditionalDirectories: []string{"/y"}})}
			case 3:
				d = &events.AgentSessionConfigured{SessionID: agentID(n), Config: events.AgentConfig{Mode: events.AgentModeReadOnly}}
			case 4:
				d = &events.AgentSessionClosed{SessionID: agentID(n)}
			case 5:
				d = &events.AgentPermissionDecided{SessionID: agentID(n), Outcome: "allowed"}
			case 6, 7:
				d = answered(n, prompt, fmt.Sprint(i), rnd.IntN(4) == 0)
			case 8:
				if rnd.IntN(8) != 0 {
					continue
				}
				d = &events.AgentSessionDeleted{SessionID: agentID(n)}
			default:
				d = prompted(n, prompt, fmt.Sprint("title ", i))
			}
			b.addFor([]string{tenant, tenant, "another"}[rnd.IntN(3)], d)
		}
		at := func(name string) string { return filepath.Join(t.TempDir(), name) }
		whole, single := at("whole.db"), at("single.db")
		all, one := open(t, projections.Options{Path: whole}), open(t, projections.Options{Path: single})
		apply(t, all, b)
		for _, e := range b.all() {
			if err := one.Apply(t.Context(), []events.Event{e}); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(dump(t, whole), dump(t, single)); diff != "" {
			t.Fatalf("seed %d: one by one gives other tables:\n%s", seed, diff)
		}
		for n := 1; n < 7; n++ {
			promptIDs(t, all, n) // the conversation ends
		}
	}
}

// TestTraceInPages checks that the steps of a run are returned in the order of the
// ledger, for any number of calls.
func TestTraceInPages(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	if _, err := s.Trace(t.Context(), tenant, id(1), projections.TraceMark{}); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("an unknown run: %v", err)
	}
	var live []string
	var mark projections.TraceMark
	read := func(mark *projections.TraceMark) (steps []string) {
		t.Helper()
		for {
			r, err := s.Trace(t.Context(), tenant, id(1), *mark)
			if err != nil {
				t.Fatal(err)
			}
			*mark = r.Next
			for _, step := range r.Steps {
				switch {
				case step.Line != nil:
					steps = append(steps, step.Line.Text)
				case step.Call != nil:
					steps = append(steps, fmt.Sprint("call ", step.Call.Number))
				case step.Answer != nil:
					steps = append(steps, fmt.Sprint("answer ", step.Answer.Number, step.Answer.Outcome))
				}
			}
			if !r.More {
				return steps
			}
		}
	}
	next := func(data ...events.Data) {
		t.Helper()
		b.add(data...)
		apply(t, s, b)
		live = append(live, read(&mark)...)
	}
	lines := func(first, bytes int64, n int) *events.ExecutionOutput {
		d := &events.ExecutionOutput{ExecutionID: id(1), Attempt: 1, FirstLine: first, FirstByte: bytes}
		var c events.OutputContent
		for i := range n {
			c.Lines = append(c.Lines, events.Line{Text: fmt.Sprintf("%05d", int(first)+i)})
		}
		d.Content = events.Plain(c)
		return d
	}
	next(requested(1), &events.ExecutionStarted{ExecutionID: id(1), Attempt: 1, FirstLine: 1})
	next(lines(1, 0, 2))
	next(&events.HostCalled{ExecutionID: id(1), Attempt: 1, Number: 1, Server: "s", Tool: "t"}, lines(3, 12, 3000), &events.HostReturned{ExecutionID: id(1), Attempt: 1, Number: 1, Outcome: events.HostOK})
	next(&events.HostCalled{ExecutionID: id(1), Attempt: 1, Number: 2, Server: "s", Tool: "t"})
	next(lines(3003, 12+18000, 1), &events.HostReturned{ExecutionID: id(1), Attempt: 1, Number: 2, Outcome: events.HostError})
	next(ended(1, events.StatusCompleted))
	var again projections.TraceMark
	if diff := cmp.Diff(live, read(&again)); diff != "" {
		t.Errorf("the trace at the end differs from the live one:\n%s", diff)
	}
	if len(live) != 3003+4 || live[2] != "call 1" || live[3003] != "answer 1ok" || live[3004] != "call 2" || live[3006] != "answer 2error" {
		t.Errorf("the order is lost: %d steps, %v ... %v", len(live), live[:4], live[len(live)-5:])
	}
}
