package embed

import "time"

// SlotOptions configure the number of scripts that run at once, and how tenants share
// it.
type SlotOptions struct {
	// Total is the number of scripts that run at once. Default: the number of cores.
	Total int
	// PerTenant is the maximum number of slots of one tenant. 0 is unlimited.
	PerTenant int
	// Weights are the relative shares of the slots while several tenants wait, each
	// from 1 to MaxWeight. A tenant that is not listed has weight 1.
	Weights map[string]int
	// Extra is the number of slots besides Total for tenants that wait without a slot
	// while others keep all slots. Default: 2. A negative number is none. The tenants
	// wait for ExtraAfter first. Default: 500 ms. A negative duration is no wait.
	Extra      int
	ExtraAfter time.Duration
}

// MaxWeight is the largest weight of a tenant.
const MaxWeight = 1000
