package jetstream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// A message that an outside server refuses because of a storage limit fails with the
// reason, and so do further messages. Writes continue once there is space.
func TestServerAtItsStorageLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, want string
		server     int64 // max_file_store
		account    int64
		bucket     bool // the stream of the blobs has the limit
	}{
		{name: "server", want: "has reached its storage limit (max_file_store) (insufficient resources, code 10023)", server: 2 << 20, account: -1},
		{name: "account", want: "the account has reached its storage limit (resource limits exceeded for account, code 10002)", server: 1 << 40, account: 2 << 20},
		{name: "stream", want: "a stream has reached its limit (maximum bytes exceeded, code 10077)", server: 1 << 40, account: -1, bucket: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, js := limited(t, test.server, test.account)
			s, err := jetstream.Open(t.Context(), conn, conn, jetstream.Options{Client: jet.Options{Server: "ledger.test:4222", Logger: storetest.Logger(t)}})
			if err != nil {
				t.Fatal(err)
			}
			id := newID()
			seq := mustAppend(t, s, requested(id), 0)
			free := fillUp(t, js, test.bucket)

			_, first := s.PutText(t.Context(), tenant, []byte(strings.Repeat("text ", 10)+newID()))
			_, second := s.Append(t.Context(), started(id, 1), -1)
			for what, err := range map[string]error{"PutText": first, "Append": second, "Health": s.Health(t.Context()), "Unwritable": s.Unwritable()} {
				unwritable, ok := errors.AsType[*events.UnwritableError](err)
				if !ok || !unwritable.Passes || !strings.Contains(err.Error(), "the NATS server at ledger.test:4222 refuses to store more: ") || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: %v, want %q", what, err, test.want)
				}
			}
			if list, err := s.Read(t.Context(), 0, 10); err != nil || len(list) != 1 || list[0].Seq != seq {
				t.Errorf("Read: %v, %v", list, err)
			}

			free()
			until(t, "the ledger takes writes", func() bool { return s.Unwritable() == nil })
			if got := mustAppend(t, s, started(id, 1), -1); got != seq+1 {
				t.Errorf("the next event is at %d, not %d: a refused one was stored", got, seq+1)
			}
			if _, err := s.PutText(t.Context(), tenant, []byte("after")); err != nil {
				t.Errorf("PutText with space: %v", err)
			}
			if err := s.Health(t.Context()); err != nil {
				t.Errorf("Health with space: %v", err)
			}
		})
	}
}

// limited runs a server with storage limits in bytes.
func limited(t *testing.T, store, account int64) (*nats.Conn, natsjs.JetStream) {
	t.Helper()
	users := server.NewAccount("USERS")
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		JetStreamMaxStore: store, Accounts: []*server.Account{users},
		Users: []*server.User{{Username: "u", Password: "p", Account: users}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	known, err := ns.LookupAccount("USERS")
	if err != nil {
		t.Fatal(err)
	}
	limits := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: account, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1}
	if err := known.EnableJetStream(map[string]server.JetStreamAccountLimits{"": limits}, nil); err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(ns.ClientURL(), nats.UserInfo("u", "p"), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

// fillUp uses up the space of the server, or of the stream of the blobs. It returns a
// function that frees the space.
func fillUp(t *testing.T, js natsjs.JetStream, bucket bool) (free func()) {
	t.Helper()
	if bucket {
		stream, err := js.Stream(t.Context(), "OBJ_BLOBS")
		if err != nil {
			t.Fatal(err)
		}
		limit := func(bytes int64) {
			config := stream.CachedInfo().Config
			config.MaxBytes = bytes
			if _, err := js.UpdateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
		}
		limit(100)
		return func() { limit(-1) }
	}
	filler, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "FILLER", Subjects: []string{"filler"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range slices.Backward([]int{20, 100, 64 << 10, 256 << 10}) {
		for n := 0; err == nil; n++ {
			if n > 1000 {
				t.Fatal("the limit is never reached")
			}
			_, err = js.Publish(t.Context(), "filler", make([]byte, size))
		}
		if size > 20 {
			err = nil
		}
	}
	if !strings.Contains(fmt.Sprint(err), "resource") {
		t.Fatalf("the server is full with: %v", err)
	}
	return func() {
		if err := filler.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
