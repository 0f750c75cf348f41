package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/runner"
)

// consume runs Consume until stop is called. stop waits until Consume has returned.
func consume(t *testing.T, s *jetstream.Store, slots int, fn func(context.Context, runner.Delivery)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Consume(ctx, events.DefaultPool, fairness.Slots{Total: slots}, fn) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

var errEnough = errors.New("enough")

func mustAppend(t testing.TB, s *jetstream.Store, e events.Event, after int64) uint64 {
	t.Helper()
	seq, err := s.Append(t.Context(), e, after)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// network connects a Store and an outside server. It can drop the output of the server
// and break connections.
type network struct {
	listener net.Listener
	server   string

	sent, pings atomic.Int64 // bytes that clients have sent, without pings

	mu    sync.Mutex
	deaf  bool
	conns []net.Conn
}

func (n *network) serve(running *sync.WaitGroup) {
	for {
		client, err := n.listener.Accept()
		if err != nil {
			return
		}
		srv, err := net.Dial("tcp", n.server)
		if err != nil {
			client.Close()
			continue
		}
		n.mu.Lock()
		n.conns = append(n.conns, client, srv)
		n.mu.Unlock()
		running.Go(func() { defer srv.Close(); defer client.Close(); _, _ = io.Copy(srv, io.TeeReader(client, n)) })
		running.Go(func() { defer srv.Close(); defer client.Close(); n.copyBack(client, srv) })
	}
}

// Write counts the bytes that a client has sent.
func (n *network) Write(p []byte) (int, error) {
	const ping = "PING\r\n" // a late reader of the connection receives several at once
	pings := bytes.Count(p, []byte(ping))
	n.pings.Add(int64(pings))
	n.sent.Add(int64(len(p) - pings*len(ping)))
	return len(p), nil
}

// copyBack forwards the output of the server, unless it is to be dropped.
func (n *network) copyBack(client, srv net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		got, err := srv.Read(buf)
		if err != nil {
			return
		}
		n.mu.Lock()
		deaf := n.deaf
		n.mu.Unlock()
		if deaf {
			continue
		}
		if _, err := client.Write(buf[:got]); err != nil {
			return
		}
	}
}

// lose drops all output of the server from now on.
func (n *network) lose() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf = true
}

// heal breaks all connections. New connections work.
func (n *network) heal() {
	n.mu.Lock()
	n.deaf = false
	n.mu.Unlock()
	n.breakAll()
}

func (n *network) breakAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

func newBudget() *budget.Budget {
	return budget.New(budget.Options{Answers: 64 << 20, Runs: 1, Cache: 1, Patience: 1})
}

func newID() string { return events.NewID(time.Now()) }

// patience is how long a test waits for a condition.
const patience = 2 * time.Minute

func requested(id string) events.Event {
	return events.New(tenant, time.Now(), &events.ExecutionRequested{
		ExecutionID: id, Pool: events.DefaultPool,
		Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1"}}),
	})
}

func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func started(id string, attempt int) events.Event {
	return events.New(tenant, time.Now(), &events.ExecutionStarted{ExecutionID: id, Attempt: attempt})
}

const tenant = events.DefaultTenant

// unreliable opens a ledger over a network that the test controls, and a second
// connection that bypasses it.
func unreliable(t *testing.T, opts jetstream.Options) (*jetstream.Store, *network, *nats.Conn) {
	t.Helper()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{listener: l, server: ns.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() { n.serve(&running) })
	t.Cleanup(func() { l.Close(); n.heal(); running.Wait() })

	dial := func(addr string) *nats.Conn {
		nc, err := nats.Connect("nats://"+addr, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
			nats.Timeout(time.Minute), // a machine under load may need more than the default of 2 s
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the test breaks it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	opts.Client.Logger = storetest.Logger(t)
	s, err := jetstream.Open(t.Context(), dial(l.Addr().String()), dial(l.Addr().String()), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s, n, dial(n.server)
}

// until waits until reached returns true.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !reached(); {
		if time.Now().After(late) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
