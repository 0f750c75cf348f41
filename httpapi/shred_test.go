package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/lifecycle/retention"
	"daybook/ledger"
)

// shredder returns the result that the test sets.
type shredder func(tenant, session string, force bool, actor events.Actor) (retention.ShredResult, error)

func (s shredder) Shred(_ context.Context, tenant string, t retention.Target, force bool, actor events.Actor) (retention.ShredResult, error) {
	return s(tenant, t.Name, force, actor)
}

func TestShredSession(t *testing.T) {
	t.Parallel()
	const name = "notes/of mine"
	erased := retention.ShredResult{Seq: 7, Last: 9, At: "2026-11-21T10:00:00.000Z", Executions: 2, Heaps: 1, Kept: 3}
	for _, c := range []struct {
		name, query string
		done        retention.ShredResult
		err         error
		status      int
		want        []string
	}{
		{"shredded", "", erased, nil, http.StatusOK, []string{`"seq":7`, `"executions":2`, `"heaps":1`, `"kept":3`, erased.At}},
		{"with force", "?force=true", erased, nil, http.StatusOK, []string{`"seq":7`}},
		{"malformed force", "?force=perhaps", erased, nil, http.StatusUnprocessableEntity, []string{"force"}},
		{"refused", "", retention.ShredResult{}, &retention.RefusedError{Message: "runs are in progress"}, http.StatusConflict, []string{"runs are in progress", `"code":"conflict"`}},
		{"unknown", "", retention.ShredResult{}, fmt.Errorf("session: %w", events.ErrNotFound), http.StatusNotFound, []string{`"code":"not_found"`}},
		{"failed", "", retention.ShredResult{}, errors.New("disk on fire"), http.StatusInternalServerError, []string{`"code":"internal"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(o *httpapi.Options) {
				o.Shredder = shredder(func(tenant, session string, force bool, actor events.Actor) (retention.ShredResult, error) {
					if tenant != events.DefaultTenant || session != name || force != (c.query == "?force=true") || actor.Transport == "" {
						t.Errorf("tenant %q, session %q, force %t, actor %+v", tenant, session, force, actor)
					}
					return c.done, c.err
				})
			})
			a := s.do(http.MethodDelete, "/api/sessions/"+url.PathEscape(name)+"/content"+c.query, "")
			if a.StatusCode != c.status {
				t.Errorf("%d %s, want %d", a.StatusCode, a.body, c.status)
			}
			for _, want := range c.want {
				if !strings.Contains(string(a.body), want) {
					t.Errorf("%s does not say %s", a.body, want)
				}
			}
			if c.status == http.StatusOK && a.Header.Get("Daybook-Sequence") != "9" {
				t.Errorf("sequence %q", a.Header.Get("Daybook-Sequence"))
			}
			if strings.Contains(string(a.body), "disk on fire") {
				t.Errorf("the response reveals the internal error: %s", a.body)
			}
		})
	}
	start(t).do(http.MethodDelete, "/api/sessions/x/content", "").into(t, http.StatusServiceUnavailable, nil)
	none := start(t, func(o *httpapi.Options) {
		o.Shredder = shredder(func(string, string, bool, events.Actor) (retention.ShredResult, error) {
			return retention.ShredResult{}, fmt.Errorf("the content without a session: %w", events.ErrNotFound)
		})
	}).do(http.MethodDelete, "/api/content", "")
	if none.StatusCode != http.StatusNotFound || !strings.Contains(string(none.body), "no content without a session is recorded") {
		t.Errorf("without content outside of sessions: %d %s", none.StatusCode, none.body)
	}
}

// targets records the target of each shredding.
type targets struct{ list []retention.Target }

func (s *targets) Shred(_ context.Context, _ string, t retention.Target, _ bool, _ events.Actor) (retention.ShredResult, error) {
	s.list = append(s.list, t)
	return retention.ShredResult{}, nil
}

// A person deletes an ACP session first, and then wants its content to be shredded: the complete id
// still names it. It names no session of another tenant.
func TestShredDeletedSession(t *testing.T) {
	t.Parallel()
	var shredded targets
	s := start(t, func(o *httpapi.Options) { o.Shredder = &shredded })
	opened := func(tenant string) (id string) {
		t.Helper()
		id, _, err := s.ledger.OpenAgentSession(t.Context(), ledger.AgentOpening{Tenant: tenant, Workspace: events.AgentWorkspace{Cwd: "/"}, Config: events.AgentConfig{Mode: events.AgentModeAsk}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.ledger.DeleteAgentSession(t.Context(), tenant, id, events.Actor{}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	own, others := opened(events.DefaultTenant), opened("acme")
	s.catchUp()
	want := []retention.Target{{Kind: events.SessionACP, SessionID: own}, retention.Named(own[:12]), retention.Named(others)}
	for _, name := range []string{own, own[:12], others} {
		s.do(http.MethodDelete, "/api/sessions/"+name+"/content", "").into(t, http.StatusOK, nil)
	}
	if !slices.Equal(shredded.list, want) {
		t.Errorf("shredded %v, want %v", shredded.list, want)
	}
}
