package attack_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// The memory of the server stays within its limit while clients repeatedly read an event
// of each block of the stream and runs write long lines.
func TestPolledBlocks(t *testing.T) {
	attack(t, "TestSweeping in internal/store/stream")
	if *attackSize != "full" {
		t.Skip("only in full size: the embedded NATS server keeps written blocks in memory for ten seconds, and the attack must take several times as long")
	}
	s := startServer(t)
	var tokens []string
	for i := range 4 {
		tokens = append(tokens, s.token(fmt.Sprintf("attacker%d", i), "read,run"))
	}
	s.probe(tokens[0], 10)
	idle := s.memory()
	stop := s.peak()
	ids := make([][]string, len(tokens))
	for i, token := range tokens {
		for range 3 {
			ids[i] = append(ids[i], s.submit(token, "for (let i = 0; i < 4; i++) console.log('l'.repeat(15 << 20)); 1",
				map[string]any{"heap_memory_max_mb": 256, "execution_timeout_secs": 60}))
		}
	}
	const step = 60 // a block has about 120 events of 64 KiB
	var over atomic.Bool
	var answered atomic.Int64
	var polling sync.WaitGroup
	for i, token := range tokens {
		polling.Go(func() {
			for !over.Load() {
				for after, ok := i*step, true; ok && !over.Load(); after += len(tokens) * step {
					resp, err := s.get(t.Context(), token, fmt.Sprintf("/api/events?limit=1&after=%d", after), "application/x-ndjson")
					if err != nil {
						break
					}
					_, _ = io.Copy(io.Discard, resp.Body) // a slow answer may be cut
					resp.Body.Close()
					if ok = resp.StatusCode == http.StatusOK; ok { // otherwise the ledger ends before that position
						answered.Add(1)
					}
				}
			}
		})
	}
	for i := range ids {
		for _, id := range ids[i] {
			if e := s.wait(tokens[i], id); e["status"] != "completed" {
				t.Errorf("the run ended with %.300v", e)
			}
		}
	}
	over.Store(true)
	polling.Wait()
	s.checkGrowth(fmt.Sprintf("reading an event of each block, %d times in all", answered.Load()), idle, stop())
	if answered.Load() < 100 {
		t.Error("too few reads were answered: the attack is too weak")
	}
}
