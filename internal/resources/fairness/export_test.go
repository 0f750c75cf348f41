package fairness

// Tenants returns the number of tenants that the scheduler remembers.
func (s *Scheduler) Tenants() int { return len(s.tenants) }

// Tenants returns the number of tenants that the pace remembers.
func (p *Pace) Tenants() int { return len(p.tenants) }
