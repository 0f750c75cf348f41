package main

import (
	"context"

	"daybook/internal/dev/bench/gobench"
)

// sandboxRow is the cost of confinement in milliseconds, at the 10th percentile.
type sandboxRow struct {
	What                  string
	Confined, Bare, Added float64
}

// sandboxCases are the benchmarks of package worker in the table, with their texts.
var sandboxCases = []struct{ benchmark, what string }{
	{"SandboxStart/stateful", "start of a worker for stateful runs, until it takes a task"},
	{"SandboxStart/plain", "start of a worker for stateless runs"},
	{"SandboxRun/small/stateful", "stateful run of `1+1`"},
	{"SandboxRun/small/plain", "stateless run of `1+1`"},
	{"SandboxRun/large/plain", "stateless run that allocates, sorts and prints"},
}

// measureSandbox runs the benchmarks of package worker, which can start workers without
// layers of the sandbox.
func measureSandbox(ctx context.Context, s settings, r *report) error {
	all, err := gobench.Run(ctx, "./internal/exec/worker", "^BenchmarkSandbox", max(20, s.runs/3))
	if err != nil {
		return err
	}
	for _, c := range sandboxCases {
		f, err := gobench.Figures(all, c.benchmark, "confined-ms", "bare-ms", "added-ms")
		if err != nil {
			return err
		}
		r.Sandbox = append(r.Sandbox, sandboxRow{What: c.what, Confined: f[0], Bare: f[1], Added: f[2]})
	}
	return nil
}

// versusRow is a figure and its floor, in milliseconds.
type versusRow struct {
	What                 string
	Took, Floor, OfFloor float64
}

// measureWaiting measures the time from a readable terminal event to the answer at a
// client that waits for it.
func measureWaiting(ctx context.Context, s settings, r *report) error {
	all, err := gobench.Run(ctx, "./httpapi", "^BenchmarkWait$", max(50, s.runs/2))
	if err != nil {
		return err
	}
	f, err := gobench.Figures(all, "Wait", "µs-after-readable", "µs-plain-read", "of-floor")
	if err != nil {
		return err
	}
	r.Waiting = versusRow{Took: f[0] / 1000, Floor: f[1] / 1000, OfFloor: f[2]}
	return nil
}

// measureTypeScript measures runs of TypeScript against runs of JavaScript.
func measureTypeScript(ctx context.Context, s settings, r *report) error {
	all, err := gobench.Run(ctx, "./internal/exec/worker", "^BenchmarkTypeScript$", max(20, s.runs/6))
	if err != nil {
		return err
	}
	for _, c := range []struct{ name, what string }{
		{"erased", "100 functions with types, which are erased"},
		{"lowered", "100 enums, which are rewritten"},
	} {
		f, err := gobench.Figures(all, "TypeScript/"+c.name, "typescript-ms", "javascript-ms", "of-floor")
		if err != nil {
			return err
		}
		r.TypeScript = append(r.TypeScript, versusRow{What: c.what, Took: f[0], Floor: f[1], OfFloor: f[2]})
	}
	return nil
}
