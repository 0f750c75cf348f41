// Package storetest starts a real ledger for tests: an embedded NATS server in a
// temporary directory, and a Store on it. Only the waiting for the disk is left out.
package storetest

import (
	"log/slog"
	"testing"
	"time"

	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
)

// Start returns a Store on a server of its own. Both are closed when the test ends.
func Start(t testing.TB) *jetstream.Store {
	t.Helper()
	return Open(t, StartServer(t, t.TempDir()), jetstream.Options{})
}

// StartServer starts a server that stores its files in dir. It is closed when the test
// ends, unless the test closes it before, for example to start another one on dir. The
// server does not wait for the disk, and writes its log to the log of the test.
func StartServer(t testing.TB, dir string) *natsserver.Server {
	t.Helper()
	server, err := natsserver.Start(t.Context(), natsserver.Options{StoreDir: dir, NoSync: true, Logger: Logger(t)})
	if err != nil {
		t.Fatalf("start a NATS server: %v", err)
	}
	t.Cleanup(server.Close)
	return server
}

// tryWait bounds a try of a request to the server. A machine under load may need more than the
// default of 5 s.
const tryWait = 20 * time.Second

// Open returns a Store on a server, over connections that are closed when the test
// ends. Without Options.Client.TryWait, a try of a request takes up to 20 s.
func Open(t testing.TB, server *natsserver.Server, opts jetstream.Options) *jetstream.Store {
	t.Helper()
	if opts.Client.Logger == nil {
		opts.Client.Logger = Logger(t)
	}
	if opts.Client.TryWait == 0 {
		opts.Client.TryWait = tryWait
	}
	if opts.OpenAdminConn == nil {
		opts.OpenAdminConn = server.AdminConn
	}
	if opts.OnVolumeOpened == nil {
		opts.OnVolumeOpened = server.ExposeStream
	}
	publish, err := server.Conn("publish")
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(publish.Close)
	consume, err := server.Conn("consume")
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(consume.Close)
	store, err := jetstream.Open(t.Context(), publish, consume, opts)
	if err != nil {
		t.Fatalf("open the ledger: %v", err)
	}
	return store
}

// Logger returns a logger that writes to the log of the test.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
