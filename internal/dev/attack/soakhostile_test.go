package attack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// hostile is the tenant that attacks. It ignores errors, except for answers that no request
// may cause.
type hostile struct {
	k           *soak
	token       string
	nats        string // address of the NATS listener
	credentials string // path of the file with the credentials
	random      *rand.Rand
	attacks     int
	counts      map[string]int // attacks by name

	mu       sync.Mutex // guards sessions
	sessions []string   // of MCP
}

// attackTime is the duration of each attack.
func attackTime() time.Duration { return min(12*time.Second, *soakTime/8) }

// attack repeats all attacks in random order until ctx is done.
func (h *hostile) attack(ctx context.Context) {
	attacks := map[string]func(context.Context){
		"slow heaps": h.slowHeaps, "slow events": h.slowEvents, "endless runs": h.endless, "queued turns": h.queuedTurns, "idle connections": h.idle,
		"MCP": h.mcp, "reads": h.reads, "NATS": h.consumers, "followers": h.followers, "poisoned heaps": h.poison, "output": h.output, "cancels": h.cancels,
	}
	names := []string{"slow heaps", "slow events", "endless runs", "queued turns", "idle connections", "MCP", "reads", "NATS", "followers", "poisoned heaps", "output", "cancels"}
	h.counts = map[string]int{}
	for ctx.Err() == nil {
		h.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			if ctx.Err() != nil {
				return
			}
			h.k.t.Logf("%s attack: %s", time.Now().UTC().Format(time.TimeOnly), name)
			limited, stop := context.WithTimeout(ctx, attackTime())
			attacks[name](limited)
			stop()
			h.attacks++
			h.counts[name]++
		}
	}
}

// send sends a request. It returns nil if there is no answer in JSON. A status of 500 is
// always a failure of the server.
func (h *hostile) send(ctx context.Context, method, path string, body any) map[string]any {
	resp, err := h.k.s.do(ctx, h.token, method, path, body)
	if err != nil {
		sleep(ctx, 10*time.Millisecond)
		return nil
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil
	}
	if resp.StatusCode == http.StatusInternalServerError {
		h.k.failf("hostile: %s %s: %s: %.500s", method, path, resp.Status, raw)
	}
	var answer map[string]any
	if json.Unmarshal(raw, &answer) != nil {
		return nil
	}
	return answer
}

// submit starts a run and returns its id, or "" if it was not accepted.
func (h *hostile) submit(ctx context.Context, code string, members map[string]any) string {
	body := map[string]any{"code": code}
	for name, v := range members {
		body[name] = v
	}
	id, _ := h.send(ctx, http.MethodPost, "/api/exec", body)["execution_id"].(string)
	return id
}

// ended waits for a run and returns it.
func (h *hostile) ended(ctx context.Context, id string) map[string]any {
	for id != "" && ctx.Err() == nil {
		if e := h.send(ctx, http.MethodGet, "/api/executions/"+id+"?wait=5", nil); e["status"] != "running" && e["status"] != nil {
			return e
		}
	}
	return nil
}

// clients calls f from several clients until ctx is done.
func (h *hostile) clients(ctx context.Context, n int, f func(client, i int)) {
	var wg sync.WaitGroup
	for c := range n {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				f(c, i)
			}
		})
	}
	wg.Wait()
}

// cancelAll cancels all waiting and running executions.
func (h *hostile) cancelAll(ctx context.Context) {
	for began := time.Now(); time.Since(began) < 5*time.Minute; {
		answer := h.send(ctx, http.MethodGet, "/api/executions?status=running&limit=1000", nil)
		list, ok := answer["executions"].([]any)
		if ok && len(list) == 0 {
			return
		}
		ids := make(chan string, len(list))
		for _, item := range list {
			if id, ok := item.(map[string]any)["execution_id"].(string); ok {
				ids <- id
			}
		}
		close(ids)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for id := range ids {
					h.send(ctx, http.MethodPost, "/api/executions/"+id+"/cancel", nil)
				}
			})
		}
		wg.Wait()
	}
	h.k.failf("hostile: its runs are not cancelled after five minutes")
}

