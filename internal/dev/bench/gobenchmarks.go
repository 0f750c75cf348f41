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

// versusRow is a figure and its floor, in milliseconds unless its user says another unit.
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

// proofsResult is what the proofs cost.
type proofsResult struct {
	// Append and Run have the processor time with proofs, and without them as the floor, in microseconds.
	Append, Run versusRow
	// Verified and VerifyFloor are events per second, and VerifyCPU and VerifyFloorCPU microseconds of
	// processor time per event.
	Verified, VerifyFloor, VerifyCPU, VerifyFloorCPU float64
	// SmallKiB and LargeKiB are the memory of verifications of 20,000 and 200,000 events.
	SmallKiB, LargeKiB float64
}

// measureProofs measures events that are hashed and signed, and verifications.
func measureProofs(ctx context.Context, s settings, r *report) error {
	for _, c := range []struct {
		row                *versusRow
		pkg, pattern, unit string
		with, without      string
		n                  int
	}{
		{&r.Proofs.Append, "./audit", "^BenchmarkAppend$", "cpu-us/event", "Append/audited", "Append/plain", 100 * s.runs},
		{&r.Proofs.Run, "./embed", "^BenchmarkAudit$", "cpu-us/run", "Audit/on", "Audit/off", 3 * s.runs},
	} {
		all, err := gobench.Run(ctx, c.pkg, c.pattern, c.n)
		if err != nil {
			return err
		}
		with, err := gobench.Figures(all, c.with, c.unit)
		if err != nil {
			return err
		}
		without, err := gobench.Figures(all, c.without, c.unit)
		if err != nil {
			return err
		}
		*c.row = versusRow{Took: with[0], Floor: without[0], OfFloor: with[0] / without[0]}
	}
	all, err := gobench.Run(ctx, "./audit", "^Benchmark(Verify|MemoryOfVerification)$", 1)
	if err != nil {
		return err
	}
	f, err := gobench.Figures(all, "Verify", "events/s", "floor-events/s", "cpu-ns/event", "floor-cpu-ns/event")
	if err != nil {
		return err
	}
	r.Proofs.Verified, r.Proofs.VerifyFloor, r.Proofs.VerifyCPU, r.Proofs.VerifyFloorCPU = f[0], f[1], f[2]/1000, f[3]/1000
	f, err = gobench.Figures(all, "MemoryOfVerification", "KiB/20,000-events", "KiB/200,000-events")
	if err != nil {
		return err
	}
	r.Proofs.SmallKiB, r.Proofs.LargeKiB = f[0], f[1]
	return nil
}
