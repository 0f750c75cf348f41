package embed_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/audit"
	"daybook/embed"
)

// setBack returns the options of a stopped server with its key elsewhere, the key file, and an older copy of the
// data directory: the server did one run before the copy and one after it.
func setBack(t *testing.T) (opts embed.Options, key, older, vkey string) {
	t.Helper()
	key = filepath.Join(t.TempDir(), "key")
	opts = embed.Options{DataDir: filepath.Join(t.TempDir(), "data"), Proof: embed.ProofOptions{KeyFile: key}}
	book := start(t, opts)
	run(t, book, embed.Script{Code: "1"})
	closeBook(t, book)
	older = filepath.Join(t.TempDir(), "older")
	copyData(t, opts.DataDir, older)
	book = start(t, opts)
	run(t, book, embed.Script{Code: "2"})
	vkey = book.AuditKey()
	closeBook(t, book)
	return opts, key, older, vkey
}

// A data directory that is replaced by an older, genuine copy is damage if the signing key is
// elsewhere: the newest signed checkpoint beside the key covers more events. The server is read-only
// and signs nothing.
func TestOlderCopyOfTheDataDirectoryIsDamage(t *testing.T) {
	t.Parallel()
	opts, key, older, _ := setBack(t)
	signed, err := os.ReadFile(key + ".signed")
	if err != nil {
		t.Fatal(err)
	}

	if err := os.RemoveAll(opts.DataDir); err != nil {
		t.Fatal(err)
	}
	copyData(t, older, opts.DataDir)
	book := start(t, opts)
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

// A start without the proofs, the key and the signed file is read-only and makes no new ones: the next start has the
// same reason, and the events with their checkpoints prove what they proved before.
func TestStartWithoutProofsCreatesNone(t *testing.T) {
	t.Parallel()
	opts, key, _, vkey := setBack(t)
	for _, path := range []string{filepath.Join(opts.DataDir, "audit"), key, key + ".signed"} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		book := start(t, opts)
		untilNotReady(t, book)
		if _, body := request(book, "GET", "/api/ledger/damage", ""); !strings.Contains(body, "audit are missing, but the ledger holds checkpoints") {
			t.Errorf("the damage is %s", body)
		}
		if got := book.AuditKey(); got != "" {
			t.Errorf("the key is %s, which signs nothing", got)
		}
		asked := httptest.NewRequest(http.MethodGet, "http://localhost/api/ledger/signers", nil)
		asked.Header.Set("Accept", "application/json")
		w := httptest.NewRecorder()
		if book.Handler().ServeHTTP(w, asked); w.Code != http.StatusOK || strings.Contains(w.Body.String(), `"key":`) {
			t.Errorf("the signers are %d %s", w.Code, w.Body)
		}
		temporary := filepath.Join(opts.DataDir, "readonly", "audit")
		if _, err := os.Stat(temporary); err != nil { // the next start removes it after a crash
			t.Error(err)
		}
		closeBook(t, book)
		for _, path := range []string{filepath.Join(opts.DataDir, "audit"), temporary, key, key + ".signed"} {
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the start made %s: %v", path, err)
			}
		}
		r, err := embed.Verify(t.Context(), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{vkey}})
		if err != nil || r.Verdict != audit.IntactUpTo {
			t.Errorf("%v\n%s", err, r)
		}
	}
	opts.Storage.AcceptDamage = true
	book := start(t, opts)
	run(t, book, embed.Script{Code: "3"})
	closeBook(t, book)
}

// Two servers do not sign with one key at the same time: each would replace the signed file of the other.
func TestOneServerForEachKey(t *testing.T) {
	t.Parallel()
	opts, key, older, _ := setBack(t)
	book := start(t, opts)
	copied := opts
	copied.DataDir = older
	for _, accept := range []bool{false, true} {
		copied.Storage.AcceptDamage = accept
		second, err := embed.Start(t.Context(), copied)
		if err == nil {
			closeBook(t, second)
		}
		wantError(t, err, "Proof.KeyFile", key+".signed", "each server needs a signing key of its own")
	}
	if _, err := os.Stat(key + ".signed.accepted"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the refused server lets the other one accept damage: %v", err)
	}
	run(t, book, embed.Script{Code: "3"})
	closeBook(t, book)
	closeBook(t, start(t, opts))
}

// A ledger that was set back, or whose key was lost, continues with --accept-damage under a new origin.
// An auditor with the old key notices, and one with the new key sees which origin ended.
func TestAcceptedDamageStartsANewOrigin(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		harm func(t *testing.T, data, older, key string)
		// starts is true if the server starts without the permission, and same if the origin continues.
		starts, same bool
	}{
		"set back": {harm: func(t *testing.T, data, older, _ string) {
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			copyData(t, older, data)
		}},
		"the streams set back, but not the proofs": {same: true, harm: func(t *testing.T, data, older, _ string) {
			if err := os.RemoveAll(filepath.Join(data, "jetstream")); err != nil {
				t.Fatal(err)
			}
			copyData(t, filepath.Join(older, "jetstream"), filepath.Join(data, "jetstream"))
		}},
		"the key lost": {harm: func(t *testing.T, _, _, key string) {
			if err := os.Remove(key); err != nil {
				t.Fatal(err)
			}
		}},
		// The key proves which ledger it is, and the checkpoints are in the events.
		"the proofs lost": {starts: true, same: true, harm: func(t *testing.T, data, _, _ string) {
			if err := os.RemoveAll(filepath.Join(data, "audit")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, key, older, vkey := setBack(t)
			tt.harm(t, opts.DataDir, older, key)
			if !tt.starts {
				book := start(t, opts)
				untilNotReady(t, book)
				closeBook(t, book)
			}
			accepting := opts
			accepting.Storage.AcceptDamage = true
			book := start(t, accepting)
			run(t, book, embed.Script{Code: "3"})
			next := book.AuditKey()
			if list, _ := book.Damage(); len(list) > 0 {
				t.Errorf("found %v", list)
			}
			closeBook(t, book)
			book = start(t, opts) // without the permission
			run(t, book, embed.Script{Code: "4"})
			closeBook(t, book)

			verify := func(keys ...string) *embed.Report {
				t.Helper()
				r, err := embed.Verify(t.Context(), embed.VerifyOptions{DataDir: opts.DataDir, Keys: keys})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			if tt.same {
				if next != vkey {
					t.Errorf("the key changed, though nothing contradicts what it signed")
				}
				if r := verify(vkey); !r.OK {
					t.Error(r)
				}
				return
			}
			if next == vkey {
				t.Error("the key did not change")
			}
			if r := verify(vkey); r.OK || len(r.Origins) != 1 || r.Origins[0].Trusted {
				t.Error(r)
			}
			if r := verify(vkey, next); !r.OK || len(r.Origins) != 1 || !r.Origins[0].Trusted {
				t.Error(r)
			}
		})
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
