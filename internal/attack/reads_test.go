package attack_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// readVariable is how many clients a process of the test binary has: its arguments are
// the URL of the server, the token and the paths, which each client asks for one after
// the other until the process is killed.
const readVariable = "DAYBOOK_ATTACK_READ"

// readInLoop asks for paths with many clients at once, and reads the answers at full
// speed. Before it says that it is ready, each path is answered once. It says which
// answer is neither 200 nor a refusal to try again later.
func readInLoop(count string) {
	n, err := strconv.Atoi(count)
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	base, token, paths := os.Args[1], os.Args[2], os.Args[3:]
	get := func(path string) {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, base+path, nil)
		if err != nil {
			panic(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			time.Sleep(100 * time.Millisecond) // the server is about to end
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
			_, _ = io.Copy(io.Discard, resp.Body)
			return
		}
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
			fmt.Printf("GET %s: %s: %s\n", path, resp.Status, strings.TrimSpace(string(text)))
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	for _, path := range paths {
		get(path)
	}
	fmt.Println(readersReady)
	var reading sync.WaitGroup
	for c := range n {
		reading.Go(func() {
			for i := c; ; i++ {
				get(paths[i%len(paths)])
			}
		})
	}
	reading.Wait()
}

// readersReady is the line that the readers say once each path has been answered.
const readersReady = "ready"

// readers starts a process whose clients ask for paths until stop is called. They yield
// the processors to the server, as clients on other machines do.
func (s *server) readers(token string, clients int, paths ...string) (stop func()) {
	s.t.Helper()
	cmd := exec.Command("nice", append([]string{"-n", "19", os.Args[0], s.url(), token}, paths...)...)
	cmd.Env = append(os.Environ(), readVariable+"="+strconv.Itoa(clients))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = s.t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	var wrong []string
	ready := false
	for !ready && said.Scan() {
		if ready = said.Text() == readersReady; !ready {
			wrong = append(wrong, said.Text())
		}
	}
	t, more := s.t, make(chan []string, 1)
	go func() {
		var lines []string
		for said.Scan() {
			if len(lines) < 5 {
				lines = append(lines, said.Text())
			}
		}
		more <- lines
	}()
	stop = sync.OnceFunc(func() {
		cmd.Process.Kill()
		wrong = append(wrong, <-more...)
		cmd.Wait()
		if !ready {
			t.Error("the readers did not start")
		}
		for _, line := range wrong {
			t.Errorf("the load is answered wrongly: %s", line)
		}
	})
	t.Cleanup(stop)
	return stop
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
	attack(t, "TestHeavyReadsQueue in httpapi, internal/reads, and TestSmallAnswersOfOthersFit in internal/budget")
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
		return func(*testing.T) { s.readers(loud, clients, paths...) }
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
