package web_test

import (
	"testing"

	"daybook/internal/web"
)

func TestWholeNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"5": 5, "5.0": 5, "5e0": 5, "-0.5e1": -5, "9007199254740992": 1 << 53, "1e3": 1000, "0.0": 0, "-0": 0, "500e-2": 5, "0.005e3": 5, "0e-9": 0, "-9007199254740992": -(1 << 53)} {
		if got, ok := web.WholeNumber(text); !ok || got != want {
			t.Errorf("%s is %d, %t, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"5.5", "1e-1", "9007199254740993", "1e300", "99999999999999999999", "", "x", "1e-400", "5.0000000000000000000001", "5.000e-4", "1e9999999999999999999", "-", ".5"} {
		if got, ok := web.WholeNumber(text); ok {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}
