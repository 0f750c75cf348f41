package catalog_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"daybook/events"
	"daybook/internal/tools/catalog"
	"daybook/ledger"
)

// sessions counts opened sessions and adds each entry.
type sessions struct{ opened int }

func (s *sessions) OpenSession(context.Context, ledger.Opening) (ledger.OpenResult, error) {
	s.opened++
	return ledger.OpenResult{SessionID: "id", New: true, Seq: 2}, nil
}

func (s *sessions) ExpandSession(_ context.Context, t ledger.Expansion) (ledger.ExpansionResult, error) {
	list := slices.Clone(t.Entries)
	for i := range list {
		list[i].Symbol = string(rune('a' + i))
	}
	return ledger.ExpansionResult{Added: list, All: list, Seq: 3}, nil
}

// A session is opened if there are 1 to 256 seeds and each of them is known.
func TestOpen(t *testing.T) {
	t.Parallel()
	c := catalog.New(nil, catalog.Builtin{})
	const seed = "builtin.console"
	for n, ok := range map[int]bool{0: false, 1: true, catalog.MaxSeeds: true, catalog.MaxSeeds + 1: false} {
		s := &sessions{}
		o, err := catalog.Open(t.Context(), c, s, catalog.Opening{Opening: ledger.Opening{Tenant: events.DefaultTenant, Intent: "x"}, Seeds: slices.Repeat([]string{seed}, n)})
		count, refused := errors.AsType[*catalog.SeedsError](err)
		switch {
		case ok && (err != nil || s.opened != 1 || o.Recorded != 3 || !slices.Equal(o.Added(), []catalog.Symbol{{Name: "a", ID: seed}})):
			t.Errorf("%d seeds: %+v, %v", n, o, err)
		case !ok && (!refused || count.Count != n || s.opened != 0):
			t.Errorf("%d seeds: %v, opened %d", n, err, s.opened)
		}
	}
	s := &sessions{}
	_, err := catalog.Open(t.Context(), c, s, catalog.Opening{Seeds: []string{seed, "nothing.such"}})
	if unknown, ok := errors.AsType[*catalog.UnknownError](err); !ok || unknown.Seed != "nothing.such" || s.opened != 0 {
		t.Errorf("an unknown seed: %v, opened %d", err, s.opened)
	}
}
