package attack_test

import "testing"

// A quiet tenant's runs are answered: the measure of all attacks.
func TestQuiet(t *testing.T) {
	attack(t, "runs of one tenant in embed and httpapi")
	s := startServer(t)
	token := s.token("alone", "read,run")
	took := s.probe(token, choose(20, 200))
	t.Logf("p50 %v, p99 %v, memory %d MiB, %d descriptors, %v of processor time",
		percentile(took, 50), percentile(took, 99), s.memory()>>20, s.descriptors(), s.cpu())
}
