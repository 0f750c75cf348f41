package retention

import (
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
)

// forEachHash finds the same hashes as a plain implementation.
func FuzzForEachHash(f *testing.F) {
	h := strings.Repeat("0a", 32)
	for _, seed := range []string{"", h, `{"sha256":"` + h + `"}`, h + "0", "x" + h + h, h + " " + h, strings.ToUpper(h)} {
		f.Add([]byte(seed))
	}
	runs := regexp.MustCompile(`[0-9a-f]+`)
	f.Fuzz(func(t *testing.T, payload []byte) {
		var want, got []string
		for _, run := range runs.FindAllString(string(payload), -1) {
			if len(run) == 64 {
				want = append(want, run)
			}
		}
		forEachHash(payload, func(h [32]byte) { got = append(got, hex.EncodeToString(h[:])) })
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q: found %v, want %v", payload, got, want)
		}
	})
}
