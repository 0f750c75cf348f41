package attack_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var ledgerEnd = regexp.MustCompile(`the ledger ends at (\d+)`)

// edge returns the position of the newest event. The error for a later position names it.
func (s *server) edge(token string) uint64 {
	s.t.Helper()
	resp, err := s.do(s.t.Context(), token, http.MethodGet, "/api/ledger/proof?seq=1000000000000", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	m := ledgerEnd.FindSubmatch(raw)
	if m == nil {
		s.t.Fatalf("the answer does not name the end of the ledger: %s %s", resp.Status, raw)
	}
	edge, err := strconv.ParseUint(string(m[1]), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return edge
}

// Repeated reads with a read token append no event.
func TestReadWrites(t *testing.T) {
	attack(t, "TestProofsOfPendingEvents in httpapi")
	runInParallel(t)
	s := newServer(t)
	runner, reader := s.token("loud", "read,run"), s.token("loud", "read")
	s.start()
	s.run(runner, "1", nil)
	s.end(syscall.SIGTERM) // all events are signed then
	s.start()
	settled := s.edge(reader)
	var asked atomic.Int64
	flood := func(paths func(i int) string, seconds time.Duration) {
		var wg sync.WaitGroup
		stop := time.Now().Add(seconds)
		for c := range 4 {
			wg.Go(func() {
				for i := 0; time.Now().Before(stop); i++ {
					resp, err := s.do(t.Context(), reader, http.MethodGet, paths(4*i+c), nil)
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					asked.Add(1)
				}
			})
		}
		wg.Wait()
	}
	for name, paths := range map[string]func(i int) string{
		"proof of the newest": func(int) string { return fmt.Sprintf("/api/ledger/proof?seq=%d", s.edge(reader)) },
		"fresh checkpoint":    func(int) string { return "/api/ledger/checkpoint?fresh=true" },
		"checkpoint":          func(int) string { return "/api/ledger/checkpoint" },
		"new contexts":        func(i int) string { return fmt.Sprintf("/api/context?session=%s-%d", t.Name(), i) },
	} {
		asked.Store(0)
		flood(paths, choose(time.Second, 20*time.Second))
		time.Sleep(choose(1500*time.Millisecond, 6*time.Second)) // until delayed appends would be recorded
		if end := s.edge(reader); end != settled {
			t.Errorf("%s: %d requests appended %d events", name, asked.Load(), end-settled)
			settled = end
		} else {
			t.Logf("%s: %d requests appended nothing", name, asked.Load())
		}
	}
}
