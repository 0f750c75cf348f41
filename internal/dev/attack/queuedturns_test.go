package attack_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// Turns that wait behind a slow turn of a logical session cost the server little memory
// and almost no processor time. They do not delay other tenants. They can be cancelled,
// and run in order when the slow turn ends.
func TestQueuedTurns(t *testing.T) {
	attack(t, "releases of turns in runner and ledger")
	turns := choose(600, 9_000)
	s := startServer(t, "--limit-session-turns=0")
	token, quiet := s.token("attacker", "read,run"), s.token("quiet", "read,run")
	alone := s.baseline(quiet)
	idle := s.memory()

	session := s.call(token, http.MethodPost, "/api/logical-sessions", map[string]any{"intent": "queue", "seeds": []string{"builtin"}}, http.StatusOK)["session_id"].(string)
	in := map[string]any{"logical_session": session}
	s.run(token, `globalThis.order = []; 0`, in)
	slow := s.submit(token, `for (;;);`, map[string]any{"logical_session": session, "execution_timeout_secs": 300})
	peak := s.peak()
	began := time.Now()
	ids := make([]string, turns)
	for i := range ids {
		ids[i] = s.submit(token, `order.push(0); order.length`, in)
	}
	t.Logf("%d turns queued in %v", turns, time.Since(began))

	s.compare("queued turns", alone, s.probe(quiet, probes()))
	const watch = 2 * time.Second
	before := s.cpu()
	time.Sleep(watch) // measures the idle server
	used := s.cpu() - before
	grown := s.memory() - idle
	t.Logf("%d turns wait: %d MiB more than idle, %v of processor time in %v", turns, grown>>20, used, watch)
	if used.Seconds() > watch.Seconds()*choose(0.25, 0.05) { // it was 81 % when each waiting turn was polled
		t.Errorf("idle with %d turns that wait, the server uses %v of processor time in %v", turns, used, watch)
	}
	// The collector leaves up to 20 MiB more in a small heap that was busy (docs/adr/0072-garbage-of-small-heaps.md).
	if most := int64(40<<20 + turns*20<<10); grown > most {
		t.Errorf("%d turns that wait take %d MiB, more than %d", turns, grown>>20, most>>20)
	}

	// Cancel the last turns while they wait. The others run.
	left := turns / choose(10, 1)
	began = time.Now()
	for _, id := range ids[left:] {
		s.call(token, http.MethodPost, "/api/executions/"+id+"/cancel", nil, http.StatusOK)
	}
	took := time.Since(began)
	t.Logf("%d turns cancelled in %v", turns-left, took)
	if most := time.Duration(turns-left+100) * 30 * time.Millisecond; took > most {
		t.Errorf("cancelling %d turns takes %v, more than %v", turns-left, took, most)
	}
	began = time.Now()
	s.call(token, http.MethodPost, "/api/executions/"+slow+"/cancel", nil, http.StatusOK)
	if e := s.wait(token, ids[left-1]); e["status"] != "completed" {
		t.Fatalf("the last turn answers %v", e)
	}
	t.Logf("%d turns run in %v", left, time.Since(began))
	for i, id := range ids {
		e := s.call(token, http.MethodGet, "/api/executions/"+id, nil, http.StatusOK)
		switch {
		case i < left && (e["status"] != "completed" || e["result"] != strconv.Itoa(i+1)):
			t.Fatalf("turn %d answers %v", i+1, e)
		case i >= left && e["status"] != "cancelled":
			t.Fatalf("the cancelled turn %d answers %v", i+1, e)
		}
	}
	if most := peak(); most-idle > maxGrowth {
		t.Errorf("the server used %d MiB more than idle", (most-idle)>>20)
	}
}
