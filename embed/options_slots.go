package embed

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"daybook/internal/resources/fairness"
	"daybook/internal/web/access"
)

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

// validate returns the errors of the fields.
func (o SlotOptions) validate() error {
	problems := []error{
		optionRange[int]{least: 1, most: maxProcesses}.check("Slots.Total", o.Total),
		optionRange[int]{most: maxProcesses, zero: "is unlimited"}.check("Slots.PerTenant", o.PerTenant),
		optionRange[int]{least: 1, most: maxProcesses, negative: "is none"}.check("Slots.Extra", o.Extra),
		optionRange[time.Duration]{least: 1, most: maxExtraAfter, negative: "is no wait"}.check("Slots.ExtraAfter", o.ExtraAfter),
	}
	for _, tenant := range slices.Sorted(maps.Keys(o.Weights)) {
		problems = append(problems, ofField("Slots.Weights", access.CheckTenant(tenant)))
		if w := o.Weights[tenant]; w < 1 || w > MaxWeight {
			problems = append(problems, outOfRange("Slots.Weights", " ", fmt.Sprintf("%s=%d", tenant, w), Range{Least: 1, Most: MaxWeight}))
		}
	}
	return errors.Join(problems...)
}

func (o SlotOptions) withDefaults() SlotOptions {
	setDefault(&o.Total, runtime.NumCPU())
	setDefault(&o.Extra, 2)
	setDefault(&o.ExtraAfter, 500*time.Millisecond)
	return o
}

// shares returns how tenants share the slots.
func (o SlotOptions) shares() fairness.Slots {
	return fairness.Slots{Total: o.Total, PerTenant: o.PerTenant, Extra: max(o.Extra, 0), ExtraAfter: max(o.ExtraAfter, 0), Weights: o.Weights}
}
