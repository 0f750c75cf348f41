// Package jetstreamtest starts real ledgers for tests: an embedded NATS server
// in a temporary folder, ready within milliseconds.
package jetstreamtest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"daybook/internal/jetstream"
	"daybook/internal/natsserver"
)

// Start runs a server for the duration of a test and opens a ledger on it.
func Start(t testing.TB) *jetstream.Store {
	t.Helper()
	return Open(t, StartServer(t, t.TempDir()), jetstream.Options{})
}

// StartServer runs a server on a folder for the duration of a test. Closing it
// and starting another on the same folder is a restart. Acknowledgements do
// not wait for the disk: a test ends before a power cut could matter.
func StartServer(t testing.TB, dir string) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(t.Context(), natsserver.Options{StoreDir: dir, NoSync: true, Logger: Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Open opens a ledger on a server; its connections end with the test.
func Open(t testing.TB, s *natsserver.Server, opts jetstream.Options) *jetstream.Store {
	t.Helper()
	publish, err := s.Conn("test publish")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(publish.Close)
	consume, err := s.Conn("test consume")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(consume.Close)
	if opts.Logger == nil {
		opts.Logger = Logger(t)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	store, err := jetstream.Open(ctx, publish, consume, opts)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Logger writes to the test's log.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
