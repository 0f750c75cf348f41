package frozen_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"daybook/embed"
)

// TestBothRecordVersions continues the directory, whose events have records of version 1, with
// events of version 2. The ledger, its exports and its proofs verify, also without Daybook.
func TestBothRecordVersions(t *testing.T) {
	t.Parallel()
	dir := unpack(t)
	book := start(t, dir.quietOptions())
	for _, of := range []tenant{operator, acme} {
		dir.tokens.must(t, book, of, http.MethodPost, "/api/exec", `{"code":"1 + 1","session":"counted"}`, nil)
	}
	dir.tokens.must(t, book, operator, http.MethodPost, "/api/ledger/checkpoint", "", nil)
	key := book.AuditKey()
	closeBook(t, book)

	verify := func(what string, v embed.VerifyOptions) {
		t.Helper()
		v.Keys = []string{key}
		if r, err := embed.Verify(within(t), v); err != nil || !r.OK {
			t.Errorf("verify %s: %v\n%s", what, err, r)
		}
	}
	verify("the directory", embed.VerifyOptions{DataDir: dir.data})
	for name, e := range map[string]embed.ExportOptions{
		"everything": {Blobs: true},
		"session":    {Session: "counted"},
		"the end":    {From: 20},
	} {
		e.DataDir, e.Dir = dir.data, filepath.Join(t.TempDir(), "export")
		if _, err := embed.Export(within(t), e); err != nil {
			t.Fatalf("export %s: %v", name, err)
		}
		raw, err := os.ReadFile(filepath.Join(e.Dir, "events.ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		all, second := bytes.Count(raw, []byte("\n")), bytes.Count(raw, []byte(`,"recordversion":"2",`))
		if second == 0 || second == all {
			t.Errorf("the export %s has %d events, %d of version 2", name, all, second)
		}
		verify("the export "+name, embed.VerifyOptions{Export: e.Dir})
		if python, err := exec.LookPath("python3"); err == nil {
			if out, err := exec.CommandContext(within(t), python, filepath.Join("..", "..", "..", "examples", "verify-python", "verify.py"), "--key", key, e.Dir).CombinedOutput(); err != nil {
				t.Errorf("verify.py on the export %s: %v\n%s", name, err, out)
			}
		}
	}

	// The next start has the same tree.
	book = start(t, dir.quietOptions())
	dir.tokens.must(t, book, operator, http.MethodGet, "/api/ledger/checkpoint", "", nil)
	closeBook(t, book)
	verify("the directory after another start", embed.VerifyOptions{DataDir: dir.data})
}
