package cli

import (
	"errors"
	"fmt"
	"testing"

	"daybook/internal/globals"
	"daybook/internal/web/client"
)

// The pages of a list are read up to the limit, or to the end.
func TestAllGlobals(t *testing.T) {
	t.Parallel()
	for total, want := range map[int]int{0: 0, 1: 1, globals.MaxListed: globals.MaxListed, 2500: 2500, maxDiffGlobals: maxDiffGlobals, maxDiffGlobals + 1: maxDiffGlobals} {
		asked := 0
		all, err := allGlobals(func(skip int) (client.Globals, error) {
			if skip != asked {
				t.Errorf("of %d: skipped %d after %d", total, skip, asked)
			}
			var page client.Globals
			for ; asked < total && len(page.Globals) < globals.MaxListed; asked++ {
				page.Globals = append(page.Globals, globals.Global{Name: fmt.Sprintf("g%06d", asked)})
			}
			page.More = total - asked
			return page, nil
		})
		if err != nil || len(all.Globals) != want || all.More != total-want {
			t.Errorf("of %d: %d and %d more, %v", total, len(all.Globals), all.More, err)
		}
	}
	failed := errors.New("failed")
	if _, err := allGlobals(func(int) (client.Globals, error) { return client.Globals{}, failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}
