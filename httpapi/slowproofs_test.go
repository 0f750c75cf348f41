package httpapi_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/resources/budget"
)

// Clients that request an export, or tile after tile on one connection, and read nothing lose their connections, and
// their memory is returned. Meanwhile a checkpoint is signed.
func TestStalledReadersOfProofsAreCutOff(t *testing.T) {
	t.Parallel()
	b := budget.New(budget.Options{Answers: 256 << 20, Runs: 1, Cache: 1})
	s, log := audited(t, func(o *httpapi.Options) { o.Budget, o.Pace = b, httpapi.Pace{Window: 100 * time.Millisecond} })
	var last uint64
	for range 256 { // more than the buffers of a connection hold
		var err error
		last, err = s.store.Append(t.Context(), events.New(events.DefaultTenant, time.Now(), &events.ExecutionRequested{
			ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: strings.Repeat("1", 60_000)}}),
		}), 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := log.Checkpoint(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	for path, times := range map[string]int{"export": 1, "export?from=2": 1, "tile/0/000": 2000, "tile/entries/000": 200} {
		conn := s.raw("")
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, strings.Repeat(fmt.Sprintf("GET /api/ledger/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", path), times)); err != nil {
			t.Fatal(err)
		}
		start := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, start); err != nil || string(start) != "HTTP/1.1 200" {
			t.Fatalf("%s: %q, %v", path, start, err)
		}
		conns = append(conns, conn)
	}
	s.do("POST", "/api/ledger/checkpoint", "").into(t, 200, nil)
	waitUntil(t, func() bool { return b.Stats().Answers.Used == 0 })
	for _, conn := range conns {
		waitUntil(t, func() bool { _, err := conn.Write([]byte("x")); return err != nil })
	}
}
