package natsserver_test

import (
	"context"
	"errors"
	"net"
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

// TestReopenThatFails: while the server cannot start, Writable has the reason why the
// writes failed, so that Reopen is tried again. A key that is withdrawn in that time is
// refused from then on, and a new one works once the list is set again.
func TestReopenThatFails(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{Client: jet.Options{Writable: server.Writable}, OnVolumeOpened: server.ExposeStream})
	record(t, store, 1)
	withdrawn, added := newLogin(t, "one", events.DefaultTenant), newLogin(t, "two", events.DefaultTenant)
	admit(t, server, withdrawn)
	addr := server.Addr()

	natsserver.FailWrites(server, syscall.ENOSPC)
	natsserver.Halt(server)
	busy, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Reopen(t.Context()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("Reopen at a busy address: %v", err)
	}
	if cause := context.Cause(server.Writable()); !errors.Is(cause, syscall.ENOSPC) {
		t.Errorf("after Reopen failed, Writable ended with %v", cause)
	}
	list := []natsserver.Subscriber{added.Subscriber}
	if err := server.SetSubscribers(list); err == nil {
		t.Error("a new subscriber was admitted by a server that does not run")
	}
	busy.Close()
	if err := server.Reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if nc, err := withdrawn.dial(server); err == nil {
		nc.Close()
		t.Error("a key that was withdrawn while the server did not run is accepted")
	}
	if err := server.SetSubscribers(list); err != nil {
		t.Fatal(err)
	}
	nc := added.connect(t, server)
	m, err := nc.RequestMsg(&nats.Msg{Subject: "$JS.API.DIRECT.GET.LEDGER-0001", Data: []byte(`{"seq":1}`)}, 20*time.Second)
	if err != nil || m.Header.Get("Nats-Sequence") != "1" {
		t.Errorf("the new subscriber asks for event 1: %+v, %v", m, err)
	}
}
