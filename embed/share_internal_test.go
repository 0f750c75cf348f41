package embed

import (
	"context"
	"testing"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// A submission that is held back for too long is refused before its time is up, leaves
// nothing, and is accepted when it is repeated.
func TestHeldBackSubmission(t *testing.T) {
	t.Parallel()
	d, err := Start(t.Context(), Options{DataDir: t.TempDir(), HTTPAddr: "127.0.0.1:0", NATSAddr: "127.0.0.1:0", NoRunner: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	// The tenant owes for a large change, and another one asks.
	g, s := gate{d.ledger, d}, ledger.Submission{Tenant: events.DefaultTenant, Code: "1", IdempotencyKey: "once"}
	asked, err := g.Submit(t.Context(), ledger.Submission{Tenant: "other", Code: "1"})
	if err != nil {
		t.Fatal(err)
	}
	d.changes.Count(d.projections, events.DefaultTenant, 2<<20)(asked.Seq)
	ctx, stop := context.WithTimeout(t.Context(), 530*time.Millisecond)
	defer stop()
	if _, err := g.Submit(ctx, s); ledger.CodeOf(err) != ledger.CodeExhausted || ctx.Err() != nil {
		t.Errorf("a submission beyond the share: %v", err)
	}
	if g.repeats(t.Context(), s) {
		t.Error("it is recorded")
	}
	if r, err := g.Submit(t.Context(), s); err != nil || r.Repeated {
		t.Errorf("the submission again: %+v, %v", r, err)
	}
	if n := d.changes.Held()["share"]; n.Waited != 2 || n.Refused != 1 {
		t.Errorf("held back: %+v", n)
	}
}
