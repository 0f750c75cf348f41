package attack_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
)

// dialOwner connects to the socket of the server's data directory.
func (s *server) dialOwner() (net.Conn, error) {
	dir, err := os.Open(s.dir) // the address of a Unix socket has a limited length
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.Dial("unix", filepath.Join(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), "owner.sock"))
}

// askOwner sends a request over the owner's socket, as commands do.
func (s *server) askOwner(method, path, body string) (status int, answer string) {
	s.t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return s.dialOwner() },
	}}
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// attachOwner opens a connection as "daybook mcp" does.
func (s *server) attachOwner() (net.Conn, error) {
	conn, err := s.dialOwner()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"protocol": "mcp", "connection": events.NewSessionID()})
	if err != nil {
		return conn, err
	}
	if _, err := fmt.Fprintf(conn, "POST /owner/attach HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return conn, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil) // the answer has no body, and nothing that the reader could take follows it
	if err != nil {
		return conn, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return conn, fmt.Errorf("attach: %s", resp.Status)
	}
	return conn, nil
}

// sendLine sends a line as the client's end of a link does.
func sendLine(to io.Writer, number int, line string) error {
	_, err := fmt.Fprintf(to, "{\"line\":%d,\"bytes\":%d}\n%s", number, len(line), line)
	return err
}

// The memory of the server stays within its limit while clients on the socket of the data
// directory request large answers and read none, and the server disconnects them.
func TestSlowReadersOfTheOwnersSocket(t *testing.T) {
	attack(t, "answers over pipes in mcp, slow clients of links in internal/link")
	s := startServer(t)
	quiet := s.token("quiet", "read,run")
	alone := s.baseline(quiet)
	status, made := s.askOwner(http.MethodPost, "/api/exec?wait=60", `{"code":"'x'.repeat(15 << 20)"}`)
	var run struct {
		ID string `json:"execution_id"`
	}
	if err := json.Unmarshal([]byte(made), &run); err != nil || status != http.StatusOK {
		t.Fatalf("the run with a large result: %d %.300s, %v", status, made, err)
	}
	idle := s.memory()
	stop := s.peak()
	read := fmt.Sprintf(`{"jsonrpc":"2.0","id":%%d,"method":"resources/read","params":{"uri":"execution://%s"}}`, run.ID)
	var opening sync.WaitGroup
	conns := make(chan net.Conn, 200)
	for range choose(100, 200) {
		opening.Go(func() {
			conn, err := s.attachOwner()
			if conn != nil {
				t.Cleanup(func() { conn.Close() })
			}
			if err != nil {
				t.Errorf("attach: %v", err)
				return
			}
			lines := []string{
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			}
			for i := range 20 {
				lines = append(lines, fmt.Sprintf(read, 2+i))
			}
			for i, line := range lines {
				if err := sendLine(conn, 1+i, line); err != nil {
					t.Errorf("send a line: %v", err)
					return
				}
			}
			conns <- conn
		})
	}
	opening.Wait()
	close(conns)
	time.Sleep(choose(10*time.Second, 20*time.Second)) // lets memory grow; there is no event to wait for
	grown := stop() - idle
	t.Logf("idle %d MiB, %d MiB more with clients that read nothing", idle>>20, grown>>20)
	if bound := choose(int64(300<<20), maxGrowth); grown > bound {
		t.Errorf("the server used %d MiB more, the limit is %d", grown>>20, bound>>20)
	}
	s.compare("slow readers of the owner's socket", alone, s.probe(quiet, probes()))
	if *attackSize != "full" {
		return
	}
	// Clients that do not read their answers are disconnected after 30 s.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if _, metrics := s.askOwner(http.MethodGet, "/metrics", ""); strings.Contains(metrics, "daybook_memory_budget_used_bytes{share=\"answers\"} 0\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("answers hold memory after a minute")
		}
	}
}
