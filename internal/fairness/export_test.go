package fairness

// Tenants is how many tenants the scheduler remembers.
func (s *Scheduler) Tenants() int { return len(s.tenants) }
