package worker_test

import (
	"context"
	"testing"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// answer runs code without output.
func answer(t *testing.T, p *worker.Pool, code string) runner.Outcome {
	t.Helper()
	o, err := p.Run(t.Context(), patient(code), func(context.Context, []events.Line) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A pool with an addition to the prelude is another engine, whose workers run the addition.
func TestPreludeIsAnotherEngine(t *testing.T) {
	t.Parallel()
	ctx := worker.WithPrelude(t.Context(), "globalThis.added = 41;")
	plain, other := worker.New(worker.Options{}), worker.New(worker.Options{Prelude: worker.PreludeOf(ctx)})
	t.Cleanup(func() {
		plain.Close()
		other.Close()
	})
	a, err := plain.Engine(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	b, err := other.Engine(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	if a.ID == b.ID || a.PreludeSHA256 == b.PreludeSHA256 {
		t.Errorf("both engines are %s", a.ID)
	}
	for range 2 { // the second worker receives its base heap
		o := answer(t, other, "added + 1")
		if o.Result == nil || *o.Result != "42" {
			t.Errorf("the other engine answers %v, %s", o.Result, o.Error)
		}
	}
	if o := answer(t, plain, "typeof added"); o.Result == nil || *o.Result != "undefined" {
		t.Errorf("the plain engine answers %v, %s", o.Result, o.Error)
	}
}
