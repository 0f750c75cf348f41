package natsserver_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/storetest"
)

// TestReopen: after another nats-server was started on the files, connected clients
// continue. The ledger reads and appends; readers read and follow with the same address
// and key.
func TestReopen(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{Client: jet.Options{Writable: server.Writable}, OnVolumeOpened: server.ExposeStream})
	record(t, store, 3)
	nc := reader(t, server)
	live, err := nc.SubscribeSync("events.default.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	addr, before := server.Addr(), server.Writable()
	natsserver.FailWrites(server, syscall.ENOSPC)
	var unwritable *events.UnwritableError
	if _, err := store.Append(t.Context(), requested(), 0); !errors.As(err, &unwritable) || !unwritable.Passes {
		t.Fatalf("an append to a full disk: %v", err)
	}
	if err := server.Reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if before.Err() == nil || server.Writable().Err() != nil || server.Addr() != addr {
		t.Errorf("writable before: %v, now: %v; at %s, before at %s", before.Err(), server.Writable().Err(), server.Addr(), addr)
	}
	record(t, store, 2)
	for deadline := time.Now().Add(20 * time.Second); ; { // both connections reconnect automatically
		err := store.Health(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("Health: %v", err)
		}
	}
	if list, err := store.Read(t.Context(), 0, 10); err != nil || len(list) != 5 {
		t.Errorf("the ledger reads as %d events, %v", len(list), err)
	}
	// The subscription of the reader is restored when its client has reconnected. From
	// then on it receives recorded events.
	for deadline := time.Now().Add(20 * time.Second); ; {
		record(t, store, 1)
		if _, err := live.NextMsg(100 * time.Millisecond); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("a reader receives nothing: %v", err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; { // requests are answered a little later
		m, err := nc.RequestMsg(&nats.Msg{Subject: "$JS.API.DIRECT.GET.LEDGER-0001", Data: []byte(`{"seq":4}`)}, 10*time.Second)
		if err == nil && m.Header.Get("Nats-Sequence") == "4" {
			break
		}
		if !errors.Is(err, nats.ErrNoResponders) || time.Now().After(deadline) {
			t.Fatalf("a reader asks for event 4: %+v, %v", m, err)
		}
	}
}

// TestReopenAnswersSubscribersOnce: after Reopen only the gate answers the JetStream
// requests of a subscriber, as before.
func TestReopenAnswersSubscribersOnce(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{Client: jet.Options{Writable: server.Writable}, OnVolumeOpened: server.ExposeStream})
	record(t, store, 1)
	l := newLogin(t, "reader", events.DefaultTenant)
	admit(t, server, l)
	if err := server.Reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc := l.connect(t, server)
	for _, request := range []string{"INFO", "STREAM.NAMES", "STREAM.INFO.LEDGER-0001"} {
		inbox := nats.NewInbox()
		answers, err := nc.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for deadline := time.Now().Add(20 * time.Second); len(got) == 0 && time.Now().Before(deadline); { // the gate reconnects automatically
			if err := nc.PublishRequest("$JS.API."+request, inbox, nil); err != nil {
				t.Fatal(err)
			}
			for wait := time.Second; ; wait = 50 * time.Millisecond {
				m, err := answers.NextMsg(wait)
				if err != nil {
					break
				}
				got = append(got, string(m.Data))
			}
		}
		if len(got) != 1 || strings.Contains(got[0], `"error"`) {
			t.Errorf("%s has %d answers: %s", request, len(got), got)
		}
	}
}
