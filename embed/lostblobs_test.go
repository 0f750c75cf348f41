package embed_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/web/access"
)

// Accepted losses of heaps and texts are recorded for each tenant. A tenant reads of those of
// others neither hashes nor names, and its part verifies.
func TestLostBlobsAreRecordedForTheirTenants(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	g := startGuarded(t, opts)
	tokens := map[string]string{"acme": g.token("acme", "ada", access.AllScopes), "other": g.token("other", "bob", access.AllScopes)}
	g.await(tokens["other"])
	hashes := map[string][]string{}
	for tenant, token := range tokens {
		heap := g.runFor(token, "globalThis.mine = '"+tenant+"'; '"+tenant+"'.repeat(20_000)")
		hashes[tenant] = []string{heap, events.Hash([]byte(`"` + strings.Repeat(tenant, 20_000) + `"`)), events.Hash([]byte(strings.Repeat(tenant, 20_000)))}
	}
	closeBook(t, g.book)
	damageBlobs(t, opts.DataDir)

	opts.Storage.AcceptDamage = true
	g.restart(opts)
	key := g.book.AuditKey()
	for tenant, token := range tokens {
		g.await(token)
		status, stream := g.ask(token, http.MethodGet, "/api/events", "", "Accept", "application/x-ndjson")
		if status != http.StatusOK || !strings.Contains(stream, "volume_opened") || !strings.Contains(stream, hashes[tenant][0]) {
			t.Errorf("%s reads %d %s", tenant, status, stream)
		}
		out := filepath.Join(t.TempDir(), "export")
		if _, err := embed.Export(within(t), embed.ExportOptions{Server: g.get(token), Dir: out, Blobs: true}); err != nil {
			t.Fatal(err)
		}
		exported, err := os.ReadFile(filepath.Join(out, "events.ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		for of, list := range hashes {
			for _, hash := range list {
				if of != tenant && (strings.Contains(stream, hash) || bytes.Contains(exported, []byte(hash))) {
					t.Errorf("%s reads the hash of %s", tenant, of)
				}
			}
			if of != tenant && (strings.Contains(stream, `"`+of) || bytes.Contains(exported, []byte(of))) {
				t.Errorf("%s reads the name of %s", tenant, of)
			}
		}
		if r, err := embed.Verify(within(t), embed.VerifyOptions{Export: out, Keys: []string{key}}); err != nil || r.Found > 0 {
			t.Errorf("the export of %s: %v\n%s", tenant, err, r)
		}
		agreesInPython(t, out, key)
		if r, err := embed.Verify(within(t), embed.VerifyOptions{Server: g.get(token), ServerURL: g.book.URL(), Tenant: tenant, Keys: []string{key}}); err != nil || r.Found > 0 {
			t.Errorf("the part of %s: %v\n%s", tenant, err, r)
		}
		if status, text := g.ask(token, http.MethodGet, "/api/heaps/"+hashes[tenant][0]+"/lineage", ""); status != http.StatusOK {
			t.Errorf("the lost heap of %s: %d %s", tenant, status, text)
		}
		if status, text := g.ask(token, http.MethodGet, "/api/heaps/"+hashes[tenant][0]+"/globals", ""); status != http.StatusGone || !strings.Contains(text, "lost") {
			t.Errorf("the globals of the lost heap of %s: %d %s", tenant, status, text)
		}
		if status, text := g.ask(token, http.MethodGet, "/api/ledger/blobs/heaps/"+hashes[tenant][0], ""); status != http.StatusGone || !strings.Contains(text, "lost") {
			t.Errorf("the lost heap of %s: %d %s", tenant, status, text)
		}
	}
	closeBook(t, g.book)
	if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}}); err != nil || r.Found > 0 {
		t.Errorf("the directory: %v\n%s", err, r)
	}
}

// damageBlobs changes the content of all heaps and texts in the files of their store.
func damageBlobs(t *testing.T, dir string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "OBJ_*", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatal(blocks, err)
	}
	for _, path := range blocks {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 100; at < len(raw); at += 100 {
			raw[at] ^= 0x10
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
