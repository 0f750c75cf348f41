package embed_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
)

// A data directory that is replaced by an older, genuine copy is damage if the signing key is
// elsewhere: the newest signed checkpoint beside the key covers more events. The server is read-only
// and signs nothing.
func TestOlderCopyOfTheDataDirectoryIsDamage(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	opts := embed.Options{DataDir: filepath.Join(t.TempDir(), "data"), Proof: embed.ProofOptions{KeyFile: key}}
	book := start(t, opts)
	run(t, book, embed.Script{Code: "1"})
	closeBook(t, book)
	older := filepath.Join(t.TempDir(), "older")
	copyData(t, opts.DataDir, older)

	book = start(t, opts)
	run(t, book, embed.Script{Code: "2"})
	closeBook(t, book)
	signed, err := os.ReadFile(key + ".signed")
	if err != nil {
		t.Fatal(err)
	}

	if err := os.RemoveAll(opts.DataDir); err != nil {
		t.Fatal(err)
	}
	copyData(t, older, opts.DataDir)
	book = start(t, opts)
	if status, body := request(book, "GET", "/readyz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d: %s", status, body)
	}
	if _, body := request(book, "GET", "/api/ledger/damage", ""); !strings.Contains(body, "recorded events are missing") {
		t.Errorf("the damage is %s", body)
	}
	if status, body := request(book, "POST", "/api/exec", `{"code":"3"}`); status != http.StatusServiceUnavailable {
		t.Errorf("a run is answered %d: %s", status, body)
	}
	closeBook(t, book)
	if now, err := os.ReadFile(key + ".signed"); err != nil || string(now) != string(signed) {
		t.Errorf("the signed file was changed, %v", err)
	}
}

// copyData copies the files and directories of a data directory that is not in use, with their
// modes.
func copyData(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		name = filepath.Join(to, name)
		switch {
		case info.IsDir():
			return os.Mkdir(name, info.Mode().Perm())
		case !info.Mode().IsRegular():
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(name, raw, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
}
