package cli

import (
	"math"

	"daybook/embed"
)

// resourceFlags are the flags of embed.ResourceOptions.
type resourceFlags struct {
	MemoryBudget  *int   `name:"memory-budget" option:"Resources.MemoryMB" example:"512" help:"Memory for answers, heaps of runs and cached heaps together, in MiB, 64 to 1048576. Default: 512, or half of the memory limit of the Go runtime if that is less." placeholder:"MIB"`
	MinClientRate int64  `name:"min-client-rate" option:"Resources.MinClientBytes" help:"Bytes that a client must send or receive in each 30 s in which the server waits for it; 0 requires any progress." default:"65536" placeholder:"BYTES"`
	DiskReserve   *int64 `name:"disk-reserve" option:"Resources.DiskReserve" mib:"" example:"256" after:"scrub-rate" help:"Space to keep free on the disk of --data-dir, in MiB, up to 1073741824; below it no new run is accepted. 0 keeps nothing free. Default: 256, at most 5 % of the disk." placeholder:"MIB"`
}

func (f resourceFlags) options() embed.ResourceOptions {
	o := embed.ResourceOptions{MemoryMB: optional(f.MemoryBudget), MinClientBytes: zeroIsNone(f.MinClientRate)}
	if f.DiskReserve != nil {
		// A value that has no number of bytes becomes the largest one, which is refused.
		o.DiskReserve = zeroIsNone(min(*f.DiskReserve, math.MaxInt64>>20) << 20)
	}
	return o
}
