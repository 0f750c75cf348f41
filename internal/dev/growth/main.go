// Growth measures whether Daybook stays as fast and as small when its ledger grows, and writes
// docs/benchmarks-growth.md:
//
//	go run ./internal/dev/growth -out docs/benchmarks-growth.md
//
// It writes a ledger of invented executions in several volumes, has the server sign it and derive
// its projections, and measures the same things at each size: starts, memory, requests, and how
// fast the ledger is verified and the projections are rebuilt.
//
// The other files, in reading order:
//
//   - generate.go: writes the events of invented executions
//   - measure.go: measures a server on the ledger
//   - requests.go: the requests that are measured
//   - report.go: writes the page
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"daybook/internal/dev/process"
)

// settings are the sizes of the measurement.
type settings struct {
	sizes  []int // executions in the ledger, ascending
	volume int   // executions in a volume
	calls  int   // requests of each kind
	dir    string
	bin    string // the program daybook
	// idle is how long the server has nothing to do after the requests before its memory is
	// read again.
	idle time.Duration
}

func main() {
	sizes := flag.String("sizes", "250000,1000000,2000000", "executions in the ledger, ascending")
	var s settings
	flag.IntVar(&s.volume, "volume", 250_000, "executions in a volume")
	flag.IntVar(&s.calls, "calls", 500, "requests of each kind")
	flag.StringVar(&s.dir, "dir", "", "directory for the ledger, which is kept; by default a temporary one")
	flag.StringVar(&s.bin, "bin", "", "program to measure; by default it is built from the working tree")
	flag.DurationVar(&s.idle, "idle", time.Minute, "time without requests after them, before memory is read again")
	out := flag.String("out", "", "file to write instead of standard output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s, *sizes, *out); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, sizes, out string) (err error) {
	for _, text := range strings.Split(sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1000 {
			return fmt.Errorf("-sizes: %q is not a number of at least 1000", text)
		}
		s.sizes = append(s.sizes, n)
	}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp(".", "bench-"); err != nil { // on the disk of the working tree, not in memory
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if s.bin == "" {
		if s.bin, err = process.BuildDaybook(ctx, s.dir); err != nil {
			return err
		}
	}
	r := report{Volume: s.volume, Idle: s.idle}
	g := newGenerator()
	for _, size := range s.sizes {
		if err := grow(ctx, s, g, size); err != nil {
			return fmt.Errorf("write a ledger of %d executions: %w", size, err)
		}
		fmt.Fprintf(os.Stderr, "measuring %d executions …\n", size)
		row, err := measure(ctx, s, g)
		if err != nil {
			return fmt.Errorf("measure %d executions: %w", size, err)
		}
		r.Rows = append(r.Rows, row)
	}
	return r.write(out)
}
