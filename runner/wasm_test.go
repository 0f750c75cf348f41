package runner_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/ledger"
	"daybook/runner"
)

// A run that was handed back continues with the globals of its first start, on a runner with
// other WebAssembly modules and without the globals of Node.
func TestHandedBackRunsKeepTheirModules(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, jetstream.Options{AckWait: time.Hour}, ledger.Options{Stateless: true})
	module := func(name, code string) runner.WASMModule {
		return runner.WASMModule{Name: name, SHA256: events.Hash([]byte(code)), Bytes: []byte(code), HasImports: name == "b"}
	}
	given := []runner.WASMModule{module("a", "\x00asm a"), module("b", "\x00asm b")}
	began := make(chan runner.Task, 1)
	opts := b.options(hangs(began))
	opts.DrainTimeout, opts.WASMModules, opts.NodeGlobals = -1, given, true
	_, drain := b.startRunner(opts)
	id := b.submit()
	if task := receive(t, "the first start", began); !cmp.Equal(task.WASMModules, given) || !task.NodeGlobals {
		t.Errorf("the first runner gives %v", task.WASMModules)
	}
	b.waitFor(id, isType(events.TypeExecutionStarted))
	drain()

	second := make(chan runner.Task, 2)
	opts = b.options(workers{func(_ context.Context, task runner.Task, _ sink) (runner.Outcome, error) {
		second <- task
		return completed("1"), nil
	}})
	opts.WASMModules = []runner.WASMModule{given[0], module("c", "\x00asm c")}
	b.startRunner(opts)
	if task := receive(t, "the second start", second); !cmp.Equal(task.WASMModules, given) || !task.NodeGlobals {
		t.Errorf("the second runner gives %v", task.WASMModules)
	}
	b.waitForEnd(id)
	next := b.submit()
	if task := receive(t, "the next run", second); !cmp.Equal(task.WASMModules, opts.WASMModules) || task.NodeGlobals {
		t.Errorf("the next run gets %v", task.WASMModules)
	}
	b.waitForEnd(next)
}

// A run whose recorded module is lost fails, and says which.
func TestLostModule(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, jetstream.Options{AckWait: time.Hour}, ledger.Options{Stateless: true})
	began := make(chan runner.Task, 1)
	opts := b.options(hangs(began))
	code := []byte("\x00asm")
	opts.DrainTimeout, opts.WASMModules = -1, []runner.WASMModule{{Name: "math", SHA256: events.Hash(code), Bytes: code}}
	_, drain := b.startRunner(opts)
	id := b.submit()
	receive(t, "the first start", began)
	b.waitFor(id, isType(events.TypeExecutionStarted))
	drain()
	opts = b.options(completes())
	texts := &lostTexts{Store: b.store, err: events.ErrNotFound}
	texts.left.Store(1)
	opts.Texts = texts
	b.startRunner(opts)
	status, end := b.waitForEnd(id)
	if want := "The WebAssembly module math of this run, text " + events.Hash(code) + ", is not in the blob store."; status != events.StatusFailed || end.Reason != runner.ReasonSourceMissing || end.Content.Value().Error.Text != want {
		t.Errorf("%s %s: %s", status, end.Reason, end.Content.Value().Error.Text)
	}
}
