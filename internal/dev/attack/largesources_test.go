package attack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sourceBytes is the length of a large request, in bytes: a source may have 16 MiB.
const sourceBytes = 15 << 20

// largeRequest is a request whose body is generated while it is sent, so that many
// clients with large bodies share memory.
type largeRequest struct {
	path, mediaType string
	start           string
	fill            []byte // the same for all requests of a kind
	end             string
	headers         map[string]string
}

func (r largeRequest) body() io.Reader {
	return io.MultiReader(strings.NewReader(r.start), bytes.NewReader(r.fill), strings.NewReader(r.end))
}

func (r largeRequest) size() int64 { return int64(len(r.start) + len(r.fill) + len(r.end)) }

// filler repeats a piece up to a size.
func filler(piece string, size int) []byte { return bytes.Repeat([]byte(piece), size/len(piece)) }

// sendLarge sends a request and returns the status and the beginning of the answer.
func (s *server) sendLarge(token string, r largeRequest) (int, []byte, http.Header, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url()+r.path, r.body())
	if err != nil {
		return 0, nil, nil, err
	}
	req.ContentLength = r.size()
	req.Header.Set("Content-Type", r.mediaType)
	req.Header.Set("Authorization", "Bearer "+token)
	for k, v := range r.headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode, raw, resp.Header, err
}

// sessionsOf holds the sessions of a tenant.
type sessionsOf struct{ logical, mcp string }

// largeSources are the kinds of runs with a large source. The result of each run is the
// number of its request, which makes its source unique.
func largeSources(size int) []func(n int, session sessionsOf) largeRequest {
	const jsonType = "application/json"
	letters, escapes := filler("abcdefgh", size), filler(`\u0061\u0007`, size)
	comment, typed := filler("/*0123456789*/ ", size), filler("type A = { a: number }\n", size)
	return []func(n int, session sessionsOf) largeRequest{
		func(n int, _ sessionsOf) largeRequest { // plain text
			return largeRequest{path: "/api/exec", mediaType: "text/plain", start: fmt.Sprintf("const s%d = '", n), fill: letters, end: fmt.Sprintf("'; %d", n)}
		},
		func(n int, session sessionsOf) largeRequest { // a turn
			return largeRequest{path: "/api/exec", mediaType: jsonType, start: fmt.Sprintf(`{"logical_session":%q,"code":"//%d\n`, session.logical, n), fill: comment, end: fmt.Sprintf(`\n%d"}`, n)}
		},
		func(n int, _ sessionsOf) largeRequest { // escape sequences
			return largeRequest{path: "/api/exec", mediaType: jsonType, start: `{"code":"/*`, fill: escapes, end: fmt.Sprintf(`*/%d"}`, n)}
		},
		func(n int, _ sessionsOf) largeRequest { // TypeScript that must be transformed
			return largeRequest{path: "/api/exec", mediaType: "text/plain", start: "enum E { A }\n", fill: typed, end: fmt.Sprintf("%d", n)}
		},
		func(n int, session sessionsOf) largeRequest { // over MCP
			return largeRequest{
				path: "/mcp", mediaType: jsonType, headers: map[string]string{"Accept": "application/json, text/event-stream", "Mcp-Session-Id": session.mcp},
				start: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"/*`, fill: escapes, end: fmt.Sprintf(`*/%d"}}}`, n),
			}
		},
	}
}

// acceptedRun is a run that the server has accepted.
type acceptedRun struct {
	token, id, result string
}

// sendSources sends large sources from clients of several tenants until the time is over,
// at least one from each client, and returns the accepted runs.
func (s *server) sendSources(tokens []string, clients, size int, during time.Duration, first int) (accepted []acceptedRun, refused int) {
	s.t.Helper()
	kinds := largeSources(size)
	sessions := make([]sessionsOf, len(tokens))
	for i, token := range tokens {
		sessions[i].mcp = s.mcpSession(token)
		sessions[i].logical = s.call(token, http.MethodPost, "/api/logical-sessions", map[string]any{"intent": fmt.Sprintf("large %d", first), "seeds": []string{"builtin"}}, http.StatusOK)["session_id"].(string)
	}
	var mu sync.Mutex
	var sending sync.WaitGroup
	deadline := time.Now().Add(during)
	for i := range clients {
		sending.Go(func() {
			n, tenant := first+i, i%len(tokens)
			request := kinds[i/len(tokens)%len(kinds)](n, sessions[tenant])
			for {
				status, raw, header, err := s.sendLarge(tokens[tenant], request)
				text := string(raw)
				mu.Lock()
				switch {
				case err != nil:
					// The server answers before it has read the body, and closes the connection.
					refused++
				case status == http.StatusServiceUnavailable:
					refused++
					if header.Get("Retry-After") == "" {
						s.t.Errorf("%s: refused without Retry-After: %.300s", request.path, text)
					}
				case status == http.StatusAccepted || status == http.StatusOK && strings.Contains(text, "execution_id"):
					_, rest, _ := strings.Cut(text, "execution_id")
					rest = strings.TrimLeft(rest, `\": `)
					if len(rest) < 36 {
						s.t.Errorf("%s: no execution id in %.300s", request.path, text)
						break
					}
					accepted = append(accepted, acceptedRun{tokens[tenant], rest[:36], fmt.Sprint(n)})
				case strings.Contains(text, "memory"):
					refused++
				default:
					s.t.Errorf("%s: %d %.300s", request.path, status, text)
				}
				done := err == nil && (status == http.StatusAccepted || status == http.StatusOK)
				mu.Unlock()
				if done || time.Now().After(deadline) {
					return
				}
			}
		})
	}
	sending.Wait()
	return accepted, refused
}

