package attack_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// outputCode is a script that writes lines of 1 KiB.
func outputCode(lines int) string {
	return fmt.Sprintf("const line = 'x'.repeat(1023); for (let i = 0; i < %d; i++) console.log(line)", lines)
}

// The memory of the server stays within its limit while many slow readers read the
// history of a run with much output, and the output in large pages.
func TestSlowReadersOfEvents(t *testing.T) {
	attack(t, "budget and histories in pieces in internal/resources/budget and httpapi")
	s := startServer(t)
	attacker, quiet := s.token("attacker", "read,run"), s.token("quiet", "read,run")
	alone := s.baseline(quiet)
	idle := s.memory()
	megabytes := choose(20, 60)
	e := s.run(attacker, outputCode(megabytes<<10), map[string]any{"execution_timeout_secs": 120})
	if e["status"] != "completed" {
		t.Fatalf("the run with output: %v", e)
	}
	id := e["execution_id"].(string)

	// One reader gets all events, in order.
	before, stop := s.memory(), s.peak()
	resp := s.open(t.Context(), attacker, "/api/executions/"+id+"/events", "application/json")
	var list []struct {
		Sequence string `json:"sequence"`
	}
	err := json.NewDecoder(resp.Body).Decode(&list)
	resp.Body.Close()
	one := stop() - before
	if err != nil || len(list) < megabytes {
		t.Fatalf("%d events, %v", len(list), err)
	}
	t.Logf("one reader of %d MB: %d MiB more", megabytes, one>>20)

	for _, path := range []string{
		"/api/executions/" + id + "/events",
		"/api/executions/" + id + "/output?byte_offset=0&byte_limit=16777216",
		"/api/ledger/export", "/api/events",
	} {
		grown, _ := s.slowReaders(attacker, path, "application/json", choose(50, 120), idle, choose(1500*time.Millisecond, 10*time.Second))
		t.Logf("%s: idle %d MiB, %d MiB more", path, idle>>20, grown>>20)
		if grown > maxGrowth {
			t.Errorf("%s: the server used %d MiB more, the limit is %d", path, grown>>20, int64(maxGrowth)>>20)
		}
	}
	s.compare("slow readers of events", alone, s.probe(quiet, probes()))
	// The quiet tenant's reads are answered: one tenant cannot hold all the memory for
	// answers.
	page, err := s.do(t.Context(), quiet, http.MethodGet, "/api/executions", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	if raw, _ := io.ReadAll(page.Body); page.StatusCode != http.StatusOK {
		t.Errorf("a list for a quiet tenant: %s: %.300s", page.Status, raw)
	}
}
