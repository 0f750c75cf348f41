package embed

import (
	"context"
	"fmt"
	"testing"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// A submission that is held back for too long is refused before its context ends, records
// nothing, and is accepted when it is repeated.
func TestHeldBackSubmission(t *testing.T) {
	t.Parallel()
	d, err := Start(t.Context(), Options{DataDir: t.TempDir(), HTTP: HTTPOptions{Addr: "127.0.0.1:0"}, NATS: NATSOptions{Addr: "127.0.0.1:0", NoSync: true}, Runs: RunOptions{Elsewhere: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	for try := 1; ; try++ {
		problem, late := heldBack(t, d, fmt.Sprint("once-", try))
		switch {
		case problem == "":
			return
		case !late || try == 10: // a debt shrinks with time, so a busy machine needs another try
			t.Fatal(problem)
		}
	}
}

// heldBack submits for a tenant with a debt, and returns the problem with the answers. late
// reports whether they took so long that the debt had shrunk.
func heldBack(t *testing.T, d *Daybook, key string) (problem string, late bool) {
	t.Helper()
	before := d.gate.Changes.Held()["share"]
	// The tenant has a debt for a large change, and another tenant makes changes.
	s := ledger.Submission{Tenant: events.DefaultTenant, Code: "1", IdempotencyKey: key}
	asked, err := d.ledger.Submit(t.Context(), ledger.Submission{Tenant: "other", Code: "1"})
	if err != nil {
		t.Fatal(err)
	}
	owes := time.Now()
	d.gate.Changes.Count(d.projections, events.DefaultTenant, 2<<20)(asked.Seq)
	ctx, stop := context.WithTimeout(t.Context(), 530*time.Millisecond)
	defer stop()
	_, refused := d.ledger.Submit(ctx, s)
	inTime := ctx.Err() == nil
	_, unknown := d.ledger.Requested(t.Context(), s.Tenant, events.DerivedID(s.Tenant, s.IdempotencyKey))
	late = time.Since(owes) > 200*time.Millisecond
	r, err := d.ledger.Submit(t.Context(), s)
	n := d.gate.Changes.Held()["share"]
	n.Waited, n.Refused = n.Waited-before.Waited, n.Refused-before.Refused
	switch {
	case ledger.CodeOf(refused) != ledger.CodeExhausted || !inTime:
		return fmt.Sprintf("a submission beyond the share: %v", refused), late
	case unknown == nil:
		return "it is recorded", late
	case err != nil || r.Repeated:
		return fmt.Sprintf("the submission again: %+v, %v", r, err), late
	case n.Waited != 2 || n.Refused != 1:
		return fmt.Sprintf("held back: %+v", n), late
	}
	return "", late
}
