package embed

import (
	"testing"
	"time"

	"daybook/internal/web/access"
	"daybook/ledger"
)

// Requests of ACP clients share the rate of their tenant.
func TestAgentRequestsShareTheRate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	q := access.NewQuotas(access.Limits{RequestsPerSecond: 1}, nil, func() time.Time { return now })
	for i := range 10 {
		if err := countAgentRequest(q); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if err := countAgentRequest(q); ledger.CodeOf(err) != ledger.CodeExhausted {
		t.Errorf("over the rate: %v", err)
	}
	if err := countAgentRequest(access.NewQuotas(access.Limits{}, nil, nil)); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}
