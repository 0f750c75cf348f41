package blobs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// blocks returns the files with the messages of a stream.
func blocks(t *testing.T, dir, stream string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no message blocks of %s found: %v", stream, err)
	}
	return list
}

// flip changes one bit of the first occurrence of text in the blocks of a stream.
func flip(t *testing.T, dir, stream, text string) {
	t.Helper()
	for _, path := range blocks(t, dir, stream) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(string(b), text)
		if at < 0 {
			continue
		}
		b[at] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%q is not in the blocks of %s", text, stream)
}

// raw returns a connection in addition to the one of the Store.
func raw(t *testing.T, s interface {
	Conn(string) (*nats.Conn, error)
}) (*nats.Conn, natsjs.JetStream) {
	t.Helper()
	nc, err := s.Conn("raw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

const tenant = events.DefaultTenant
