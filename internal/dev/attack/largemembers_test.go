package attack_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// shortHeaders returns header lines of a few bytes each, with a total size.
func shortHeaders(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%x:\r\n", i)
	}
	return b.String()
}

// sendHeaders requests a path with additional headers and returns the status.
func (s *server) sendHeaders(token, path, headers string) (int, error) {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n", path, s.addr, token, headers); err != nil {
		return 0, err // the server may answer and close before it has read the headers
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// answersTo reads answers to requests of many clients until the time is over, and returns
// their number by status.
func (s *server) answersTo(clients int, during time.Duration, request func(client, n int) (*http.Response, error)) map[int]int {
	statuses := map[int]int{}
	var mu sync.Mutex
	var reading sync.WaitGroup
	deadline := time.Now().Add(during)
	for client := range clients {
		reading.Go(func() {
			for n := 0; time.Now().Before(deadline); n++ {
				status := 0
				if resp, err := request(client, n); err == nil {
					status = resp.StatusCode
					_, _ = io.Copy(io.Discard, resp.Body) // a slow answer may be cut
					resp.Body.Close()
				}
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	reading.Wait()
	return statuses
}

// The memory of the server stays within its limit while clients and scripts send the
// largest headers, tags and texts that are accepted, many at once.
func TestLargeMembers(t *testing.T) {
	attack(t, "TestHeadersAreBounded and TestLargeTextsAreEncodedInPieces in httpapi, TestEscapesAreCounted in mcp")
	s := startServer(t)
	var tokens, sessions []string
	for i := range 4 {
		tokens = append(tokens, s.token(fmt.Sprintf("attacker%d", i), "read,run"))
		sessions = append(sessions, s.mcpSession(tokens[i]))
	}
	quiet := s.token("quiet", "read,run")
	s.probe(quiet, 10)
	idle := s.memory()
	clients := choose(100, 200)

	headers := []string{shortHeaders(62 << 10), "X-Long: " + strings.Repeat("x", 15<<10) + "\r\n"}
	stop := s.peak()
	statuses := s.answersTo(200, choose(3*time.Second, 15*time.Second), func(client, n int) (*http.Response, error) {
		path := []string{"/healthz", "/api/executions?limit=1"}[client%2]
		status, err := s.sendHeaders(tokens[client%len(tokens)], path, headers[min(n%3, 1)])
		return &http.Response{StatusCode: status, Body: http.NoBody}, err
	})
	s.checkGrowth(fmt.Sprintf("headers, answers %v", statuses), idle, stop())
	if statuses[http.StatusOK] == 0 {
		t.Error("no request with 15 KiB of headers was answered")
	}
	s.probe(quiet, 2)

	for _, text := range []struct{ name, code, member string }{
		{"a result of control characters", "'\\u0007'.repeat(15 << 20)", "result"},
		{"an error of line ends", "const e = new Error('a'); e.stack = 's\\n'.repeat(7 << 20); throw e", "error"},
	} {
		stop := s.peak()
		readers := tokens[:choose(1, len(tokens))]
		ids := make([]string, len(readers))
		for i, token := range readers {
			ids[i] = s.submit(token, text.code, map[string]any{"heap_memory_max_mb": 256, "execution_timeout_secs": 60})
		}
		for i, token := range readers {
			if e := s.wait(token, ids[i]); len(fmt.Sprint(e[text.member])) < 14<<20 {
				t.Fatalf("%s: the run ended with %.300v", text.name, e)
			}
		}
		statuses := s.answersTo(clients, choose(1500*time.Millisecond, 20*time.Second), func(client, n int) (*http.Response, error) {
			i := client % len(readers)
			if (client/len(readers)+n)%4 == 0 {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d-%d","method":"resources/read","params":{"uri":"execution://%s/%s"}}`, client, n, ids[i], text.member)
				status, _, _, err := s.postMCP(t.Context(), tokens[i], sessions[i], body)
				return &http.Response{StatusCode: status, Body: http.NoBody}, err
			}
			return s.get(t.Context(), tokens[i], "/api/executions/"+ids[i], "application/json")
		})
		s.checkGrowth(fmt.Sprintf("%s, answers %v", text.name, statuses), idle, stop())
		s.probe(quiet, 2)
	}

	tags := map[string]string{}
	for i := range 64 {
		tags[fmt.Sprint("k", i)] = strings.Repeat("v", 4<<10)
	}
	raw, err := json.Marshal(map[string]any{"code": "1", "tags": tags})
	if err != nil {
		t.Fatal(err)
	}
	body := string(raw)
	stop = s.peak()
	statuses = s.answersTo(clients, choose(1500*time.Millisecond, 15*time.Second), func(client, n int) (*http.Response, error) {
		if n%4 == 3 {
			return s.get(t.Context(), tokens[client%len(tokens)], "/api/executions?limit=1000", "application/json")
		}
		return s.do(t.Context(), tokens[client%len(tokens)], http.MethodPost, "/api/exec", body)
	})
	s.checkGrowth(fmt.Sprintf("tags, answers %v", statuses), idle, stop())
	if statuses[http.StatusAccepted] == 0 {
		t.Error("no run with large tags was accepted")
	}
	s.probe(quiet, 2)
}