// slowReaders holds connections that read nothing until ctx is done.
func (h *hostile) slowReaders(ctx context.Context, readers int, accept string, paths ...string) {
	var conns []net.Conn
	defer func() { closeAll(conns) }()
	for i := range readers {
		conn, err := h.k.s.slowReader(h.token, paths[i%len(paths)], accept)
		if conn != nil {
			conns = append(conns, conn)
		}
		if err != nil {
			break
		}
	}
	<-ctx.Done()
}

func (h *hostile) slowHeaps(ctx context.Context) {
	id := h.submit(ctx, largeHeapCode(32), map[string]any{"heap_memory_max_mb": 256, "execution_timeout_secs": 60})
	if heap, ok := h.ended(ctx, id)["heap"].(string); ok {
		h.slowReaders(ctx, 60, "*/*", "/api/ledger/blobs/heaps/"+heap)
	}
}

func (h *hostile) slowEvents(ctx context.Context) {
	id := h.submit(ctx, outputCode(8<<10), nil)
	if h.ended(ctx, id) != nil {
		h.slowReaders(ctx, 80, "application/json", "/api/executions/"+id+"/events", "/api/executions/"+id+"/output?byte_offset=0&byte_limit=16777216", "/api/ledger/export", "/api/events")
	}
}

func (h *hostile) endless(ctx context.Context) {
	for range 6 {
		h.submit(ctx, "for (;;) {}", map[string]any{"execution_timeout_secs": 60})
	}
	<-ctx.Done()
	h.cancelAll(h.k.t.Context())
}

func (h *hostile) queuedTurns(ctx context.Context) {
	session, _ := h.send(ctx, http.MethodPost, "/api/logical-sessions", map[string]any{"intent": fmt.Sprint("queue ", h.attacks), "seeds": []string{"builtin"}})["session_id"].(string)
	h.submit(ctx, "for (;;);", map[string]any{"logical_session": session, "execution_timeout_secs": 60})
	h.clients(ctx, 4, func(int, int) { h.submit(ctx, "1", map[string]any{"logical_session": session}) })
	h.cancelAll(h.k.t.Context())
}

func (h *hostile) idle(ctx context.Context) {
	conns, _ := h.k.s.holdConnections(500)
	<-ctx.Done()
	closeAll(conns)
}

func (h *hostile) mcp(ctx context.Context) {
	_, _, header, err := h.k.s.postMCP(ctx, h.token, "", initializeMessage)
	if err != nil {
		return
	}
	session := header.Get("Mcp-Session-Id")
	h.keep(session)
	bodies := []string{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, batch(1000, runMessage), batch(100, runMessage), batch(100_000, pingMessage), initializeMessage}
	h.clients(ctx, 2, func(client, i int) {
		of := session
		if i%len(bodies) == 4 {
			of = ""
		}
		status, answer, header, err := h.k.s.postMCP(ctx, h.token, of, bodies[i%len(bodies)])
		if err == nil && of == "" {
			h.keep(header.Get("Mcp-Session-Id"))
		}
		if err == nil && status == http.StatusInternalServerError {
			h.k.failf("hostile: POST /mcp: %d: %.500s", status, answer)
		}
	})
	h.cancelAll(h.k.t.Context())
}

// keep stores a session for endSessions.
func (h *hostile) keep(session string) {
	if session == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions = append(h.sessions, session)
}

