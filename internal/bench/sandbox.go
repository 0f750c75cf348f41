package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// sandboxRow is what confinement costs, in milliseconds, at the lower tenth.
type sandboxRow struct {
	What                  string
	Confined, Bare, Added float64
}

// sandboxCases are the benchmarks of package worker that are shown, and how.
var sandboxCases = []struct{ benchmark, what string }{
	{"SandboxStart/stateful", "start of a worker for stateful runs, until it takes a task"},
	{"SandboxStart/plain", "start of a worker for stateless runs"},
	{"SandboxRun/small/stateful", "stateful run of `1+1`"},
	{"SandboxRun/small/plain", "stateless run of `1+1`"},
	{"SandboxRun/large/plain", "stateless run that allocates, sorts and prints"},
}

var sandboxLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(\S+) added-ms\s+(\S+) bare-ms\s+(\S+) confined-ms`)

// measureSandbox runs the benchmarks where they can reach what confines a worker.
func measureSandbox(ctx context.Context, s settings, r *report) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkSandbox", "-benchtime", fmt.Sprintf("%dx", max(20, s.runs/3)), "./internal/worker")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go test -bench: %w\n%s", err, out)
	}
	r.Sandbox, err = parseSandbox(string(out))
	return err
}

func parseSandbox(out string) ([]sandboxRow, error) {
	var rows []sandboxRow
	for _, c := range sandboxCases {
		found := false
		for _, m := range sandboxLine.FindAllStringSubmatch(out, -1) {
			if m[1] != c.benchmark {
				continue
			}
			var figures [3]float64
			for i := range figures {
				f, err := strconv.ParseFloat(m[2+i], 64)
				if err != nil {
					return nil, fmt.Errorf("benchmark %s: %w", c.benchmark, err)
				}
				figures[i] = f
			}
			rows = append(rows, sandboxRow{What: c.what, Added: figures[0], Bare: figures[1], Confined: figures[2]})
			found = true
		}
		if !found {
			return nil, fmt.Errorf("benchmark %s is missing from what go test said:\n%s", c.benchmark, strings.TrimSpace(out))
		}
	}
	return rows, nil
}
