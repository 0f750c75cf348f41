package attack_test

import (
	"testing"
	"time"
)

// TestQuiet measures the runs of one tenant without an attack. The other tests compare
// with such runs.
func TestQuiet(t *testing.T) {
	attack(t, "runs of one tenant in embed and httpapi")
	s := startServer(t)
	took := s.probe(s.token("alone", "read,run"), choose(20, 200))
	t.Logf("p50 %v, p99 %v, memory %d MiB, %d descriptors, %v of processor time",
		percentile(took, 50), percentile(took, 99), s.memory()>>20, s.descriptors(), s.cpu())
}

// quietFactor is the promised limit for the p99 of a quiet tenant during a load of another
// tenant, as a multiple of its p99 without load.
const quietFactor = 3

// baseline starts the worker of a quiet tenant and returns the durations of its runs on a
// server without other load.
func (s *server) baseline(token string) []time.Duration {
	s.t.Helper()
	s.probe(token, 20)
	return s.probe(token, probes())
}

// probes returns the number of runs for a p99.
func probes() int { return choose(30, 300) }

// compare checks that the p99 of a quiet tenant's runs during a load is at most
// quietFactor times the p99 without load. The short attacks have few runs and share the
// machine with other tests, so that their slowest run has other causes: they compare the
// medians, and their limit is multiplied by slack and is at least a second.
func (s *server) compare(load string, alone, beside []time.Duration) {
	s.t.Helper()
	s.t.Logf("a quiet tenant beside %s: p50 %v, p99 %v; alone p50 %v, p99 %v: %.1f times", load, percentile(beside, 50), percentile(beside, 99),
		percentile(alone, 50), percentile(alone, 99), float64(percentile(beside, 99))/float64(percentile(alone, 99)))
	compared := choose(50, 99)
	a, b := percentile(alone, compared), percentile(beside, compared)
	if bound := max(slack(quietFactor*a), choose(time.Second, 0)); b > bound {
		s.t.Errorf("the p%d of a quiet tenant beside %s is %v, more than %v", compared, load, b, bound)
	}
}
