package attack_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// readVariable is how many clients a process has that ask for paths, each for one after
// the other, until it is killed.
const readVariable = "DAYBOOK_ATTACK_READ"

// readInLoop asks for paths with many clients at once, and reads the answers at full
// speed. Before it is ready, each path is answered once. It prints each answer that is
// neither 200 nor a refusal to try again later.
func readInLoop(clients int, base, token string, paths []string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	get := func(path string) {
		resp, err := getAs(client, base, token, path, "*/*")
		if err != nil {
			time.Sleep(100 * time.Millisecond) // the server is about to end
			return
		}
		defer discard(resp)
		if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
			return
		}
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		fmt.Printf("GET %s: %s: %s\n", path, resp.Status, strings.TrimSpace(string(text)))
	}
	for _, path := range paths {
		get(path)
	}
	fmt.Println(loadReady)
	var reading sync.WaitGroup
	for c := range clients {
		reading.Go(func() {
			for i := c; ; i++ {
				get(paths[i%len(paths)])
			}
		})
	}
	reading.Wait()
}

// history records runs of a tenant, each in a session of its own beside one for all,
// with lines of output, and returns the id of the last run and its heap.
func (s *server) history(token string, runs int) (id, heap string) {
	s.t.Helper()
	const clients = 8
	var submitting sync.WaitGroup
	for c := range clients {
		submitting.Go(func() {
			for i := c; i < runs; i += clients {
				session := "log"
				if i%2 == 0 {
					session = fmt.Sprintf("session-%d", i)
				}
				body := map[string]any{"code": fmt.Sprintf("for (let i = 0; i < 20; i++) console.log('line', i); %d", i), "session": session}
				resp, err := s.do(s.t.Context(), token, http.MethodPost, "/api/exec?wait=60", body)
				if err != nil {
					s.t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode >= http.StatusMultipleChoices {
					s.t.Errorf("a run for the history: %s", resp.Status)
					return
				}
			}
		})
	}
	submitting.Wait()
	e := s.run(token, "globalThis.kept = 'x'.repeat(1000); 1", map[string]any{"session": "log"})
	return e["execution_id"].(string), e["heap"].(string)
}

// Whatever one tenant reads with many clients, fast or not at all, the runs of another
// tenant are answered without an error, and not much later than without them.
func TestReads(t *testing.T) {
	attack(t, "TestHeavyReadsQueue in httpapi, internal/resources/reads, and TestSmallAnswersOfOthersFit in internal/resources/budget")
	s := startServer(t, "--limit-streams=0", "--webhook-allow-private")
	loud, quiet := s.token("loud", "read,run"), s.token("quiet", "read,run")
	admin := s.token("loud", "read,run,admin")
	id, heap := s.history(loud, choose(32, 10_000))
	s.probe(quiet, choose(4, 20))
	tries := choose(8, 400)
	alone := s.probe(quiet, tries)
	idle := s.memory()
	clients := choose(20, 50)
	looping := func(paths ...string) func(*testing.T) {
		return func(*testing.T) { s.load(readVariable, loud, clients, paths...) }
	}
	for _, load := range []struct {
		name  string
		start func(t *testing.T)
	}{
		{"held exports", func(t *testing.T) {
			for range choose(20, 40) {
				conn, err := s.slowReader(loud, "/api/ledger/export", "*/*")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
			}
		}},
		{"exports", looping("/api/ledger/export", "/api/ledger/export?session=log")},
		{"lists", looping("/api/executions?limit=1000", "/api/heaps?limit=1000", "/api/sessions?kind=all&limit=1000", "/api/executions?text=nothing+has+this", "/api/executions")},
		{"logs and replays", looping("/api/sessions/log/entries", "/api/sessions/log/replay?speed=max", "/api/sessions/log/turns", "/api/executions/"+id+"/events")},
		{"proofs", looping("/api/ledger/proof?seq=1", "/api/ledger/proof?from=3&to=30", "/api/ledger/checkpoint", "/api/ledger/tile/0/000.p/1")},
		{"documents", looping("/openapi.json", "/docs", "/")},
		{"heaps", looping("/api/ledger/blobs/heaps/"+heap, "/api/heaps/"+heap+"/lineage", "/api/heaps/"+heap)},
		{"webhooks", func(t *testing.T) { s.hostileWebhooks(t, admin, loud) }},
	} {
		t.Run(load.name, func(t *testing.T) {
			before := s.t
			s.t = t // what a load starts ends with it
			defer func() { s.t = before }()
			peak, cpu, start := s.peak(), s.cpu(), time.Now()
			load.start(t)
			under := s.probe(quiet, tries)
			grown := peak() - idle
			used := float64(s.cpu()-cpu) / float64(time.Since(start))
			t.Logf("a quiet tenant's runs: alone p50 %v p99 %v, beside the load p50 %v p99 %v; %d MiB more, %.2f processors",
				percentile(alone, 50), percentile(alone, 99), percentile(under, 50), percentile(under, 99), grown>>20, used)
			if bound := slack(3 * percentile(alone, 99)); percentile(under, 99) > bound {
				t.Errorf("99 of 100 runs took up to %v beside the load, more than %v", percentile(under, 99), bound)
			}
			if grown > maxGrowth {
				t.Errorf("the server used %d MiB more, the bound is %d", grown>>20, int64(maxGrowth)>>20)
			}
		})
	}
}

// hostileWebhooks registers as many webhooks as a tenant may have, in the short attack a
// quarter of them, with receivers that hang, fail, answer without end or redirect for
// ever, for all events of the ledger.
func (s *server) hostileWebhooks(t *testing.T, admin, loud string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	mux.HandleFunc("/fail", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for piece := make([]byte, 64<<10); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
	})
	url := serveLocal(t, mux)
	const most = 64
	n := choose(16, most)
	for i := range n {
		path := []string{"/hang", "/fail", "/endless", "/loop"}[i%4]
		s.call(admin, http.MethodPost, "/api/webhooks", map[string]any{"url": url + path, "after": 0}, http.StatusCreated)
	}
	s.call(loud, http.MethodPost, "/api/exec", map[string]any{"code": "1"}, http.StatusAccepted) // an event that waits for all of them
	if n < most {
		return
	}
	resp, err := s.do(t.Context(), admin, http.MethodPost, "/api/webhooks", map[string]any{"url": url + "/hang"})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode < http.StatusBadRequest || !strings.Contains(string(raw), "webhooks already") {
		t.Errorf("a webhook more than a tenant may have: %s %.200s", resp.Status, raw)
	}
}

// serveLocal serves a handler on a loopback address until the test ends.
func serveLocal(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(l) }() // ends with Close
	t.Cleanup(func() { srv.Close() })
	return "http://" + l.Addr().String()
}
