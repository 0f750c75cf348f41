package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// A request for a part that the server does not have is answered without Retry-After: the same
// request never succeeds. Its message is about that part.
func TestAbsentParts(t *testing.T) {
	t.Parallel()
	s := start(t)
	none := strings.Repeat("0", 64)
	for request, about := range map[string]string{
		"GET /api/ledger/scrub":                            "scrub",
		"GET /api/ledger/volumes":                          "ledger",
		"POST /api/ledger/volumes/seal":                    "ledger",
		"POST /api/ledger/volumes/1/remove":                "ledger",
		"GET /api/ledger/checkpoint":                       "proofs",
		"GET /api/ledger/signers":                          "proofs",
		"POST /api/ledger/signers":                         "proofs",
		"POST /api/ledger/key/rotate":                      "proofs",
		"GET /api/ledger/tile/0/000":                       "proofs",
		"GET /api/ledger/blobs/heaps/" + none:              "serve blobs",
		"GET /api/webhooks":                                "webhooks",
		"GET /api/context?session=s":                       "contexts",
		"POST /api/heaps/collect":                          "delete heaps",
		"DELETE /api/sessions/s/content":                   "shred",
		"GET /api/heaps/" + none + "/globals":              "runs no scripts",
		"POST /api/sessions/s/replay?subject=replay.x.y.z": "replays",
	} {
		method, path, _ := strings.Cut(request, " ")
		a := s.do(method, path, "{}")
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "" || !strings.Contains(string(a.body), about) {
			t.Errorf("%s: %s with Retry-After %q: %s", request, a.Status, a.Header.Get("Retry-After"), a.body)
		}
	}
}
