package attack_test

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// probeWait bounds the p99 of another tenant's runs while one tenant's runs hold all
// slots.
const probeWait = 2 * time.Second

// While four endless runs of one tenant use the two slots, a run of another tenant does
// not wait for their time limit.
func TestEndlessRunsOfOneTenant(t *testing.T) {
	attack(t, "TestExtraSlot in internal/store/queue and TestOrder in internal/resources/fairness")
	s := startServer(t)
	greedy, quiet := s.token("greedy", "read,run"), s.token("quiet", "read,run")
	s.probe(quiet, 5) // starts the workers
	limit := map[string]any{"execution_timeout_secs": 300}
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
	t.Logf("beside four endless runs: p50 %v, p99 %v, most %v", p50, p99, took[len(took)-1])
	if bound := slack(probeWait); p99 > bound {
		t.Errorf("p99 is %v, want at most %v", p99, bound)
	}
	for _, id := range ids {
		s.call(greedy, http.MethodPost, "/api/executions/"+id+"/cancel", nil, http.StatusOK)
	}
}

// turnWait bounds the p99 of the time that another tenant's run waits for a slot while
// one tenant has many short runs waiting: one run, on a busy machine.
const turnWait = 500 * time.Millisecond

// While many short runs of one tenant wait, a run of another tenant waits only for one
// of them.
func TestManyShortRunsOfOneTenant(t *testing.T) {
	attack(t, "TestTenantsAndSessionsAreTakenInTurn in internal/store/queue")
	s := startServer(t)
	greedy, quiet := s.token("greedy", "read,run"), s.token("quiet", "read,run")
	alone := s.baseline(quiet)

	// Two runs hold the slots until all others are submitted.
	var first []string
	for range 2 {
		first = append(first, s.submit(greedy, "await new Promise((done) => setTimeout(done, 290_000))", map[string]any{"execution_timeout_secs": 300}))
	}
	var newest string
	for range choose(150, 1500) {
		newest = s.submit(greedy, "1", nil)
	}
	for _, id := range first {
		s.call(greedy, http.MethodPost, "/api/executions/"+id+"/cancel", nil, http.StatusOK)
	}
	var took, queued []time.Duration
	for range choose(15, 150) {
		start := time.Now()
		e := s.call(quiet, http.MethodPost, "/api/exec?wait=60", map[string]any{"code": "1"}, http.StatusOK)
		took = append(took, time.Since(start))
		queued = append(queued, time.Duration(e["queued_ms"].(float64)*float64(time.Millisecond)))
	}
	if e := s.call(greedy, http.MethodGet, "/api/executions/"+newest, nil, http.StatusOK); e["queued"] != true {
		t.Errorf("the queue of the other tenant is empty: its newest run is %v", e["status"])
	}
	slices.Sort(took)
	slices.Sort(queued)
	p99 := percentile(queued, 99)
	t.Logf("the runs waited for a slot: p50 %v, p99 %v", percentile(queued, 50), p99)
	if bound := slack(turnWait); p99 > bound {
		t.Errorf("p99 of the wait is %v, want at most %v", p99, bound)
	}
	s.compare("many short runs", alone, took)
}
