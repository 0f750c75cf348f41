package attack_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const initializeMessage = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"attack","version":"1"}}}`

// mcp posts a body to /mcp and returns the status, the answer and its header.
func (s *server) mcp(token, session, body string) (int, string, http.Header) {
	s.t.Helper()
	status, answer, header, err := s.postMCP(s.t.Context(), token, session, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return status, answer, header
}

// postMCP is mcp with an error, for a server that may be killed meanwhile.
func (s *server) postMCP(ctx context.Context, token, session, body string) (int, string, http.Header, error) {
	req, err := s.request(ctx, token, http.MethodPost, "/mcp", body)
	if err != nil {
		return 0, "", nil, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), resp.Header, err
}

// runMessage is a call of run_js, pingMessage a ping.
func runMessage(i int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"%d"}}}`, i, i)
}

func pingMessage(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i) }

// mcpSession opens a session of the protocol revision that has batches.
func (s *server) mcpSession(token string) string {
	s.t.Helper()
	status, body, header := s.mcp(token, "", initializeMessage)
	if status != http.StatusOK {
		s.t.Fatalf("initialize: %d %s", status, body)
	}
	session := header.Get("Mcp-Session-Id")
	if status, body, _ := s.mcp(token, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		s.t.Fatalf("initialized: %d %s", status, body)
	}
	return session
}

func batch(n int, message func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = message(i)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// A batch of many messages counts as many requests.
func TestMCPBatch(t *testing.T) {
	attack(t, "TestBatchCountsEachMessage and TestBatchRules in mcp")
	s := newServer(t, "--limit-requests=1")
	loud, quiet := s.token("loud", "read,run"), s.token("quiet", "read,run")
	s.start()
	began := time.Now()
	session := s.mcpSession(loud)
	for _, n := range []int{1000, 100} {
		status, body, header := s.mcp(loud, session, batch(n, runMessage))
		t.Logf("a batch of %d runs: %d, Retry-After %q, %d bytes", n, status, header.Get("Retry-After"), len(body))
		if n > 100 && status != http.StatusRequestEntityTooLarge {
			t.Errorf("a batch of %d runs was answered %d", n, status)
		}
		if n == 100 && status == http.StatusOK && header.Get("Retry-After") == "" {
			t.Error("a batch over the rate names no Retry-After")
		}
	}
	// Pings must cost only the time to read them.
	before := s.cpu()
	status, _, _ := s.mcp(loud, session, batch(200_000, pingMessage))
	if used := s.cpu() - before; used > 2*time.Second {
		t.Errorf("200,000 pings in one body: %v of processor time, answered %d", used, status)
	}
	probed := s.probe(quiet, 5)
	accepted := -1
	for ; accepted < 0; time.Sleep(100 * time.Millisecond) { // until the tenant's rate admits the query
		resp, err := s.do(t.Context(), loud, http.MethodGet, "/api/executions?limit=1000", nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			accepted = strings.Count(string(raw), `"execution_id"`)
		}
	}
	t.Logf("%d runs were accepted; a run of the quiet tenant takes %v", accepted, percentile(probed, 50))
	// The burst of ten seconds, and one run for each second since.
	if most := 10 + int(time.Since(began)/time.Second) + 1; accepted > most {
		t.Errorf("%d runs were accepted at one request a second, want at most %d", accepted, most)
	}
}

// Two clients that send large batches as fast as they can do not slow another tenant.
func TestMCPFlood(t *testing.T) {
	attack(t, "TestBatchRules in mcp")
	s := startServer(t)
	loud, quiet := s.token("loud", "read"), s.token("quiet", "read,run")
	alone := s.baseline(quiet)
	stop := s.load(batchVariable, loud, 2, s.mcpSession(loud))
	beside := s.probe(quiet, probes())
	stop()
	s.compare("large MCP batches", alone, beside)
}

// batchVariable is the variable with the number of clients of a process that send large
// batches over MCP. The session is passed instead of a path.
const batchVariable = "DAYBOOK_ATTACK_BATCH"

// sendBatches runs the load of these clients.
func sendBatches(clients int, base, token string, session []string) {
	bodies := []string{batch(200_000, pingMessage), batch(1_000, runMessage)}
	send := func(body string) error {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/mcp", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Mcp-Session-Id", session[0])
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer discard(resp)
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			return fmt.Errorf("a batch is answered %s", resp.Status)
		}
		return nil
	}
	for _, body := range bodies {
		if err := send(body); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(loadReady)
	var sending sync.WaitGroup
	for c := range clients {
		sending.Go(func() {
			for {
				if err := send(bodies[c%len(bodies)]); err != nil {
					fmt.Println(err)
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
	}
	sending.Wait()
}
