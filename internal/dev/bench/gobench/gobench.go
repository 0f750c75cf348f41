// Package gobench runs benchmarks of Go packages and parses their output. It is separate
// from the command because tests of a package that links V8 take seconds to link.
package gobench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Run runs the benchmarks of a package that match pattern, n times each. It returns
// their metrics by name and unit; names lack "Benchmark" and the number of processors.
// Cancelling ctx kills the benchmarks.
func Run(ctx context.Context, pkg, pattern string, n int) (map[string]map[string]float64, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchtime", fmt.Sprintf("%dx", n), pkg)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go test -bench %s %s: %w\n%s", pattern, pkg, err, out)
	}
	return parseBench(string(out)), nil
}

// parseBench parses the result lines of go test: a name, the number of iterations, then
// pairs of a value and a unit.
func parseBench(out string) map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(words[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i >= 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		metrics := map[string]float64{}
		for i := 2; i+1 < len(words); i += 2 {
			if value, err := strconv.ParseFloat(words[i], 64); err == nil {
				metrics[words[i+1]] = value
			}
		}
		all[name] = metrics
	}
	return all
}

// Figures returns the metrics of one benchmark, in the order of units. It returns an
// error if one is missing.
func Figures(all map[string]map[string]float64, name string, units ...string) ([]float64, error) {
	list := make([]float64, len(units))
	for i, unit := range units {
		value, ok := all[name][unit]
		if !ok {
			return nil, fmt.Errorf("benchmark %s printed no %s", name, unit)
		}
		list[i] = value
	}
	return list, nil
}
