package attack_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// followVariable is the variable with the number of streams that a process follows.
const followVariable = "DAYBOOK_ATTACK_FOLLOW"

// follow opens streams of the first path, reports that it is ready when all are open, and
// reads them until they end.
func follow(streams int, base, token string, paths []string) {
	open := func() (*http.Response, error) {
		return getAs(http.DefaultClient, base, token, paths[0], "text/event-stream")
	}
	var reading sync.WaitGroup
	for range streams {
		resp, err := open()
		for began := time.Now(); err == nil && resp.StatusCode == http.StatusServiceUnavailable && time.Since(began) < 30*time.Second; {
			resp.Body.Close()
			time.Sleep(time.Second) // as Retry-After says
			resp, err = open()
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			panic(fmt.Sprint("follow: ", resp, err))
		}
		reading.Go(func() { discard(resp) })
	}
	fmt.Println(loadReady)
	reading.Wait()
}

// steadyOutput is a script that writes output until it is cancelled.
const steadyOutput = `const line = 'x'.repeat(200); for (;;) { for (let i = 0; i < 100; i++) console.log(line); await new Promise(r => setTimeout(r, 20)); }`

// Many followers of a tenant's events, or of a run's output, do not slow the runs of
// another tenant while a run writes much output.
func TestFollowers(t *testing.T) {
	attack(t, "followers share one reading: TestLiveFeed in httpapi")
	for name, path := range map[string]string{"events": "/api/events", "output": "/api/executions/%s/output"} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, "--limit-streams=0")
			loud, quiet := s.token("loud", "read,run"), s.token("quiet", "read,run")
			tries := choose(40, 400)
			s.probe(quiet, 20)
			alone := s.probe(quiet, tries)
			// A run in one of the two slots writes output all the time.
			id := s.submit(loud, steadyOutput, map[string]any{"execution_timeout_secs": 300})
			beside := s.probe(quiet, tries)
			if name == "output" {
				path = fmt.Sprintf(path, id)
			}
			s.load(followVariable, loud, 128, path)
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
