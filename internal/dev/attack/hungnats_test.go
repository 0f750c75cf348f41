package attack_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// A NATS server that hangs or has ended does not delay clients: they get an answer with
// the reason within 5 s, over REST and MCP. When it is available again, a repeated request
// runs once.
func TestHungNATS(t *testing.T) {
	attack(t, "commands without an answer in ledger")
	runInParallel(t)
	patience := slack(5 * time.Second)
	s, hole := startBehindHole(t)
	token := s.token("client", "read,run")
	before := s.submit(token, `1`, nil)
	heap, _ := s.wait(token, before)["heap"].(string)
	signer := s.token("signer", "admin,read,run,sign")

	for name, hang := range map[string]func(){"hangs": hole.freeze, "refuses connections": hole.shut} {
		hang()
		request := func(key string) (status int, body string, took time.Duration) {
			ctx, stop := context.WithTimeout(t.Context(), 2*patience)
			defer stop()
			began := time.Now()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url()+"/api/exec", strings.NewReader(`{"code":"2"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+token)
			if key != "" {
				req.Header.Set("Idempotency-Key", key)
			}
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
			calls := s.toolSession(t.Context(), token)
			for _, call := range []struct{ tool, arguments, want string }{
				{"run_js", `{"code":"4"}`, "NATS server"},
				{"get_execution", fmt.Sprintf(`{"execution_id":%q}`, before), before},
				{"get_execution", fmt.Sprintf(`{"execution_id":%q}`, before), before},
				{"set_context", `{"custom":{"a":1}}`, hole.addr()},
				{"get_context", `{}`, "session_id"},
				{"open_session", `{"intent":"try","seeds":["builtin"]}`, "NATS server"},
				{"query_heaps_by_tags", `{"tags":{"a":"b"}}`, "results"},
			} {
				began := time.Now()
				answer := calls(call.tool, call.arguments)
				if took := time.Since(began); took > patience || !strings.Contains(answer, call.want) {
					t.Errorf("%s in a session, when NATS %s: after %v: %s", call.tool, name, took, answer)
				}
			}
		})
		routes := []struct{ method, path, want string }{
			{http.MethodGet, "/api/events", hole.addr()},
			{http.MethodGet, "/api/executions/" + before + "/events", hole.addr()},
			{http.MethodGet, "/api/ledger/blobs/heaps/" + heap, hole.addr()},
			{http.MethodGet, "/api/ledger/export", hole.addr()},
			{http.MethodPost, "/api/ledger/checkpoint", hole.addr()},
			{http.MethodGet, "/api/ledger/volumes", hole.addr()},
			{http.MethodGet, "/readyz", hole.addr()},
		}
		for range choose(8, 40) { // heavy reads of a tenant run one after the other
			routes = append(routes, routes[2])
		}
		for _, route := range routes {
			clients.Go(func() {
				began := time.Now()
				resp, err := s.do(t.Context(), signer, route.method, route.path, nil)
				if err != nil {
					t.Errorf("%s %s, when NATS %s: %v", route.method, route.path, name, err)
					return
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if took := time.Since(began); err != nil || resp.StatusCode != http.StatusServiceUnavailable || took > patience || !strings.Contains(string(body), route.want) {
					t.Errorf("%s %s, when NATS %s: %d after %v: %s", route.method, route.path, name, resp.StatusCode, took, body)
				}
			})
		}
		clients.Go(func() {
			began := time.Now()
			e := s.call(token, http.MethodGet, "/api/executions/"+before, nil, http.StatusOK)
			if took := time.Since(began); e["result"] != "1" || took > patience {
				t.Errorf("reading, when NATS %s: after %v: %v", name, took, e)
			}
		})
		clients.Wait()
		// Daybook knows that the NATS server is silent and sends it nothing.
		if status, body, took := request(""); status != http.StatusServiceUnavailable || !strings.Contains(body, hole.addr()) || !strings.Contains(body, "nothing was recorded") || took > slack(5*time.Second/3) {
			t.Errorf("a run without a key, when NATS %s: %d after %v: %s", name, status, took, body)
		}
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
				t.Fatalf("NATS is available again, and the server answers %d: %s", status, body)
			}
		}
		if e := s.wait(token, id); e["status"] != "completed" || e["result"] != "2" {
			t.Errorf("the repeated request answers %v", e)
		}
	}
}

// tool calls a tool over MCP in a new session and returns the raw answer.
func (s *server) tool(ctx context.Context, token, name, arguments string) string {
	s.t.Helper()
	return s.toolSession(ctx, token)(name, arguments)
}

// toolSession opens a session over MCP. The function calls a tool in it and returns the
// raw answer.
func (s *server) toolSession(ctx context.Context, token string) func(name, arguments string) string {
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
	return func(name, arguments string) string {
		answer, _ := post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments))
		return answer
	}
}

// blackHole forwards connections to a server until the test stops it.
type blackHole struct {
	t        *testing.T
	listener net.Listener
	server   string

	mu      sync.Mutex
	refuses bool
	opened  chan struct{} // a closed channel while bytes are forwarded
	conns   []net.Conn
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
		if err != nil {
			client.Close()
			continue
		}
		h.mu.Lock()
		refuses := h.refuses
		if !refuses {
			h.conns = append(h.conns, client, srv)
		}
		h.mu.Unlock()
		if refuses {
			client.Close()
			srv.Close()
			continue
		}
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

// freeze keeps connections open and forwards nothing until open is called.
func (h *blackHole) freeze() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = make(chan struct{})
}

// shut closes connections and accepts none until open is called.
func (h *blackHole) shut() {
	h.mu.Lock()
	h.refuses = true
	h.mu.Unlock()
	h.breakAll()
}

func (h *blackHole) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = false
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

// startBehindHole starts a server that reaches its NATS server through a black hole.
func startBehindHole(t *testing.T) (*server, *blackHole) {
	t.Helper()
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
	return startServer(t, "--nats-url=nats://"+hole.addr()), hole
}

// A server whose NATS server hangs ends within its time limits for draining and signing.
func TestStopWhileNATSHangs(t *testing.T) {
	attack(t, "TestDrainGivesUpOnTheLedger in runner, TestDecided in ledger")
	runInParallel(t)
	s, hole := startBehindHole(t)
	token := s.token("client", "read,run")
	id := s.submit(token, `console.log('under way'); for(;;);`, nil)
	for late := time.Now().Add(20 * time.Second); s.call(token, http.MethodGet, "/api/executions/"+id, nil, http.StatusOK)["status"] != "running"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the run is not started")
		}
	}
	hole.freeze()
	began := time.Now()
	s.end(syscall.SIGTERM)
	took := time.Since(began)
	t.Logf("the server ends after %v", took)
	if took > slack(15*time.Second)+choose(0, 3*time.Second) {
		t.Errorf("a server whose NATS server hangs ends after %v", took)
	}
}
