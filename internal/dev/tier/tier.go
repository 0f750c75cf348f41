// Package tier selects how much a test run covers. Long tests run in the nightly tier
// only, or do more there: "make nightly" selects it.
package tier

import (
	"fmt"
	"os"
	"testing"
)

// variable is the environment variable that selects the tier: "" is the normal tier,
// "nightly" the full one.
const variable = "DAYBOOK_TEST_TIER"

const nightly = "nightly"

// Nightly reports whether the nightly tier runs. It panics on an unknown tier,
// so that a misspelled one does not pass as the normal tier.
func Nightly() bool {
	switch v := os.Getenv(variable); v {
	case "":
		return false
	case nightly:
		return true
	default:
		panic(fmt.Sprintf("%s is %q: leave it empty or set it to %s", variable, v, nightly))
	}
}

// NightlyOnly skips the test in the normal tier. covered names the tests that cover the
// behavior in the normal tier, or gives the reason why none is needed.
func NightlyOnly(t testing.TB, covered string) {
	t.Helper()
	if !Nightly() {
		t.Skipf("runs in the nightly tier (%s=%s); the normal tier: %s", variable, nightly, covered)
	}
}

// Choose returns the first value in the normal tier and the second in the nightly
// tier: a number of repetitions, a size, a duration.
func Choose[T any](normal, inNightly T) T {
	if Nightly() {
		return inNightly
	}
	return normal
}
