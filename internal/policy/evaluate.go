package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// resultVar is the variable of the query that holds the value of the rule.
const resultVar = "decision"

// Policy is a compiled policy. It is safe for concurrent use.
type Policy struct {
	rule     string
	ref      ast.Ref
	hash     string
	compiler *ast.Compiler
	query    ast.Body
	store    storage.Store // empty: policies have no data beside their rules
	timeout  time.Duration
	running  chan struct{} // limits the evaluations that run at a time
}

// Decision is the decision about one input.
type Decision struct {
	Allowed bool
	// Problem is set if the rule had no boolean value, and says why. The input is denied, unless
	// another policy allows it.
	Problem string
	// Policy is the hash of the policy that decided, see HashFiles, and Rule its rule.
	Policy, Rule string
}

// Evaluate decides about an input, which is a value of encoding/json. It always returns a
// decision within the time limit, or when ctx is done: what fails is denied.
func (p *Policy) Evaluate(ctx context.Context, input map[string]any) Decision {
	d, _ := p.evaluate(ctx, input, nil)
	return d
}

var errTooSlow = errors.New("too slow")

// evaluate evaluates the rule, and traces that to tracer if it is not nil. It reports
// whether the tracer is no longer in use.
func (p *Policy) evaluate(ctx context.Context, input map[string]any, tracer topdown.QueryTracer) (d Decision, isDone bool) {
	defer func() { d.Policy, d.Rule = p.hash, p.rule }()
	ctx, stop := context.WithTimeoutCause(ctx, p.timeout, errTooSlow)
	defer stop()
	select {
	case p.running <- struct{}{}:
	case <-ctx.Done():
		return p.interrupted(ctx), true
	}
	// A built-in function may work on for some time after it is cancelled.
	result := make(chan Decision, 1)
	go func() {
		defer func() { <-p.running }()
		defer func() {
			if r := recover(); r != nil {
				result <- Decision{Problem: fmt.Sprintf("the evaluation failed: %v", r)}
			}
		}()
		result <- p.run(ctx, input, tracer)
	}()
	select {
	case d := <-result:
		return d, true
	case <-ctx.Done():
		return p.interrupted(ctx), false
	}
}

func (p *Policy) interrupted(ctx context.Context) Decision {
	if errors.Is(context.Cause(ctx), errTooSlow) {
		return Decision{Problem: fmt.Sprintf("the evaluation took longer than %s", p.timeout)}
	}
	return Decision{Problem: "the run ended first"}
}

func (p *Policy) run(ctx context.Context, input map[string]any, tracer topdown.QueryTracer) Decision {
	value, err := ast.InterfaceToValue(input)
	if err != nil {
		return Decision{Problem: fmt.Sprintf("the input is malformed: %v", err)}
	}
	cancel := topdown.NewCancel()
	defer context.AfterFunc(ctx, cancel.Cancel)()
	txn, err := p.store.NewTransaction(ctx)
	if err != nil {
		return Decision{Problem: fmt.Sprintf("the evaluation failed: %v", err)}
	}
	defer p.store.Abort(ctx, txn)
	q := topdown.NewQuery(p.query).WithCompiler(p.compiler).WithStore(p.store).WithTransaction(txn).
		WithInput(ast.NewTerm(value)).WithCancel(cancel).
		// An error in a function would otherwise make a condition undefined: "not blocked" would allow.
		WithStrictBuiltinErrors(true)
	if tracer != nil {
		q = q.WithQueryTracer(tracer).WithIndexing(false) // the index leaves out rules without a trace
	}
	var got []*ast.Term
	err = q.Iter(ctx, func(r topdown.QueryResult) error {
		got = append(got, r[ast.Var(resultVar)])
		return nil
	})
	switch {
	case topdown.IsCancel(err) || ctx.Err() != nil:
		return p.interrupted(ctx)
	case err != nil:
		return Decision{Problem: fmt.Sprintf("the evaluation failed: %v", err)}
	case len(got) == 0:
		return Decision{Problem: fmt.Sprintf("%s is undefined for this input", p.rule)}
	case len(got) > 1 || got[0] == nil:
		return Decision{Problem: fmt.Sprintf("%s has several values", p.rule)}
	}
	allowed, ok := got[0].Value.(ast.Boolean)
	if !ok {
		return Decision{Problem: fmt.Sprintf("%s is of type %s and not a boolean", p.rule, ast.ValueName(got[0].Value))}
	}
	return Decision{Allowed: bool(allowed)}
}
