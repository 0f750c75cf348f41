package attack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// One address that holds connections without requests, under a small limit of
// descriptors, does not keep other clients from being served. Once all connections have
// requests, the server still answers health probes and refuses other requests at once. It
// reports no damage, and all events are signed when it has stopped.
func TestConnections(t *testing.T) {
	attack(t, "TestIdleConnectionIsClosed and TestBusyConnectionStays in internal/web/connections, TestSignWhenWritesResume in internal/translog")
	s := newServer(t)
	s.limits = []string{"--nofile=1024:1024"}
	quiet, flood, operator := s.token("alone", "read,run"), s.token("flood", "read,run"), s.token("default", "read,admin")
	s.start()
	alone := s.baseline(quiet)

	const held = 1000
	dial := func() net.Conn {
		c, err := net.DialTimeout("tcp", s.addr, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	hold := func() {
		conns, err := s.holdConnections(held)
		t.Cleanup(func() { closeAll(conns) })
		if err != nil {
			t.Fatal(err)
		}
	}
	hold()
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	health := func(path string) {
		t.Helper()
		// A probe may arrive while all connections for probes are in use. One is free
		// within a second.
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			resp, err := fresh.Get(s.url() + path)
			if err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return
				}
				err = fmt.Errorf("the answer is %s", resp.Status)
			}
			if time.Since(began) > slack(2*time.Second) {
				t.Errorf("%s: %v", path, err)
				return
			}
		}
	}
	health("/healthz")
	health("/readyz")
	took := s.probe(quiet, probes())
	t.Logf("%d idle connections: %d descriptors", held, s.descriptors())
	if n := s.descriptors(); n > 900 {
		t.Errorf("the server holds %d of 1024 descriptors", n)
	}
	s.compare("idle connections", alone, took)

	// Now each connection has a request, which waits.
	id := s.submit(flood, "await new Promise(() => setTimeout(() => {}, 250000))", map[string]any{"execution_timeout_secs": 300})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var waiting []net.Conn
	wait := func(n int) {
		for range n {
			c := dial()
			waiting = append(waiting, c)
			fmt.Fprintf(c, "GET /api/executions/%s?wait=60 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", id, flood)
		}
	}
	wait(700)
	health("/healthz")
	health("/readyz")
	// The server closed some of these connections for newer ones before it read their
	// requests.
	var resp *http.Response
	for began := time.Now(); ; wait(20) {
		var err error
		resp, err = fresh.Do(mustRequest(t, ctx, s.url()+"/api/executions?limit=1", quiet))
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusServiceUnavailable {
				break
			}
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("a request over the limit: %v, %v", resp, err)
		}
	}
	if resp.Header.Get("Retry-After") == "" {
		t.Errorf("a request over the limit is refused without a Retry-After")
	}
	resp, err := fresh.Do(mustRequest(t, ctx, s.url()+"/metrics", operator))
	if err != nil {
		t.Fatal(err)
	}
	metrics, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	for _, want := range []string{`daybook_connections_limit{listener="http"} 512`, `daybook_connections_refused_total{listener="http"}`, "daybook_damage 0"} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	for _, c := range waiting {
		c.Close()
	}
	hold()
	s.probe(quiet, 5)
	s.call(flood, http.MethodPost, "/api/executions/"+id+"/cancel", nil, http.StatusOK)

	s.end(syscall.SIGTERM)
	if !s.cmd.ProcessState.Success() {
		t.Errorf("the server ended with %v", s.cmd.ProcessState)
	}
	log := s.log.String()
	if !strings.Contains(log, "too many connections") {
		t.Error("the log does not report too many connections")
	}
	for _, word := range []string{"damage", "--accept-damage", "restore", "panic", "not signed"} {
		if strings.Contains(log, word) {
			t.Errorf("the log contains %q:\n%.4000s", word, log)
		}
	}
	if n := strings.Count(log, "too many connections"); n > 20 {
		t.Errorf("the log has %d lines about connections", n)
	}
	s.verifyLedger(0)
}

// holdConnections opens connections that are idle, send half a request or send nothing.
// The caller MUST close the connections that it returns, also with an error.
func (s *server) holdConnections(n int) (conns []net.Conn, err error) {
	for i := range n {
		c, err := net.DialTimeout("tcp", s.addr, 10*time.Second)
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
		switch i % 3 {
		case 0:
			io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		case 1:
			io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
		}
	}
	return conns, nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

func mustRequest(t *testing.T, ctx context.Context, url, token string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return req
}

// verifyLedger verifies the data directory of a server that has ended: it must be intact,
// with at most a number of unsigned events.
func (s *server) verifyLedger(unsigned uint64) {
	s.t.Helper()
	var report struct {
		Verdict  string `json:"verdict"`
		Events   uint64 `json:"events"`
		Unsigned uint64 `json:"unsigned"`
	}
	cmd := exec.Command(s.bin, "verify", "--data-dir", s.dir, "--key", filepath.Join(s.dir, "audit", "vkey"), "--json")
	cmd.Env = s.env()
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 8 && unsigned > 0 {
		err = nil // INTACT UP TO n
	}
	if err = errors.Join(err, json.Unmarshal(out, &report)); err != nil {
		s.t.Fatalf("verify: %v\n%s", err, out)
	}
	if report.Verdict != "intact" && report.Verdict != "intact_up_to" || report.Unsigned > unsigned {
		s.t.Errorf("of %d events %d are not signed: %s", report.Events, report.Unsigned, report.Verdict)
	}
}
