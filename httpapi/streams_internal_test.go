package httpapi

import (
	"net/http/httptest"
	"testing"
)

// Requests whose response stays open count for --limit-streams, and no others.
func TestIsStream(t *testing.T) {
	t.Parallel()
	const sse = "text/event-stream"
	for _, tt := range []struct {
		method, target, accept, mcpMethod string
		want                              bool
	}{
		{"GET", "/api/events", "", "", false},
		{"GET", "/api/events", sse, "", true},
		{"GET", "/api/events?follow=true", "", "", true},
		{"GET", "/api/events?follow=false", "", "", false},
		{"GET", "/api/executions/x/output", sse, "", true},
		{"GET", "/sse", "", "", true},
		{"GET", "/mcp", sse, "", true},
		{"POST", "/mcp", "application/json, " + sse, "tools/call", false},
		{"POST", "/mcp", "application/json, " + sse, "subscriptions/listen", true},
		{"GET", "/api/sessions/x/replay", "", "", true},
		{"POST", "/api/sessions/x/replay?subject=replay.default.x", "", "", true},
		{"POST", "/api/executions/x/replay", "", "", false},
		{"POST", "/api/executions/x/what-if", "", "", false},
		{"GET", "/api/executions/x?wait=60", "", "", false},
	} {
		r := httptest.NewRequest(tt.method, tt.target, nil)
		if tt.accept != "" {
			r.Header.Set("Accept", tt.accept)
		}
		if tt.mcpMethod != "" {
			r.Header.Set("Mcp-Method", tt.mcpMethod)
		}
		if got := isStream(r); got != tt.want {
			t.Errorf("%s %s, Accept %q, %s: %t", tt.method, tt.target, tt.accept, tt.mcpMethod, got)
		}
	}
}
