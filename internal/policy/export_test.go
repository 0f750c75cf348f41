package policy

import "context"

// Read is read.
var Read = read

// Explain is explain.
func (p *Policy) Explain(ctx context.Context, input map[string]any) (Decision, []string) {
	return p.explain(ctx, input)
}
