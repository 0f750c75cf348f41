package httpapi_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/audit"
	"daybook/internal/web/access"
)

// A caller with a token sees only the events of its tenant: an export of them can be
// verified, and bundles with events of other tenants are refused.
func TestProofsOfOneTenant(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s, log := audited(t, k.option)
	s.request("acme", 5)
	s.request("other", 5)
	last := s.request("acme", 246)
	heap, err := s.store.PutHeap(t.Context(), "other", []byte("a heap of others"), "engine")
	if err != nil {
		t.Fatal(err)
	}
	token := bearer(k.token("acme", "auditor", access.Read))
	remote := audit.NewRemote(s.auditGet(http.MethodGet, token...), s.auditGet(http.MethodPost, token...))
	s.sign(bearer(k.token("acme", "signer", access.Sign))...) // the auditor may only read
	if _, err := remote.Signed(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "x")
	done, err := audit.Export(t.Context(), remote, audit.ExportOptions{Dir: dir})
	if err != nil || done.Complete || done.Selection.Tenant != "acme" {
		t.Fatalf("%+v, %v; want a part", done, err)
	}
	r, err := audit.VerifyExport(t.Context(), dir, audit.VerifyOptions{Keys: []string{log.VKey()}})
	if err != nil || !r.OK || r.Executions != 251 {
		t.Errorf("%v\n%s", err, r)
	}
	for name, content := range filesOf(t, dir) {
		if strings.Contains(content, `"tenant":"other"`) || strings.Contains(content, ".other.") {
			t.Errorf("%s shows events of another tenant", name)
		}
	}
	if r, err := audit.VerifyServer(t.Context(), remote, audit.VerifyOptions{Tenant: "acme", Keys: []string{log.VKey()}}); err != nil || !r.OK || r.Complete {
		t.Errorf("the server: %v\n%s", err, r)
	}
	for path, status := range map[string]int{
		"tile/0/000":           http.StatusOK, // hashes reveal no content
		"tile/entries/000.p/5": http.StatusOK,
		"tile/entries/000":     http.StatusForbidden,
		"proof?seq=7":          http.StatusOK,
		"blobs/heaps/" + heap:  http.StatusNotFound,
	} {
		if a := s.do("GET", "/api/ledger/"+path, "", token...); a.StatusCode != status {
			t.Errorf("%s: %s, want %d: %s", path, a.Status, status, a.body)
		}
		if a := s.do("GET", "/api/ledger/"+path, ""); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a token: %s", path, a.Status)
		}
	}
}

// filesOf reads the files of an export.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, name := range []string{"manifest.json", "checkpoint", "events.ndjson", "proofs.ndjson"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(raw)
	}
	return got
}
