package cli_test

import (
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// The command prints its key and its address, cosigns, and has the same key and state after a restart.
func TestWitness(t *testing.T) {
	t.Parallel()
	skey, vkey, err := note.GenerateKey(rand.Reader, "example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: "example.com/log\n1\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"}, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "vkey")
	if err := os.WriteFile(keyFile, []byte(vkey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"witness", "--state", filepath.Join(t.TempDir(), "new", "state"), "--listen", "127.0.0.1:0", "--log", keyFile, "--name", "witness.example/w1"}
	var key string
	for _, want := range []int{http.StatusOK, http.StatusConflict} {
		p := launch(t, args...)
		printed, url := p.until(`^witness key  (witness\.example/w1\+\S+)`)[1], p.until(`^listening on (\S+)`)[1]
		if key != "" && printed != key {
			t.Errorf("printed %q, before %q", printed, key)
		}
		key = printed
		second := launch(t, args...)
		if status := second.status(); status != 1 || !strings.Contains(second.errs.String(), "choose another --state") {
			t.Errorf("a second process: exit status %d\n%s", status, second.errs.String())
		}
		resp, err := http.Post(url+"/add-checkpoint", "text/plain", strings.NewReader("old 0\n\n"+string(signed))) //nolint:noctx // the process ends with the test
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want {
			t.Errorf("%d %s %v, want %d", resp.StatusCode, text, err, want)
		}
		p.signal(syscall.SIGTERM)
		if status := p.status(); status != 0 {
			t.Errorf("exit status %d\n%s", status, p.errs.String())
		}
	}
	if err := os.Remove(filepath.Join(args[2], "key")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args   []string
		status int
		text   string
	}{
		{args, 1, "Do not restore it from a backup"},
		{[]string{"witness", "--state", t.TempDir()}, 2, "--log"},
		{[]string{"witness", "--log", keyFile}, 2, "--state"},
		{[]string{"witness", "--state", t.TempDir(), "--log", vkey[:len(vkey)-2] + "AA"}, 2, "copy it again"},
		{[]string{"witness", "--state", t.TempDir(), "--log", filepath.Join(t.TempDir(), "missing")}, 2, "--log"},
		{[]string{"witness", "--state", t.TempDir(), "--log", vkeyFor(t, "daybook-root/x")}, 2, "root key"},
		{[]string{"witness", "--state", t.TempDir(), "--log", vkey, "--name", "a name"}, 2, "spaces"},
		{[]string{"witness", "--state", t.TempDir(), "--log", vkey, "--listen", "127.0.0.1:70000"}, 2, "--listen"},
	} {
		p := launch(t, test.args...)
		if status := p.status(); status != test.status || !strings.Contains(p.errs.String(), test.text) {
			t.Errorf("%v: exit status %d, want %d\n%s", test.args, status, test.status, p.errs.String())
		}
	}
}
