package cli

import (
	"log/slog"
	"math"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// serverShare is the part of the machine's memory that the Go runtime of a server may
// use. Workers, SQLite and the page cache need the rest.
const serverShare = 0.5

// minMemoryLimit is the smallest limit, in bytes. With less, the garbage collector
// would run all the time.
const minMemoryLimit = 256 << 20

// limitMemory sets the memory limit of the Go runtime from the cgroup of the process,
// or from the memory of the machine if the cgroup has no limit. It keeps a limit from
// the environment (GOMEMLIMIT) unless that is empty. It logs the limit once.
func limitMemory(log *slog.Logger) {
	if limit := os.Getenv("GOMEMLIMIT"); limit != "" {
		log.Info("the memory limit of the Go runtime is set by GOMEMLIMIT", "limit", limit)
		return
	}
	limit, err := memlimit.Set(
		memlimit.WithProvider(memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)),
		memlimit.WithRatio(serverShare), memlimit.WithMin(minMemoryLimit),
	)
	switch {
	case err != nil:
		log.Warn("the memory limit of the Go runtime is not set: the memory of the machine is not known; set GOMEMLIMIT", "err", err)
	case limit == math.MaxInt64:
		log.Info("the memory limit of the Go runtime is not set: the machine has none")
	default:
		log.Info("set the memory limit of the Go runtime", "bytes", limit)
	}
}
