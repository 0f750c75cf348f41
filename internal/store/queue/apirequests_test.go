package queue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/runner"
)

// A start lists the consumers of each volume twice, regardless of the number of
// tenants. A run costs the same regardless of the number of volumes.
func TestRequestsOfAStartAndOfARun(t *testing.T) {
	t.Parallel()
	volumes, tenants := tier.Choose(4, 25), tier.Choose(3, 10)
	server := storetest.StartServer(t, t.TempDir())
	// Only the start looks at the consumers: the interval between looks is half of
	// AckWait, at most 5 s.
	s := storetest.Open(t, server, jetstream.Options{AckWait: time.Hour, Exclusive: true})
	var names []string
	for i := range tenants {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	done := make(chan string, 10)
	take := func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		done <- d.Event.About()
	}
	stop := share(t, s, fairness.Slots{Total: 1}, take)
	for range volumes - 1 {
		for _, name := range names {
			mustAppend(t, s, requestOf(name, ""), 0)
			soon(t, "a run", done)
		}
		seal(t, s)
	}
	stop()

	conn, _ := raw(t, server)
	count := func(do func()) (n int, what map[string]int) {
		t.Helper()
		sub, err := conn.SubscribeSync("$JS.API.>")
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		do()
		if err := sub.Drain(); err != nil {
			t.Fatal(err)
		}
		what = map[string]int{}
		for {
			m, err := sub.NextMsg(patience)
			if err != nil {
				return n, what
			}
			if !isMeta(m) {
				continue
			}
			n++
			what[strings.Join(strings.Split(m.Subject, ".")[2:4], ".")]++
		}
	}
	n, what := count(func() {
		if err := s.PrepareWork(t.Context(), events.DefaultPool, names...); err != nil {
			t.Fatal(err)
		}
		stop = share(t, s, fairness.Slots{Total: 1}, take)
		mustAppend(t, s, requestOf(names[0], ""), 0)
		soon(t, "a run", done)
	})
	t.Logf("a start and a run on %d volumes with %d tenants: %d requests, %v", volumes, tenants, n, what)
	if most := 2*volumes + 12; n > most {
		t.Errorf("a start and a run cost %d requests to the server, want at most %d: %v", n, most, what)
	}
	n, what = count(func() {
		mustAppend(t, s, requestOf(names[0], ""), 0)
		soon(t, "a run", done)
	})
	t.Logf("a run: %d requests, %v", n, what)
	if n > 8 {
		t.Errorf("a run costs %d requests to the server: %v", n, what)
	}
	stop()
}

// isMeta reports whether a message requests or changes a stream or a consumer, or
// requests messages from a consumer. Reads of messages and answers do not count.
func isMeta(m *nats.Msg) bool {
	return strings.HasPrefix(m.Subject, "$JS.API.STREAM.") || strings.HasPrefix(m.Subject, "$JS.API.CONSUMER.")
}