// readRuns reads runs over several routes of the API until the time is over, and returns
// the number of answers by status. Each answer is complete, or a refusal with the time of
// the next try.
func (s *server) readRuns(runs []acceptedRun, clients int, during time.Duration) map[int]int {
	s.t.Helper()
	paths := []string{
		"/api/executions/%s", "/api/executions/%s?wait=0", "/api/executions/%s/events", "/api/executions/%s/output", "/api/executions?limit=1000",
		"/api/events?limit=1000", "/api/ledger/export?execution=%s", "/api/sessions", "/api/executions/%s/calls",
	}
	deadline := time.Now().Add(during)
	var reading sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range clients {
		reading.Go(func() {
			for n := i; time.Now().Before(deadline); n++ {
				run := runs[n%len(runs)]
				path := paths[(n/len(runs)+i)%len(paths)]
				if strings.Contains(path, "%s") {
					path = fmt.Sprintf(path, run.id)
				}
				resp, err := s.get(s.t.Context(), run.token, path, "application/json")
				if err != nil {
					s.t.Errorf("%s: %v", path, err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				refused := (resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests) && resp.Header.Get("Retry-After") != ""
				if err != nil || resp.StatusCode != http.StatusOK && !refused {
					s.t.Errorf("%s: %s with Retry-After %q, %v", path, resp.Status, resp.Header.Get("Retry-After"), err)
				}
				mu.Lock()
				statuses[resp.StatusCode]++
				mu.Unlock()
			}
		})
	}
	reading.Wait()
	return statuses
}

// checkGrowth fails the test if the server used more memory than its limit.
func (s *server) checkGrowth(what string, idle, top int64) {
	s.t.Helper()
	s.checkGrowthUpTo(maxGrowth, what, idle, top)
}

// checkGrowthUpTo is checkGrowth with another limit, for a server with a small memory
// budget.
func (s *server) checkGrowthUpTo(bound int64, what string, idle, top int64) {
	s.t.Helper()
	s.t.Logf("%s: idle %d MiB, %d MiB more", what, idle>>20, (top-idle)>>20)
	if top-idle > bound {
		s.t.Errorf("%s: the server used %d MiB more, the limit is %d", what, (top-idle)>>20, bound>>20)
	}
}

// The memory of the server stays within its limit while clients submit runs with large
// sources, in each form, and read them. Every accepted run has its result.
func TestLargeSources(t *testing.T) {
	attack(t, "TestBodiesAreCounted in httpapi")
	s := startServer(t)
	var tokens []string
	for i := range choose(2, 4) {
		tokens = append(tokens, s.token(fmt.Sprintf("attacker%d", i), "read,run"))
	}
	quiet := s.token("quiet", "read,run")
	s.probe(quiet, 3)
	idle := s.memory()
	for round := range choose(1, 2) {
		stop := s.peak()
		clients := choose(20, 200)
		runs, refused := s.sendSources(tokens, clients, sourceBytes, choose(time.Second, 40*time.Second), round*clients)
		s.checkGrowth(fmt.Sprintf("%d runs accepted, %d requests refused", len(runs), refused), idle, stop())
		if len(runs) == 0 {
			t.Fatal("no run was accepted")
		}
		stop = s.peak()
		var lost atomic.Int64
		var waiting sync.WaitGroup
		for _, run := range runs {
			waiting.Go(func() {
				for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); {
					e, err := s.execution(run.token, run.id, "?wait=20")
					if err != nil || e["status"] == "running" {
						continue // refused for now
					}
					if e["status"] != "completed" && e["reason"] != "out_of_memory" && e["reason"] != "timeout" {
						t.Errorf("a run ended with %.600v", e)
					} else if e["status"] == "completed" && e["result"] != run.result {
						t.Errorf("a run has the result %v, want %s", e["result"], run.result)
					}
					return
				}
				lost.Add(1)
			})
		}
		waiting.Wait()
		s.checkGrowth("running them", idle, stop())
		if n := lost.Load(); n > 0 {
			t.Errorf("%d runs did not end", n)
		}
		stop = s.peak()
		statuses := s.readRuns(runs, choose(20, 200), choose(time.Second, 30*time.Second))
		s.checkGrowth(fmt.Sprintf("reading them, answers %v", statuses), idle, stop())
		if statuses[http.StatusOK] == 0 {
			t.Error("no run was read")
		}
	}
	s.probe(quiet, 3)
}

// A tenant sends many large sources, and withholds the rest of a body of the largest size.
// The server still accepts a large source of another tenant, in each form.
func TestLargeSourceBesideAFlood(t *testing.T) {
	attack(t, "TestLargeRequestsOfOthersFit in internal/resources/budget")
	s := startServer(t)
	attacker, quiet := s.token("attacker", "read,run"), s.token("quiet", "read,run")
	body, held := io.Pipe()
	defer held.Close()
	drip, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url()+"/api/exec", body)
	if err != nil {
		t.Fatal(err)
	}
	drip.ContentLength = 49 << 20
	drip.Header.Set("Content-Type", "application/json")
	drip.Header.Set("Authorization", "Bearer "+attacker)
	go func() {
		if resp, err := http.DefaultClient.Do(drip); err == nil {
			resp.Body.Close()
		}
	}()
	if _, err := held.Write(bytes.Repeat([]byte(" "), 2<<20)); err != nil {
		t.Fatal(err)
	}
	var flood sync.WaitGroup
	stop := make(chan struct{})
	for n := range choose(5, 40) {
		flood.Go(func() {
			request := largeSources(sourceBytes)[0](n, sessionsOf{})
			for {
				select {
				case <-stop:
					return
				default:
					_, _, _, _ = s.sendLarge(attacker, request) // refused or not
				}
			}
		})
	}
	session := sessionsOf{mcp: s.mcpSession(quiet)}
	for _, kind := range []int{0, 2, 4} {
		request := largeSources(sourceBytes)[kind](1000+kind, session)
		if status, raw, _, err := s.sendLarge(quiet, request); err != nil || status >= 300 || !strings.Contains(string(raw), "execution_id") {
			t.Errorf("a large source to %s is answered with %d, %v: %.300s", request.path, status, err, raw)
		}
	}
	close(stop)
	flood.Wait()
}

