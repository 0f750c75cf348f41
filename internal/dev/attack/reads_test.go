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

// readVariable is the variable with the number of clients of a process, each of which
// requests one path after the other until the process is killed.
const readVariable = "DAYBOOK_ATTACK_READ"

// readInLoop requests paths with many clients at once and reads the answers at full speed.
// It is ready when each path was answered once. It prints each answer that is neither 200
// nor a refusal with a Retry-After.
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

// history records runs of a tenant with lines of output, each in its own session and in a
// common one. It returns the id and the heap of the last run.
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

// The runs of a tenant are answered without an error, and not much later, while another
// tenant requests each kind of answer with many clients that read fast or not at all.
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
			s.t = t // the processes of a load end with its subtest
			defer func() { s.t = before }()
			peak, cpu, start := s.peak(), s.cpu(), time.Now()
			load.start(t)
			under := s.probe(quiet, tries)
			grown := peak() - idle
			used := float64(s.cpu()-cpu) / float64(time.Since(start))
			t.Logf("a quiet tenant's runs: alone p50 %v p99 %v, beside the load p50 %v p99 %v; %d MiB more, %.2f processors",
				percentile(alone, 50), percentile(alone, 99), percentile(under, 50), percentile(under, 99), grown>>20, used)
			if bound := slack(3 * percentile(alone, 99)); percentile(under, 99) > bound {
				t.Errorf("the p99 of the runs beside the load is %v, more than %v", percentile(under, 99), bound)
			}
			if grown > maxGrowth {
				t.Errorf("the server used %d MiB more, the limit is %d", grown>>20, int64(maxGrowth)>>20)
			}
		})
	}
}

// hostileWebhooks registers the largest number of webhooks of a tenant, a quarter of it in
// the short attack, for all events of the ledger. The receivers hang, fail, answer without
// end or redirect without end.
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
	s.call(loud, http.MethodPost, "/api/exec", map[string]any{"code": "1"}, http.StatusAccepted) // an event that is delivered to all of them
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
		t.Errorf("a webhook over the limit of a tenant: %s %.200s", resp.Status, raw)
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
