package attack_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// The memory of the server stays within its limit while runs write lines of 15 MB as fast
// as they can and clients read them over each route. The short attack writes for some
// seconds on a server with a small memory budget, which records less output per second.
func TestLongLines(t *testing.T) {
	attack(t, "TestOnlyMuchOutputWaits in runner, TestBulkReadHoldsFewLargeMessages in internal/store/stream")
	s := startServer(t, fmt.Sprintf("--memory-budget=%d", choose(128, 512)))
	bound := choose[int64](220<<20, maxGrowth)
	var tokens []string
	for i := range choose(2, 4) {
		tokens = append(tokens, s.token(fmt.Sprintf("attacker%d", i), "read,run"))
	}
	quiet := s.token("quiet", "read,run")
	s.probe(quiet, 10)
	idle := s.memory()
	const lines = 4
	code := fmt.Sprintf("for (let i = 0; i < %d; i++) console.log('l'.repeat(15 << 20)); 1", lines)
	const runs = 3

	stop := s.peak()
	ids := make([][]string, len(tokens))
	for i, token := range tokens {
		for range runs {
			ids[i] = append(ids[i], s.submit(token, code, map[string]any{"heap_memory_max_mb": 256, "execution_timeout_secs": 60}))
		}
	}
	if *attackSize != "full" {
		// Two tenants leave the extra slots to others.
		deadline := time.Now().Add(8 * time.Second)
		var probes []time.Duration
		for time.Now().Before(deadline) {
			probes = append(probes, s.probe(quiet, 1)...)
		}
		slices.Sort(probes)
		if p99 := percentile(probes, 99); p99 > slack(2*time.Second) {
			t.Errorf("a quiet tenant waits %v beside long lines", p99)
		}
		for i := range ids {
			for _, id := range ids[i] {
				if resp, err := s.do(t.Context(), tokens[i], http.MethodPost, "/api/executions/"+id+"/cancel", nil); err == nil {
					resp.Body.Close() // the run may have ended
				}
			}
		}
	}
	var written float64
	for i := range ids {
		for _, id := range ids[i] {
			e := s.wait(tokens[i], id)
			n, _ := e["total_bytes"].(float64)
			written += n
			if e["status"] == "completed" && n != lines*(15<<20+1) || e["status"] != "completed" && *attackSize == "full" {
				t.Fatalf("the run ended with %.300v", e)
			}
		}
	}
	if written < 2*(15<<20) {
		t.Errorf("only %.0f bytes were written: the attack is too weak", written)
	}
	s.checkGrowthUpTo(bound, fmt.Sprintf("writing %.0f MB in long lines", written/1e6), idle, stop())
	s.probe(quiet, 2)

	stop = s.peak()
	statuses := s.answersTo(choose(8, 200), choose(500*time.Millisecond, 20*time.Second), func(client, n int) (*http.Response, error) {
		i := client % len(tokens)
		id := ids[i][n%runs]
		way := [][2]string{
			{"/api/executions/" + id + "/output", "text/event-stream"},
			{"/api/executions/" + id + fmt.Sprintf("/output?byte_offset=0&byte_limit=%d", choose(1<<20, 16<<20)), "application/json"},
			{"/api/executions/" + id + "/events", "text/event-stream"},
			{"/api/executions/" + id + "/events", "application/json"},
		}[(client/4+n)%4]
		return s.get(t.Context(), tokens[i], way[0], way[1])
	})
	s.checkGrowthUpTo(bound, fmt.Sprintf("reading long lines, answers %v", statuses), idle, stop())
	if statuses[http.StatusOK] == 0 {
		t.Error("no reader was answered")
	}
	s.probe(quiet, 2)
}
