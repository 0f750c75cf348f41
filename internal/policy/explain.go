package policy

import (
	"context"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// maxSteps is the maximum number of steps of an explanation.
const maxSteps = 50

// explain decides about an input like Evaluate, and returns what decided; see Chain.Explain.
func (p *Policy) explain(ctx context.Context, input map[string]any) (Decision, []string) {
	t := &steps{rule: p.ref}
	d, isDone := p.evaluate(ctx, input, t)
	switch {
	case !isDone:
		return d, nil
	case d.Allowed:
		return d, t.succeeded.lines
	default:
		return d, t.failed.lines
	}
}

// steps is a tracer that keeps which rules were true and which expressions failed.
type steps struct {
	rule              ast.Ref
	succeeded, failed stepList
}

// stepList is a list of different lines, in the order of their first occurrence.
type stepList struct {
	lines []string
	seen  map[string]bool
}

func (l *stepList) add(at *ast.Location, what string) {
	if at == nil || at.File == "" || len(l.lines) == maxSteps {
		return
	}
	line := fmt.Sprintf("%s:%d: %s", at.File, at.Row, what)
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	if !l.seen[line] {
		l.seen[line] = true
		l.lines = append(l.lines, line)
	}
}

// Enabled implements topdown.QueryTracer.
func (*steps) Enabled() bool { return true }

// Config implements topdown.QueryTracer.
func (*steps) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// TraceEvent implements topdown.QueryTracer.
func (s *steps) TraceEvent(e topdown.Event) {
	switch node := e.Node.(type) {
	case *ast.Rule:
		if e.Op == topdown.ExitOp && !node.Default {
			s.succeeded.add(node.Location, fmt.Sprintf("rule %s is true", node.Head.Ref()))
		}
	case *ast.Expr:
		if e.Op == topdown.FailOp && node.Location != nil {
			s.failed.add(node.Location, fmt.Sprintf("not true: %.200s", node.Location.Text))
		}
	}
}
