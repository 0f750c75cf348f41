package embed

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"daybook/internal/web/access"
)

// usage returns the usage of a tenant, or the error of reading it.
type usage struct {
	access.Meter
	use access.Usage
	err error
}

func (u usage) TenantUsage(context.Context, string) (access.Usage, error) { return u.use, u.err }

func (u usage) HasContext(context.Context, string, string) (bool, error) { return false, nil }

// Clients are refused a context only because of the limit, and not because of a failed read.
func TestKeepContext(t *testing.T) {
	t.Parallel()
	for name, u := range map[string]usage{
		"below":      {use: access.Usage{Contexts: 1}},
		"full":       {use: access.Usage{Contexts: 2}},
		"unreadable": {err: errors.New("the database is closed")},
	} {
		d := &Daybook{quotas: access.NewQuotas(access.Limits{Sessions: 2}, u, nil)}
		d.opts.Logger = slog.New(slog.DiscardHandler)
		err := d.keepContext(t.Context(), "acme", "key")
		if _, limited := errors.AsType[*access.LimitError](err); limited != (name == "full") || err != nil && !limited {
			t.Errorf("%s: %v", name, err)
		}
	}
}
