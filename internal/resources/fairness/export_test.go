package fairness

// Tenants is how many tenants the scheduler remembers.
func (s *Scheduler) Tenants() int { return len(s.tenants) }

// Tenants is how many tenants the pace remembers.
func (p *Pace) Tenants() int { return len(p.tenants) }
