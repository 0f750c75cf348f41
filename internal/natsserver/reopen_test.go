package natsserver_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/jetstream"
	"daybook/internal/jetstream/jetstreamtest"
	"daybook/internal/natsserver"
)

// TestReopen: after another nats-server was started on the files, who was connected
// goes on: the ledger reads and appends, readers read and follow under the same
// address and key.
func TestReopen(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := jetstreamtest.Open(t, server, jetstream.Options{Writable: server.Writable, Opened: server.Offer})
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
	for deadline := time.Now().Add(20 * time.Second); ; { // both connections come back by themselves
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
	// The reader's subscription comes back when its client has connected again: from
	// then on it gets what is recorded.
	for deadline := time.Now().Add(20 * time.Second); ; {
		record(t, store, 1)
		if _, err := live.NextMsg(100 * time.Millisecond); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("a reader receives nothing: %v", err)
		}
	}
	m, err := nc.RequestMsg(&nats.Msg{Subject: "$JS.API.DIRECT.GET.LEDGER-0001", Data: []byte(`{"seq":4}`)}, 10*time.Second)
	if err != nil || m.Header.Get("Nats-Sequence") != "4" {
		t.Errorf("a reader asks for event 4: %+v, %v", m, err)
	}
}
