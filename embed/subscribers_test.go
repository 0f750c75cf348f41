package embed_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/embed"
	"daybook/internal/store/natscreds"
)

// The credential of the only tenant is created once, is readable only by its user, and stays over
// restarts. A rotation and a revocation end open connections of a running server.
func TestSubscriberCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "nats-reader.json")
	if err := os.WriteFile(old, []byte(`{"password":"known"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	closeBook(t, start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}, NATS: embed.NATSOptions{Addr: "127.0.0.1:0"}}))
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the password for all tenants is still there: %v", err)
	}
	creds := filepath.Join(dir, "nats")
	file := filepath.Join(creds, "default.creds")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(creds, "credentials.jsonl")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	book := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}, NATS: embed.NATSOptions{Addr: "127.0.0.1:0"}})
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) || book.SubscriberCredentials() != file {
		t.Errorf("the credential changed with a restart: %s, %v", book.SubscriberCredentials(), err)
	}
	closed := make(chan struct{}, 1)
	dial := func(file string) (*nats.Conn, error) {
		return nats.Connect(book.NATSURL(), nats.UserCredentials(file), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { closed <- struct{}{} }))
	}
	saved := filepath.Join(t.TempDir(), "old.creds")
	if err := os.WriteFile(saved, before, 0o600); err != nil {
		t.Fatal(err)
	}
	ends := func(name string, change func() error) {
		t.Helper()
		var nc *nats.Conn
		for late := time.Now().Add(20 * time.Second); nc == nil; { // the server reads a new key with a delay
			if nc, err = dial(file); err != nil && time.Now().After(late) {
				t.Fatalf("before %s: %v", name, err)
			}
		}
		defer nc.Close()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-closed:
		case <-time.After(20 * time.Second):
			t.Errorf("%s leaves the connection open", name)
		}
		if nc, err := dial(saved); err == nil {
			nc.Close()
			t.Errorf("after %s the first key is accepted", name)
		}
	}
	ends("rotate", func() error { _, err := natscreds.Rotate(creds, "default", time.Now()); return err })
	ends("revoke", func() error { _, err := natscreds.Revoke(creds, "default", time.Now()); return err })
	closeBook(t, book)
	book = start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}, NATS: embed.NATSOptions{Addr: "127.0.0.1:0"}})
	if got := book.SubscriberCredentials(); got != "" {
		t.Errorf("a restart creates a revoked credential again: %s", got)
	}
}
