package admission

import (
	"testing"

	"daybook/internal/web/access"
	"daybook/ledger"
)

// While the server drains, it takes runs of clients that ask the next owner for the answer.
func TestAdmitWhileDraining(t *testing.T) {
	t.Parallel()
	g := &Gate{Quotas: access.NewQuotas(access.Limits{}, nil, nil), DiskLow: func() error { return nil }, IsDraining: func() bool { return true }}
	if _, err := g.Admit(t.Context(), &ledger.Submission{}); ledger.CodeOf(err) != ledger.CodeUnavailable {
		t.Errorf("a run while draining: %v", err)
	}
	done, err := g.Admit(WithNextOwner(t.Context()), &ledger.Submission{})
	if err != nil {
		t.Fatalf("a run of a linked client: %v", err)
	}
	done(1)
}
