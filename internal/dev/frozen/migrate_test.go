package frozen_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"

	"daybook/events"
)

// TestSessionHeads starts runners of this version's engine on the directory, whose heaps an
// earlier engine made. Each session continues from its head, which its run migrates.
func TestSessionHeads(t *testing.T) {
	t.Parallel()
	dir := unpack(t)
	opts := dir.quietOptions()
	opts.Runs.Elsewhere, opts.Slots.Total, opts.Slots.Extra, opts.Workers.Sandbox = false, 2, -1, "best-effort"
	book := start(t, opts)
	continued := map[string]int{}
	for _, of := range []tenant{operator, acme} {
		var list struct {
			Items []struct {
				SessionID string `json:"session_id"`
				Kind      string
				Head      *string
			}
		}
		dir.tokens.must(t, book, of, http.MethodGet, "/api/sessions?kind=all&limit=1000", "", &list)
		for _, s := range list.Items {
			if s.Head == nil {
				continue
			}
			run := map[string]any{"code": "1 + 1", "heap": *s.Head}
			if s.Kind == string(events.SessionLogical) {
				run = map[string]any{"code": "1 + 1", "logical_session": s.SessionID}
			}
			body, err := json.Marshal(run)
			if err != nil {
				t.Fatal(err)
			}
			a := dir.tokens.ask(t, book, of, http.MethodPost, "/api/exec?wait=60", string(body))
			var e struct {
				Status       events.Status
				ExecutionID  string  `json:"execution_id"`
				MigratedFrom *string `json:"migrated_from"`
			}
			if err := json.Unmarshal(a.body, &e); err != nil || a.status != http.StatusOK || e.Status != events.StatusCompleted {
				t.Errorf("%s session %s of %s: %d %s", s.Kind, s.SessionID, of, a.status, a.body)
				continue
			}
			dir.tokens.must(t, book, of, http.MethodGet, "/api/executions/"+e.ExecutionID, "", &e)
			if e.MigratedFrom == nil || *e.MigratedFrom != *s.Head {
				t.Errorf("%s session %s of %s continues from %v", s.Kind, s.SessionID, of, e.MigratedFrom)
			}
			continued[s.Kind]++
		}
	}
	if kinds := slices.Sorted(maps.Keys(continued)); !slices.Equal(kinds, []string{"acp", "logical", "named"}) {
		t.Errorf("continued sessions: %v", continued)
	}
}