// endSessions ends the MCP sessions. The server keeps an unused session for 30 minutes, and
// at most 256 of a principal. A soak does not wait that long.
func (h *hostile) endSessions(ctx context.Context) {
	for _, session := range h.sessions {
		req, err := h.k.s.request(ctx, h.token, http.MethodDelete, "/mcp", nil)
		if err != nil {
			h.k.failf("hostile: %v", err)
			return
		}
		req.Header.Set("Mcp-Session-Id", session)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			h.k.failf("hostile: end an MCP session: %v", err)
			return
		}
		resp.Body.Close() // 404 if the server was killed since
	}
}

func (h *hostile) reads(ctx context.Context) {
	paths := []string{"/api/ledger/proof?seq=1", "/api/ledger/checkpoint?fresh=true", "/api/ledger/checkpoint", "/api/ledger/proof?seq=1000000000000", "/api/context?session=soak-"}
	h.clients(ctx, 4, func(client, i int) {
		path := paths[i%len(paths)]
		if strings.HasSuffix(path, "-") {
			path += fmt.Sprint(client, "-", i)
		}
		h.send(ctx, http.MethodGet, path, nil)
	})
}

func (h *hostile) consumers(ctx context.Context) {
	nc, err := connectNATS(h.nats, strings.TrimSpace(h.credentials))
	if err != nil {
		if !h.k.isExplained(time.Now()) {
			h.k.failf("hostile: connect to NATS: %v", err)
		}
		return
	}
	defer nc.Close()
	for i := 0; i < 100 && ctx.Err() == nil && nc.IsConnected(); i++ {
		request, _ := json.Marshal(map[string]any{"stream_name": "LEDGER-0001", "config": map[string]any{"durable_name": fmt.Sprintf("c%d", i), "ack_policy": "explicit",
			"inactive_threshold": 10 * time.Second, "metadata": map[string]string{"m": strings.Repeat("m", 1000*(i%2*99+1))}}})
		_, _ = nc.RequestWithContext(ctx, fmt.Sprintf("$JS.API.CONSUMER.CREATE.LEDGER-0001.c%d", i), request)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			nc, err := connectNATS(h.nats, strings.TrimSpace(h.credentials))
			if err != nil {
				return
			}
			defer nc.Close()
			for ctx.Err() == nil && nc.IsConnected() {
				requestMuch(nc)
			}
		})
	}
	wg.Wait()
	<-ctx.Done()
}

func (h *hostile) followers(ctx context.Context) {
	id := h.submit(ctx, steadyOutput, map[string]any{"execution_timeout_secs": 60})
	var wg sync.WaitGroup
	for i := range 100 { // more than a principal may have
		wg.Go(func() {
			resp, err := h.k.s.get(ctx, h.token, []string{"/api/events", "/api/executions/" + id + "/output"}[i%2], "text/event-stream")
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	<-ctx.Done()
	h.cancelAll(h.k.t.Context())
}

func (h *hostile) poison(ctx context.Context) {
	h.clients(ctx, 2, func(_, i int) {
		p := poisonedHeaps[i%len(poisonedHeaps)]
		if heap, ok := h.ended(ctx, h.submit(ctx, p.past, nil))["heap"].(string); ok {
			h.submit(ctx, p.later, map[string]any{"heap": heap, "execution_timeout_secs": 2})
		}
	})
	h.cancelAll(h.k.t.Context())
}

func (h *hostile) output(ctx context.Context) {
	h.submit(ctx, outputCode(20<<10), nil)
	h.submit(ctx, steadyOutput, map[string]any{"execution_timeout_secs": 30})
	<-ctx.Done()
	h.cancelAll(h.k.t.Context())
}

func (h *hostile) cancels(ctx context.Context) {
	h.clients(ctx, 4, func(_, i int) {
		id := h.submit(ctx, []string{"for (;;);", "1", "await new Promise((done) => setTimeout(done, 5000))"}[i%3], nil)
		if id != "" {
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { h.send(ctx, http.MethodPost, "/api/executions/"+id+"/cancel", nil) })
			}
			wg.Wait()
		}
	})
	h.cancelAll(h.k.t.Context())
}
