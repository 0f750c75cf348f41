package tier_test

import (
	"testing"

	"daybook/internal/dev/tier"
)

func TestTiers(t *testing.T) {
	for _, test := range []struct {
		value   string
		nightly bool
		chosen  int
	}{
		{"", false, 1},
		{"nightly", true, 2},
	} {
		t.Setenv(tier.Variable, test.value)
		if got := tier.Nightly(); got != test.nightly {
			t.Errorf("%q: nightly %t", test.value, got)
		}
		if got := tier.Choose(1, 2); got != test.chosen {
			t.Errorf("%q: chose %d, want %d", test.value, got, test.chosen)
		}
		failed := !t.Run("only "+test.value, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Skipped() == test.nightly {
					t.Errorf("%q: skipped %t", test.value, t.Skipped())
				}
			})
			tier.NightlyOnly(t, "this one")
		})
		if failed {
			t.Errorf("%q: the test failed", test.value)
		}
	}
}

func TestUnknownTier(t *testing.T) {
	t.Setenv(tier.Variable, "nightyl")
	defer func() {
		if recover() == nil {
			t.Error("an unknown tier passes as the normal one")
		}
	}()
	tier.Nightly()
}