// Four tenants with many clients each send large sources and contexts and read lists. The
// server still accepts a large source of a fifth tenant, which repeats refused requests.
func TestLargeSourceBesideMany(t *testing.T) {
	attack(t, "TestLargeAnswersTakeTurns in internal/resources/budget")
	s := startServer(t)
	quiet := s.token("quiet", "read,run")
	var tokens, sessions []string
	for i := range 4 {
		tokens = append(tokens, s.token(fmt.Sprintf("attacker%d", i), "read,run"))
		sessions = append(sessions, s.mcpSession(tokens[i]))
	}
	session := sessionsOf{mcp: s.mcpSession(quiet)}
	idle := s.memory()
	stop := s.peak()
	edit := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"set_context","arguments":{"custom":{"k":"%s"}}}}`, strings.Repeat(`\u0007`, 200<<10))
	source := largeSources(sourceBytes)[0]
	var flood sync.WaitGroup
	var over atomic.Bool
	for client := range 120 {
		flood.Go(func() {
			token := tokens[client%4]
			for n := client; !over.Load(); n++ {
				switch client / 4 % 3 { // refused or not
				case 0:
					_, _, _, _ = s.sendLarge(token, source(n, sessionsOf{}))
				case 1:
					_, _, _, _ = s.postMCP(t.Context(), token, sessions[client%4], edit)
				default:
					if resp, err := s.get(t.Context(), token, "/api/executions?limit=1000", "application/json"); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
			}
		})
	}
	time.Sleep(choose(time.Second, 5*time.Second)) // lets the flood grow; there is no event to wait for
	for _, kind := range []int{0, 2, 4}[:choose(1, 3)] {
		request := largeSources(sourceBytes)[kind](1000+kind, session)
		var status int
		var raw []byte
		refused, accepted := 0, false
		for deadline := time.Now().Add(time.Minute); !accepted && time.Now().Before(deadline); {
			var err error
			status, raw, _, err = s.sendLarge(quiet, request)
			if accepted = err == nil && status < 300 && strings.Contains(string(raw), "execution_id"); !accepted {
				refused++
			}
		}
		t.Logf("a large source to %s was refused %d times", request.path, refused)
		if !accepted {
			t.Errorf("a large source to %s is answered with %d: %.300s", request.path, status, raw)
		}
	}
	over.Store(true)
	flood.Wait()
	s.checkGrowth("four tenants at once", idle, stop())
}

// execution reads a run, or returns an error when the server refuses.
func (s *server) execution(token, id, query string) (map[string]any, error) {
	resp, err := s.do(s.t.Context(), token, http.MethodGet, "/api/executions/"+id+query, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read a run: %s", resp.Status)
	}
	var e map[string]any
	return e, json.NewDecoder(resp.Body).Decode(&e)
}
