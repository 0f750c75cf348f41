package cli

import (
	"time"

	"daybook/embed"
)

// slotFlags are the flags of embed.SlotOptions.
type slotFlags struct {
	Slots         *int           `name:"max-concurrent-executions" option:"Slots.Total" example:"4" help:"Number of scripts that run at once. Default: the number of cores." placeholder:"N"`
	LimitSlots    int            `name:"limit-slots" option:"Slots.PerTenant" example:"2" help:"Scripts of one tenant that run at once; 0 is unlimited." default:"0" placeholder:"N"`
	TenantWeights map[string]int `name:"tenant-weights" option:"Slots.Weights" example:"acme=2" mapsep:"," help:"Relative shares of the slots while several tenants wait: tenant=N, 1 to 1000, or an object in the file of --config. A tenant that is not listed has 1." placeholder:"TENANT=N"`
	ExtraSlots    int            `name:"extra-slots" option:"Slots.Extra" help:"Number of additional slots for tenants that wait while others keep all slots; 0 is none." default:"2" placeholder:"N"`
	FairAfter     time.Duration  `name:"fair-after" option:"Slots.ExtraAfter" help:"Time that a tenant waits, while others keep all slots, before its script runs in an extra slot." default:"500ms" placeholder:"DURATION"`
}

func (f slotFlags) options() embed.SlotOptions {
	return embed.SlotOptions{Total: optional(f.Slots), PerTenant: f.LimitSlots, Weights: f.TenantWeights, Extra: zeroIsNone(f.ExtraSlots), ExtraAfter: zeroIsNone(f.FairAfter)}
}
