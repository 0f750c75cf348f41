package attack_test

import (
	"net/http"
	"testing"
	"time"
)

// probeWait is the bound for another tenant's run while one tenant's runs keep all
// slots, at p99.
const probeWait = 2 * time.Second

// Four runs that never end, of one tenant, on two slots: a run of another tenant
// does not wait for their time limit.
func TestEndlessRunsOfOneTenant(t *testing.T) {
	attack(t, "TestExtraSlot in internal/jetstream and TestOrder in internal/fairness")
	s := startServer(t)
	greedy, quiet := s.token("greedy", "read,run"), s.token("quiet", "read,run")
	s.probe(quiet, 5) // the workers are started
	limit := map[string]any{"execution_timeout_secs": choose(60, 300)}
	var ids []string
	for range 4 {
		ids = append(ids, s.submit(greedy, "for (;;) {}", limit))
	}
	running := func() (n int) {
		for _, id := range ids {
			e := s.call(greedy, http.MethodGet, "/api/executions/"+id, nil, http.StatusOK)
			if e["status"] == "running" && e["queued"] == false {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(30 * time.Second); running() < 2; time.Sleep(10 * time.Millisecond) { // polls another process
		if time.Now().After(deadline) {
			t.Fatal("the endless runs do not start")
		}
	}
	took := s.probe(quiet, choose(30, 200))
	if n := running(); n != 2 {
		t.Errorf("%d endless runs have a slot after the attack, want 2", n)
	}
	p50, p99 := percentile(took, 50), percentile(took, 99)
	t.Logf("behind four endless runs: p50 %v, p99 %v, most %v", p50, p99, took[len(took)-1])
	if p99 > probeWait {
		t.Errorf("p99 is %v, want less than %v", p99, probeWait)
	}
	for _, id := range ids {
		s.call(greedy, http.MethodPost, "/api/executions/"+id+"/cancel", nil, http.StatusOK)
	}
}

// Five hundred short runs of one tenant wait: a run of another tenant waits for one
// of them, not for all.
func TestManyShortRunsOfOneTenant(t *testing.T) {
	attack(t, "TestTenantsAndSessionsAreTakenInTurn in internal/jetstream")
	s := startServer(t)
	greedy, quiet := s.token("greedy", "read,run"), s.token("quiet", "read,run")
	s.probe(quiet, 20)
	alone := s.probe(quiet, choose(50, 200))

	// It takes a slot for 20 ms and no processor.
	const short = `await new Promise((done) => setTimeout(done, 20))`
	var newest string
	for range choose(150, 500) {
		newest = s.submit(greedy, short, nil)
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		refill := time.NewTicker(12 * time.Millisecond) // about as fast as two slots do them
		defer refill.Stop()
		for {
			select {
			case <-quit:
				return
			case <-refill.C:
				newest = s.submit(greedy, short, nil)
			}
		}
	}()
	took := s.probe(quiet, choose(30, 200))
	close(quit)
	<-done
	if e := s.call(greedy, http.MethodGet, "/api/executions/"+newest, nil, http.StatusOK); e["queued"] != true {
		t.Errorf("the queue of the other tenant is empty: its newest run is %v", e["status"])
	}
	p99, bound := percentile(took, 99), 3*percentile(alone, 99)
	t.Logf("alone: p50 %v, p99 %v; behind many short runs: p50 %v, p99 %v", percentile(alone, 50), percentile(alone, 99), percentile(took, 50), p99)
	if bound := slack(bound); p99 > bound {
		t.Errorf("p99 is %v, want at most %v", p99, bound)
	}
}
