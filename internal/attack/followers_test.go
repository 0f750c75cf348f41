package attack_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// followVariable is how many streams a process of the test binary follows: its
// arguments are the URL and the token.
const followVariable = "DAYBOOK_ATTACK_FOLLOW"

// follow opens streams, prints a line when all are open, and reads them until
// they end.
func follow(count string) {
	n, err := strconv.Atoi(count)
	if err != nil {
		panic(err)
	}
	var reading sync.WaitGroup
	for range n {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, os.Args[1], nil)
		if err != nil {
			panic(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Authorization", "Bearer "+os.Args[2])
		resp, err := http.DefaultClient.Do(req)
		for began := time.Now(); err == nil && resp.StatusCode == http.StatusServiceUnavailable && time.Since(began) < 30*time.Second; {
			resp.Body.Close()
			time.Sleep(time.Second) // as Retry-After says
			resp, err = http.DefaultClient.Do(req)
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			panic(fmt.Sprint("follow: ", resp, err))
		}
		reading.Go(func() { _, _ = io.Copy(io.Discard, resp.Body) })
	}
	fmt.Println("open")
	reading.Wait()
	os.Exit(0)
}

// followers starts a process that follows a path and returns when its streams are
// open. They yield the processors to the server, as clients on other machines do.
func (s *server) followers(token, path string, count int) {
	s.t.Helper()
	cmd := exec.Command("nice", "-n", "19", os.Args[0], s.url()+path, token)
	cmd.Env = append(os.Environ(), followVariable+"="+strconv.Itoa(count))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = s.t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var line string
	if _, err := fmt.Fscanln(out, &line); err != nil || line != "open" {
		s.t.Fatalf("the followers say %q: %v", line, err)
	}
}

// steadyOutput is a script that writes output until it is cancelled.
const steadyOutput = `const line = 'x'.repeat(200); for (;;) { for (let i = 0; i < 100; i++) console.log(line); await new Promise(r => setTimeout(r, 20)); }`

// Many followers of a tenant's events, or of a run's output, beside a run with
// much output do not slow the runs of another tenant.
func TestFollowers(t *testing.T) {
	attack(t, "followers share one reading: TestLiveFeed in httpapi")
	for name, path := range map[string]string{"events": "/api/events", "output": "/api/executions/%s/output"} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, "--limit-streams=0")
			loud, quiet := s.token("loud", "read,run"), s.token("quiet", "read,run")
			tries := choose(40, 400)
			s.probe(quiet, 20)
			alone := s.probe(quiet, tries)
			// One of the two slots writes output all the time.
			id := s.submit(loud, steadyOutput, map[string]any{"execution_timeout_secs": 300})
			beside := s.probe(quiet, tries)
			if name == "output" {
				path = fmt.Sprintf(path, id)
			}
			s.followers(loud, path, 128)
			peak, cpu, start := s.peak(), s.cpu(), time.Now()
			under := s.probe(quiet, tries)
			most := peak()
			t.Logf("a quiet tenant's runs: alone p50 %v p99 %v; beside the run p50 %v p99 %v; beside 128 followers p50 %v p99 %v; the server's memory %d MiB, %.2f processors",
				percentile(alone, 50), percentile(alone, 99), percentile(beside, 50), percentile(beside, 99), percentile(under, 50), percentile(under, 99),
				most>>20, float64(s.cpu()-cpu)/float64(time.Since(start)))
			s.compare("128 followers of "+name, alone, under)
			s.call(loud, http.MethodPost, "/api/executions/"+id+"/cancel", nil, http.StatusOK)
		})
	}
}
