package natsserver_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// harmful are the requests that delete from a stream or change its configuration.
var harmful = map[string]string{
	"$JS.API.STREAM.DELETE.LEDGER-0001":      ``,
	"$JS.API.STREAM.PURGE.LEDGER-0001":       `{}`,
	"$JS.API.STREAM.MSG.DELETE.LEDGER-0001":  `{"seq":1}`,
	"$JS.API.STREAM.UPDATE.LEDGER-0001":      `{"name":"LEDGER-0001","subjects":["ledger.0001.>"],"max_msgs":1,"storage":"file","deny_delete":true,"deny_purge":true}`,
	"$JS.API.STREAM.RESTORE.LEDGER-0001":     `{"config":{"name":"LEDGER-0001","subjects":["ledger.0001.>"]},"state":{}}`,
	"$JS.API.STREAM.PEER.REMOVE.LEDGER-0001": `{"peer":"x"}`,
	"$JS.API.ACCOUNT.PURGE.$G":               ``,
	"$JS.API.STREAM.PURGE.ARCHIVE":           `{}`,
}

// TestServiceAndReaderCannotDelete tries all of them as the service itself and as a reader.
func TestServiceAndReaderCannotDelete(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{})
	record(t, store, 3)
	service, err := server.Conn("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	for who, nc := range map[string]*nats.Conn{"the service": service, "a reader": reader(t, server)} {
		for subject, body := range harmful {
			m, err := nc.Request(subject, []byte(body), 200*time.Millisecond)
			if err == nil && !strings.Contains(string(m.Data), `"error":{"code":403,`) {
				t.Errorf("%s asked %s and was answered %s", who, subject, m.Data)
			}
		}
		if last, err := store.LastSeq(t.Context()); err != nil || last != 3 {
			t.Fatalf("after %s tried, the ledger ends at %d, %v", who, last, err)
		}
	}
	if list, err := store.Read(t.Context(), 0, 10); err != nil || len(list) != 3 {
		t.Errorf("the ledger reads as %d events, %v", len(list), err)
	}
	record(t, store, 1) // the ledger can still be written
	m, err := service.Request("$JS.API.STREAM.INFO.LEDGER-0001", nil, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Config struct {
			MaxMsgs    int64 `json:"max_msgs"`
			DenyDelete bool  `json:"deny_delete"`
			DenyPurge  bool  `json:"deny_purge"`
		}
		State struct{ Messages uint64 }
	}
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Config.MaxMsgs > 0 || !info.Config.DenyDelete || !info.Config.DenyPurge || info.State.Messages != 4 {
		t.Errorf("the stream is %+v, %v", info, err)
	}
}

// TestStrangers tries to connect without a valid password.
func TestStrangers(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	known, stranger := newLogin(t, "known", events.DefaultTenant), newLogin(t, "stranger", events.DefaultTenant)
	admit(t, server, known)
	for name, option := range map[string]nats.Option{
		"nobody":                 nats.Name("nobody"),
		"the service's name":     nats.UserInfo("daybook", ""),
		"the keeper's name":      nats.UserInfo("keeper", "keeper"),
		"a gate's name":          nats.UserInfo("gate.known", known.PublicKey),
		"the system account":     nats.UserInfo("$SYS", ""),
		"a token":                nats.Token(known.PublicKey),
		"an unknown key":         nats.Nkey(stranger.PublicKey, stranger.keys.Sign),
		"another one's key":      nats.Nkey(known.PublicKey, stranger.keys.Sign),
		"a signature of nothing": nats.Nkey(known.PublicKey, func([]byte) ([]byte, error) { return known.keys.Sign(nil) }),
		"a token without a key":  nats.UserJWT(func() (string, error) { return "x.y.z", nil }, stranger.keys.Sign),
	} {
		nc, err := nats.Connect("nats://"+server.Addr(), option, nats.Timeout(time.Minute))
		if err == nil {
			nc.Close()
			t.Errorf("%s came in", name)
		} else if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReaderSeesOnlyStoredEvents subscribes to everything.
func TestReaderSeesOnlyStoredEvents(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{})
	nc := reader(t, server)
	for _, subject := range []string{">", "ledger.>", "ctl.>", "$JS.>", "$O.>", "$KV.>", "$SYS.>", "_INBOX.>", "_INBOX.*.>"} {
		sub, err := nc.SubscribeSync(subject)
		if err != nil {
			continue // refused at once
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		record(t, store, 1)
		if m, err := sub.NextMsg(50 * time.Millisecond); err == nil {
			t.Errorf("a subscription to %s received %s", subject, m.Subject)
		}
	}
	sub, err := nc.SubscribeSync("events.default.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	record(t, store, 1)
	if _, err := sub.NextMsg(20 * time.Second); err != nil {
		t.Errorf("a stored event is not received: %v", err)
	}
}
