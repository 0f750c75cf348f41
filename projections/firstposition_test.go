package projections_test

import (
	"context"
	"testing"

	"daybook/events"
	"daybook/projections"
)

// No event of an execution or a session comes before its first position, also if events were lost.
func TestFirstPosition(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose  func(d events.Data) bool
		other bool // only another tenant lost events
	}{
		"intact":                {},
		"lost request":          {lose: func(d events.Data) bool { r, ok := d.(*events.ExecutionRequested); return ok && r.ExecutionID == id(1) }},
		"lost opening":          {lose: func(d events.Data) bool { _, ok := d.(*events.SessionOpened); return ok }},
		"lost creation":         {lose: func(d events.Data) bool { _, ok := d.(*events.AgentSessionCreated); return ok }},
		"loss in other tenants": {lose: func(d events.Data) bool { r, ok := d.(*events.ExecutionRequested); return ok && r.ExecutionID == id(1) }, other: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := open(t, projections.Options{}), newMemoryLedger()
			b.addFor("third", requested(1), started(1, 1, fresh, ""))
			add := func(who string, data ...events.Data) {
				for _, d := range data {
					if tt.lose == nil || tt.other == (who == tenant) || !tt.lose(d) {
						b.addFor(who, d)
					}
				}
			}
			for _, who := range []string{"another", tenant} {
				acp := opened(2, "")
				acp.Kind = events.SessionACP
				add(who,
					requested(1, inSession("s")), entryFor(who, 1, "s", 0), requested(2, inSession("s")), entryFor(who, 2, "s", 1),
					opened(1, ""), turnQueued(1, 1, 3), requested(3, inTurn(1, 1)),
					acp, &events.AgentSessionCreated{SessionID: sessionID(2), Content: events.Plain(events.AgentWorkspace{Cwd: "/"}), Actor: client},
					turnQueued(2, 1, 4), &events.AgentPrompted{SessionID: sessionID(2), PromptID: id(5), ExecutionID: id(4), Actor: client, Content: events.Plain(events.PromptContent{})}, requested(4, inTurn(2, 1)),
				)
			}
			apply(t, s, b)
			for _, sel := range []events.Selection{{Execution: id(1)}, {Execution: id(2)}, {Session: "s"}, {Session: sessionID(1)}, {Session: sessionID(2)}, {Session: "s", Execution: id(2)}} {
				sel.Tenant = tenant
				first, err := s.FirstPosition(t.Context(), tenant, sel.Execution, sel.Session)
				if err != nil {
					t.Fatal(err)
				}
				selector := events.Selector{Selection: sel, SessionOf: func(ctx context.Context, _ uint64, run string) ([]string, error) {
					return s.SessionsOfExecution(ctx, tenant, run)
				}}
				var selected uint64
				for _, e := range b.all() {
					if wanted, err := selector.Wants(t.Context(), e); err != nil {
						t.Fatal(err)
					} else if wanted {
						selected = e.Seq
						break
					}
				}
				if isExact := tt.lose == nil || tt.other; selected == 0 || first > selected || isExact && first != selected {
					t.Errorf("%+v: the first position is %d, the first selected event is at %d", sel, first, selected)
				}
			}
			for _, sel := range []events.Selection{{Execution: id(9)}, {Session: "unknown"}} {
				if first, err := s.FirstPosition(t.Context(), tenant, sel.Execution, sel.Session); first != 0 || err != nil {
					t.Errorf("%+v is not known, its first position is %d, %v", sel, first, err)
				}
			}
		})
	}
}

func entryFor(tenant string, n int, session string, index int64) *events.SessionEntryRecorded {
	d := entry(n, session, index, events.StatusCompleted, "", "")
	d.SessionID = events.SessionID(tenant, session)
	return d
}
