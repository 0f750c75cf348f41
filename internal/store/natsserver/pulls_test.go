package natsserver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/internal/store/natsserver"
)

// The return path of a pull with one answer ends with the answer. Those of other pulls
// stay for some time, so their number is bounded.
func TestPullsLeaveLittleBehind(t *testing.T) {
	t.Parallel()
	w := newTwoTenants(t)
	nc := w.a.connect(t, w.server)
	const stream = "LEDGER-0001.reader"
	if _, err := nc.Request("$JS.API.CONSUMER.CREATE."+stream, []byte(`{"stream_name":"LEDGER-0001","config":{"name":"reader","ack_policy":"none"}}`), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox + ".*")
	if err != nil {
		t.Fatal(err)
	}
	pull := func(n int, body string) {
		t.Helper()
		for i := range n {
			if err := nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream, fmt.Sprintf("%s.%d", inbox, i), []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := func() *nats.Msg {
		t.Helper()
		m, err := answers.NextMsg(20 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	// All events of the tenant, and then the answer that there are no more.
	pull(len(w.ofA)+50, `{"batch":1,"no_wait":true}`)
	events := 0
	for range len(w.ofA) + 50 {
		if next().Header.Get("Status") == "" {
			events++
		}
	}
	if events != len(w.ofA) {
		t.Errorf("pulls for one event gave %d events, want %d", events, len(w.ofA))
	}
	for deadline := time.Now().Add(20 * time.Second); natsserver.PendingAnswers(w.server) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("the server keeps %d return paths of pulls with one answer", natsserver.PendingAnswers(w.server))
		}
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	pull(natsserver.PullBurst+200, `{"batch":2,"no_wait":true}`)
	for range natsserver.PullBurst {
		next()
	}
	kept, most := natsserver.PendingAnswers(w.server), natsserver.PullBurst+int(time.Since(start).Seconds()*natsserver.PullRate)+10
	if kept > most {
		t.Errorf("the server keeps %d return paths, want at most %d", kept, most)
	}
}
