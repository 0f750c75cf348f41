package cli

import (
	"cmp"
	"fmt"
	"time"

	"daybook/embed"
)

// Largest values of flags. They are far above any use and keep sums and products of
// them within their types.
const (
	maxCount       = 1_000_000_000
	maxProcesses   = 10_000
	maxRate        = 1_000_000
	minRate        = 0.001
	maxReserveMB   = 1 << 30 // 1 PiB
	maxClientBytes = 1 << 30
	maxFairAfter   = time.Hour
	maxStoredBytes = 1 << 60
)

// inRange returns an error unless the value is between the bounds, both included. The
// error names the flag, its value, the permitted values and an example. NaN is in no
// range.
func inRange[T cmp.Ordered](flag string, value, least, most T, unit, example string) error {
	if value >= least && value <= most {
		return nil
	}
	return outOfRange(flag, fmt.Sprint(value), fmt.Sprintf("%v to %v%s", least, most, unit), example)
}

func outOfRange(flag, value, permitted, example string) error {
	return fmt.Errorf("--%s is %s: the range is %s; for example --%s %s", flag, value, permitted, flag, example)
}

// checkRanges checks the flags that limit resources.
func (f engineFlags) checkRanges() error {
	checks := []error{
		inRange("limit-slots", f.LimitSlots, 0, maxProcesses, ", 0 is unlimited", "2"),
		inRange("extra-slots", f.ExtraSlots, 0, maxProcesses, ", 0 is none", "2"),
		inRange("heap-memory-max", f.HeapMemoryMax, 1, embed.MaxMemoryMB, " MB", "64"),
		inRange("output-max-bytes", f.OutputMaxBytes, 0, maxStoredBytes, ", 0 is unlimited", "67108864"),
		inRange("min-client-rate", f.MinClientRate, 0, maxClientBytes, " bytes in 30 s", "65536"),
	}
	if f.FairAfter < 0 || f.FairAfter > maxFairAfter {
		checks = append(checks, outOfRange("fair-after", f.FairAfter.String(), "0s to 1h", "500ms"))
	}
	if f.Slots != nil {
		checks = append(checks, inRange("max-concurrent-executions", *f.Slots, 1, maxProcesses, "", "4"))
	}
	if f.HeapCeiling != nil {
		checks = append(checks, inRange("heap-memory-ceiling", *f.HeapCeiling, 1, embed.MaxMemoryMB, " MB", "256"))
	}
	if f.MemoryBudget != nil {
		checks = append(checks, inRange("memory-budget", *f.MemoryBudget, embed.MinMemoryMB, embed.MaxMemoryMB, " MiB", "512"))
	}
	if f.DiskReserve != nil {
		checks = append(checks, inRange("disk-reserve", *f.DiskReserve, 0, maxReserveMB, " MiB, 0 keeps nothing free", "256"))
	}
	return cmp.Or(checks...)
}

// checkRanges checks the limits of tenants and connections.
func (f authFlags) checkRanges() error {
	const unlimited = ", 0 is unlimited"
	checks := []error{
		inRange("limit-runs", f.Runs, 0, maxCount, unlimited, "10000"),
		inRange("limit-output-bytes", f.OutputBytes, 0, maxStoredBytes, unlimited, "1073741824"),
		inRange("limit-heap-bytes", f.HeapBytes, 0, maxStoredBytes, unlimited, "1073741824"),
		inRange("limit-sessions", f.Sessions, 0, maxCount, unlimited, "100000"),
		inRange("limit-tagged-heaps", f.TaggedHeaps, 0, maxCount, unlimited, "100000"),
		inRange("limit-connections", f.Connections, 0, maxCount, ", 0 is the default", "1024"),
		inRange("limit-connections-per-address", f.ConnectionsPerAddress, 0, maxCount, ", 0 is the default", "256"),
		inRange("limit-session-turns", f.Turns, 0, maxCount, unlimited, "1000"),
	}
	if f.Requests != 0 { // 0 is unlimited
		if err := inRange("limit-requests", f.Requests, minRate, maxRate, "", ""); err != nil {
			checks = append(checks, outOfRange("limit-requests", fmt.Sprint(f.Requests), fmt.Sprintf("%v to %d a second, or 0 for unlimited", minRate, maxRate), "50"))
		}
	}
	if f.Streams != nil {
		checks = append(checks, inRange("limit-streams", *f.Streams, 0, maxCount, unlimited, "64"))
	}
	return cmp.Or(checks...)
}
