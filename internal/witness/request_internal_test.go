package witness

import (
	"strings"
	"testing"

	"daybook/proof"
)

// FuzzParseRequest checks that a request that is parsed and written again is the same.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte("old 7\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n\nexample.com/log\n9\n"))
	f.Add([]byte("old 0\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseRequest(body)
		if err != nil {
			return
		}
		again := "old " + strings.TrimPrefix(strings.SplitN(string(body), "\n", 2)[0], "old ") + "\n"
		for _, h := range r.Proof {
			again += proof.EncodeHash(h) + "\n"
		}
		if again += "\n" + string(r.Checkpoint); again != string(body) || len(r.Proof) > maxProofLines {
			t.Errorf("%q is read as %+v", body, r)
		}
	})
}
