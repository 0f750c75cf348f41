package retention_test

import (
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// Logical sessions, as the ledger records them, keep the heap that they continue from,
// and no earlier one.
func TestStateOfSessionsStays(t *testing.T) {
	t.Parallel()
	h := open(t)
	l := ledger.New(h.store, ledger.Options{Now: func() time.Time { return h.now.Add(-2 * month) }, Logger: storetest.Logger(t)})
	logical, err := l.OpenSession(t.Context(), ledger.Opening{Tenant: tenant, Intent: "count", Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	agent, _, err := l.OpenAgentSession(t.Context(), ledger.AgentOpening{Tenant: tenant, Workspace: events.AgentWorkspace{Cwd: "/"}, Config: events.AgentConfig{Mode: events.AgentModeAsk}, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	turn := func(content string) string {
		t.Helper()
		r, err := l.Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: "1", LogicalSession: logical.SessionID, Actor: actor})
		if err != nil {
			t.Fatal(err)
		}
		return h.ended(tenant, 2*month, events.ExecutionRequested{ExecutionID: r.ExecutionID}, content)
	}
	prompt := func(session, content string) string {
		t.Helper()
		p, err := l.Prompt(t.Context(), ledger.AgentPrompt{Tenant: tenant, Session: session, Blocks: "[]", Run: &ledger.Submission{Code: "1", FileName: "prompt.ts"}, Actor: actor})
		if err != nil {
			t.Fatal(err)
		}
		return h.ended(tenant, 2*month, events.ExecutionRequested{ExecutionID: p.ExecutionID}, content)
	}
	before, head := turn("first turn"), turn("second turn")
	shared := prompt(agent, "first prompt")
	fork, _, err := l.OpenAgentSession(t.Context(), ledger.AgentOpening{Tenant: tenant, Workspace: events.AgentWorkspace{Cwd: "/"}, Config: events.AgentConfig{Mode: events.AgentModeAsk}, Parent: agent, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	own := prompt(agent, "second prompt")
	r := h.collect(rule)
	for what, c := range map[string]struct {
		heap string
		kept bool
	}{
		"the heap before the last turn": {before, false}, "the head": {head, true},
		"where a fork began": {shared, true}, "the agent's head": {own, true},
	} {
		if got := h.kept(tenant, c.heap); got != c.kept {
			t.Errorf("%s is kept: %t; %+v", what, got, r)
		}
	}
	prompt(fork, "of the fork")
	if h.collect(rule); !h.kept(tenant, own) {
		t.Error("a turn of the fork started from the head of the other session")
	}
}
