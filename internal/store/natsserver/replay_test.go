package natsserver_test

import (
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// Replayed events reach readers as they are recorded, marked, and are no events of the
// ledger. Only some subjects are allowed for a replay, and readers cannot publish any.
func TestReplayReachesReaders(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{})
	record(t, store, 1)
	list, err := store.Read(t.Context(), 0, 1)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d events, %v", len(list), err)
	}
	nc := reader(t, server)
	sub, err := nc.SubscribeSync("replay.default.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("replay.default.review", []byte("forged")); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"replay.default", "replay.default.", "replay.other.x", "replay.default.>", "replay.default.*", "events.default.x", "ledger.0001.default.exec.x", "ctl.default.exec.x.cancel", "$JS.API.INFO", ""} {
		if err := store.Republish(t.Context(), subject, list[0]); err == nil {
			t.Errorf("published on %q", subject)
		}
	}
	if err := store.Republish(t.Context(), "replay.default.review.1", list[0]); err != nil {
		t.Fatal(err)
	}
	m, err := sub.NextMsg(20 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want, err := events.Encode(list[0])
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject != "replay.default.review.1" || string(m.Data) != string(want.Body) || m.Header.Get("ce-replayed") != "true" || m.Header.Get("ce-sequence") != "1" {
		t.Errorf("%s %v %s", m.Subject, m.Header, m.Data)
	}
	for name, values := range want.Header {
		if m.Header.Get(name) != values[0] {
			t.Errorf("%s is %q, recorded %q", name, m.Header.Get(name), values[0])
		}
	}
	if last, err := store.LastSeq(t.Context()); err != nil || last != 1 {
		t.Errorf("the ledger ends at %d, %v", last, err)
	}
}
