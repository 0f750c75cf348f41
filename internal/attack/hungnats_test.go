package attack_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// A NATS server that hangs, or is gone, does not delay clients: they have an
// answer with the reason within 5 s, over REST and MCP. When it is back, a
// repeated request runs once.
func TestHungNATS(t *testing.T) {
	attack(t, "commands without an answer in ledger")
	unhurried(t)
	patience := choose(15*time.Second, 5*time.Second) // the promise, and time for a busy machine
	ns, err := natsd.NewServer(&natsd.Options{
		Host: "127.0.0.1", Port: natsd.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	hole := newBlackHole(t, ns.Addr().String())
	s := startServer(t, "--nats-url=nats://"+hole.addr())
	token := s.token("client", "read,run")
	before := s.submit(token, `1`, nil)
	s.wait(token, before)

	for name, hang := range map[string]func(){"hangs": hole.freeze, "refuses connections": hole.shut} {
		hang()
		request := func(key string) (status int, body string, took time.Duration) {
			ctx, stop := context.WithTimeout(t.Context(), 40*time.Second)
			defer stop()
			began := time.Now()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url()+"/api/exec", strings.NewReader(`{"code":"2"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("Idempotency-Key", key)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return 0, "", 0
			}
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			return resp.StatusCode, string(raw), time.Since(began)
		}
		var clients sync.WaitGroup
		clients.Go(func() {
			status, body, took := request("repeated-" + strings.ReplaceAll(name, " ", "-"))
			if status != http.StatusServiceUnavailable || !strings.Contains(body, "NATS server") || took > patience {
				t.Errorf("REST, when NATS %s: %d after %v: %s", name, status, took, body)
			}
		})
		clients.Go(func() {
			began := time.Now()
			answer := s.tool(t.Context(), token, "run_js", `{"code":"3"}`)
			if took := time.Since(began); !strings.Contains(answer, "NATS server") || !strings.Contains(answer, `"isError":true`) || took > patience {
				t.Errorf("MCP, when NATS %s: after %v: %s", name, took, answer)
			}
		})
		clients.Go(func() {
			began := time.Now()
			e := s.call(token, http.MethodGet, "/api/executions/"+before, nil, http.StatusOK)
			if took := time.Since(began); e["result"] != "1" || took > patience {
				t.Errorf("reading, when NATS %s: after %v: %v", name, took, e)
			}
		})
		clients.Wait()
		hole.open()
		var id string
		for deadline := time.Now().Add(30 * time.Second); ; {
			status, body, _ := request("repeated-" + strings.ReplaceAll(name, " ", "-"))
			if status == http.StatusAccepted || status == http.StatusOK {
				_, rest, _ := strings.Cut(body, `"execution_id":"`)
				id, _, _ = strings.Cut(rest, `"`)
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("NATS is back, and the server answers %d: %s", status, body)
			}
		}
		if e := s.wait(token, id); e["status"] != "completed" || e["result"] != "2" {
			t.Errorf("the repeated request answers %v", e)
		}
	}
}

// tool calls a tool over MCP and returns the answer as it is.
func (s *server) tool(ctx context.Context, token, name, arguments string) string {
	s.t.Helper()
	post := func(session, body string) (string, string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url()+"/mcp", strings.NewReader(body))
		if err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", "Bearer "+token)
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			s.t.Error(err)
			return "", ""
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			s.t.Error(err)
		}
		return string(raw), resp.Header.Get("Mcp-Session-Id")
	}
	_, session := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	answer, _ := post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments))
	return answer
}

// blackHole passes connections on to a server until the test stops it.
type blackHole struct {
	t        *testing.T
	listener net.Listener
	server   string
	refuses  atomic.Bool

	mu     sync.Mutex
	opened chan struct{} // closed while bytes pass
	conns  []net.Conn
}

func newBlackHole(t *testing.T, server string) *blackHole {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &blackHole{t: t, listener: l, server: server, opened: make(chan struct{})}
	close(h.opened)
	go h.serve()
	t.Cleanup(func() { l.Close(); h.open(); h.breakAll() })
	return h
}

func (h *blackHole) addr() string { return h.listener.Addr().String() }

func (h *blackHole) serve() {
	for {
		client, err := h.listener.Accept()
		if err != nil {
			return
		}
		srv, err := net.Dial("tcp", h.server)
		if err != nil || h.refuses.Load() {
			client.Close()
			continue
		}
		h.mu.Lock()
		h.conns = append(h.conns, client, srv)
		h.mu.Unlock()
		go h.pass(client, srv)
		go h.pass(srv, client)
	}
}

func (h *blackHole) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		h.mu.Lock()
		opened := h.opened
		h.mu.Unlock()
		<-opened
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// freeze keeps connections open and passes nothing on until open.
func (h *blackHole) freeze() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = make(chan struct{})
}

// shut breaks connections and takes none until open.
func (h *blackHole) shut() {
	h.refuses.Store(true)
	h.breakAll()
}

func (h *blackHole) open() {
	h.refuses.Store(false)
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.opened:
	default:
		close(h.opened)
	}
}

func (h *blackHole) breakAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.Close()
	}
	h.conns = nil
}
