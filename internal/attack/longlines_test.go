package attack_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Runs that write lines of 15 MB as fast as they can, and clients that read them in
// every way, keep the memory of the server within its bound.
func TestLongLines(t *testing.T) {
	attack(t, "TestSprintHoldsFewLargeMessages in internal/jetstream")
	s := startServer(t)
	var tokens []string
	for i := range 4 {
		tokens = append(tokens, s.token(fmt.Sprintf("attacker%d", i), "read,run"))
	}
	quiet := s.token("quiet", "read,run")
	s.probe(quiet, 10)
	idle := s.memory()
	lines := choose(1, 4)
	code := fmt.Sprintf("for (let i = 0; i < %d; i++) console.log('l'.repeat(15 << 20)); 1", lines)
	runs := choose(1, 3)

	stop := s.peak()
	ids := make([][]string, len(tokens))
	for i, token := range tokens[:choose(1, 4)] {
		for range runs {
			ids[i] = append(ids[i], s.submit(token, code, map[string]any{"heap_memory_max_mb": 256, "execution_timeout_secs": 60}))
		}
	}
	for i := range ids {
		for _, id := range ids[i] {
			if e := s.wait(tokens[i], id); e["total_bytes"] != float64(lines*(15<<20+1)) {
				t.Fatalf("the run ended with %.300v", e)
			}
		}
	}
	s.grew("writing long lines", idle, stop())
	s.probe(quiet, 2)

	stop = s.peak()
	statuses := s.answersTo(choose(8, 200), choose(500*time.Millisecond, 20*time.Second), func(client, n int) (*http.Response, error) {
		i := client % choose(1, 4)
		id := ids[i][n%runs]
		way := [][2]string{
			{"/api/executions/" + id + "/output", "text/event-stream"},
			{"/api/executions/" + id + "/output?byte_offset=0&byte_limit=16777216", "application/json"},
			{"/api/executions/" + id + "/events", "text/event-stream"},
			{"/api/executions/" + id + "/events", "application/json"},
		}[(client/4+n)%4]
		return s.get(t.Context(), tokens[i], way[0], way[1])
	})
	s.grew(fmt.Sprintf("reading long lines, answers %v", statuses), idle, stop())
	if statuses[http.StatusOK] == 0 {
		t.Error("no reader was answered")
	}
	s.probe(quiet, 2)
}
