package attack_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// After many small runs an idle server returns memory to the operating system.
func TestIdleMemory(t *testing.T) {
	attack(t, "trimming in embed")
	runInParallel(t)
	s := startServer(t)
	token := s.token("busy", "read,run")
	s.probe(token, 5)
	fresh := s.memory()
	stop := s.peak()
	runs := choose(300, 2900)
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for i := range runs / 4 {
				resp, err := s.do(t.Context(), token, http.MethodPost, "/api/exec?wait=60", map[string]any{"code": fmt.Sprintf("globalThis.v = %d; console.log(v)", c*runs+i)})
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
			}
		})
	}
	clients.Wait()
	busy := stop()
	bound := fresh + choose[int64](40, 80)<<20
	deadline := time.Now().Add(60 * time.Second)
	for s.memory() > bound && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond) // polls another process
	}
	now := s.memory()
	t.Logf("%d runs: %d MiB before, %d MiB at most, %d MiB idle", runs, fresh>>20, busy>>20, now>>20)
	if now > bound {
		t.Errorf("an idle server holds %d MiB, %d MiB before the runs", now>>20, fresh>>20)
	}
}
