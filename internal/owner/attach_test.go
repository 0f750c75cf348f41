package owner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"daybook/internal/owner"
)

// A client whose owners end before it has attached starts five of them and gives up. The
// error is that of the last start, or says how often the owner ended.
func TestClientGivesUpAfterFiveOwners(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		start error
		want  string
	}{
		"exits":                {fmt.Errorf("it exited without a report (%w)", owner.ErrNotServing), "it exited without a report"},
		"ends after it serves": {nil, "ended right after its start, 5 times in a row"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			starts := 0
			err := owner.Client{DataDir: t.TempDir(), Protocol: owner.ProtocolMCP, MaxLine: 1 << 20, StartOwner: func(context.Context) error {
				starts++
				return test.start
			}}.Attach(t.Context(), strings.NewReader(""), io.Discard)
			if starts != 5 || err == nil || !strings.Contains(err.Error(), test.want) || test.start != nil && !errors.Is(err, owner.ErrNotServing) {
				t.Errorf("after %d starts: %v", starts, err)
			}
		})
	}
}
