package embed

import (
	"testing"

	"daybook/events"
	"daybook/ledger"
)

// An attempt that continues a run of a server with tools gets an answer from a server without.
func TestCallWithoutToolServers(t *testing.T) {
	t.Parallel()
	for _, c := range []ledger.HostCall{{Number: 1, Server: "weather", Tool: "today", Arguments: []byte("{}")}, {Number: 1, Server: events.FetchServer, Tool: events.FetchTool}} {
		if got := (callables{}).Call(t.Context(), ledger.Request{Tenant: events.DefaultTenant}, c); got.Outcome != events.HostError || len(got.Text) == 0 {
			t.Errorf("%s: %+v", c.Server, got)
		}
	}
}
