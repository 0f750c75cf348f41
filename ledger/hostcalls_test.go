package ledger_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// countedTexts counts the texts that are read.
type countedTexts struct {
	*jetstream.Store
	read atomic.Int64
}

func (c *countedTexts) Text(ctx context.Context, tenant, hash string) ([]byte, error) {
	c.read.Add(1)
	return c.Store.Text(ctx, tenant, hash)
}

// The plan of an interrupted run holds no answers in memory: a run may have a thousand
// answers of many MiB each.
func TestAnswersAreReadOneAtATime(t *testing.T) {
	t.Parallel()
	store := &countedTexts{Store: storetest.Start(t)}
	b := &testLedger{Ledger: ledger.New(store, ledger.Options{Logger: storetest.Logger(t)}), t: t, store: store.Store}
	request := b.submit(ledger.Submission{Code: "call()"})
	run := b.start(request, false)
	answers := []string{`"short"`, `"` + strings.Repeat("long", events.InlineBytes) + `"`}
	for i, answer := range answers {
		if err := b.RecordCall(t.Context(), run, ledger.HostCall{Number: i + 1, Server: "s", Tool: "t", Arguments: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if err := b.RecordReturn(t.Context(), run, ledger.HostReturn{Number: i + 1, Outcome: events.HostOK, AnsweredAt: time.Now(), Result: []byte(answer)}); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := b.Plan(t.Context(), request, true)
	if err != nil || len(plan.Calls) != len(answers) {
		t.Fatalf("%d calls, %v", len(plan.Calls), err)
	}
	if n := store.read.Load(); n != 0 {
		t.Errorf("the plan read %d texts", n)
	}
	for i, c := range plan.Calls {
		if text, err := c.Answer.Text(t.Context()); err != nil || string(text) != answers[i] {
			t.Errorf("answer %d: %.60q, %v", c.Number, text, err)
		}
	}
	if n := store.read.Load(); n != 1 {
		t.Errorf("%d texts were read", n)
	}
}
