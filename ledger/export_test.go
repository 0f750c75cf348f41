package ledger

import "context"

// ReadSession reads a logical or ACP session from the ledger.
func (l *Ledger) ReadSession(ctx context.Context, tenant, id string) (logicalSession, error) {
	return l.readSession(ctx, tenant, id)
}
