package embed_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"daybook/audit"
	"daybook/embed"
	"daybook/internal/web/access"
)

// get returns a function that reads from the server with a token.
func (g *guarded) get(token string) audit.Get {
	return func(ctx context.Context, path string, header ...string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.book.URL()+path, http.NoBody)
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err == nil && resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			return nil, fmt.Errorf("GET %s: %d", path, resp.StatusCode)
		}
		return resp, err
	}
}

// restart starts the server on a data directory again, with the same tokens.
func (g *guarded) restart(opts embed.Options) {
	g.t.Helper()
	opts.Access.TokenFile, opts.HTTP.Addr = g.file, "127.0.0.1:0"
	g.book = start(g.t, opts)
}

// runFor runs a script of a tenant, waits for its end and returns its heap.
func (g *guarded) runFor(token, code string) (heap string) {
	g.t.Helper()
	var run struct {
		ID     string `json:"execution_id"`
		Status string `json:"status"`
		Heap   string `json:"heap"`
	}
	g.decode(token, http.MethodPost, "/api/exec", `{"code":`+strconv.Quote(code)+`}`, &run)
	g.decode(token, http.MethodGet, "/api/executions/"+run.ID+"?wait=60", "", &run)
	if run.Status != "completed" {
		g.t.Fatalf("the run is %s", run.Status)
	}
	return run.Heap
}

// The part of a tenant verifies after a volume was removed, on the server and as an export with
// its heaps. The kept events are a text of the ledger, which no tenant can read.
func TestATenantsPartVerifiesAfterARemoval(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	g := startGuarded(t, opts)
	acme, other := g.token("acme", "ada", access.AllScopes), g.token("other", "bob", access.AllScopes)
	g.await(other)
	for _, token := range []string{acme, other} {
		g.runFor(token, "globalThis.n = 1; 1")
	}
	closeBook(t, g.book)
	book := start(t, opts) // the export of a volume has the events of all tenants
	ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, nil)
	completes(t, book, embed.Script{Code: "2"})
	removeOldest(t, book, 1)
	closeBook(t, book)
	g.restart(opts)
	g.await(other)
	for tenant, token := range map[string]string{"acme": acme, "other": other} {
		g.runFor(token, "'y'.repeat(70_000)")
		r, err := embed.Verify(within(t), embed.VerifyOptions{Server: g.get(token), ServerURL: g.book.URL(), Tenant: tenant, Keys: []string{g.book.AuditKey()}})
		if err != nil || r.Found > 0 || len(r.Removed) != 1 || r.Blobs == 0 {
			t.Errorf("the server: %v\n%s", err, r)
		}
		out := filepath.Join(t.TempDir(), "export")
		if _, err := embed.Export(within(t), embed.ExportOptions{Server: g.get(token), Dir: out, Blobs: true}); err != nil {
			t.Fatal(err)
		}
		if r, err := embed.Verify(within(t), embed.VerifyOptions{Export: out, Keys: []string{g.book.AuditKey()}}); err != nil || r.Found > 0 || r.Blobs == 0 {
			t.Errorf("the export: %v\n%s", err, r)
		}
		agreesInPython(t, out, g.book.AuditKey())
	}
}

// agreesInPython checks that the verifier in Python finds an export intact.
func agreesInPython(t *testing.T, export, key string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("python3 is not installed, so verify.py cannot be run")
		return
	}
	if text, err := exec.CommandContext(within(t), python, "../examples/verify-python/verify.py", "--key", key, export).CombinedOutput(); err != nil {
		t.Errorf("verify.py: %v\n%s", err, text)
	}
}
