// Bench measures Daybook and the floor of the machine that it runs on, and prints the
// tables of docs/benchmarks.md:
//
//	go run ./internal/dev/bench -out docs/benchmarks.md
//
// The speed of a machine varies. Each figure is therefore shown with the time that the
// same machine takes without Daybook in the same minutes: for an fsync, and for a V8
// cycle in this process.
//
// The other files, in reading order:
//
//   - floor.go: measures the fsync and the V8 cycle
//   - report.go: writes the page from the results
//   - runs.go: measures stateful and stateless runs, and a run with much output
//   - http.go: measures stateful runs over HTTP, and turns of a session
//   - projection.go: measures how fast events are applied and the projections rebuilt
//   - tags.go: measures queries of heaps by tags
//   - starts.go: measures the start time and the memory of an idle server
//   - gobenchmarks.go: runs benchmarks of other packages: the cost of confining a worker,
//     waiting for an answer, the cost of TypeScript, the cost of proofs and verifications
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

// settings are the sizes of the measurements.
type settings struct {
	runs   int // executions per row
	lines  int // output lines
	events int // events of the large ledger
	dir    string
	only   string // name of the only part to measure, or empty
}

func main() {
	var s settings
	flag.IntVar(&s.runs, "runs", 600, "executions per row")
	flag.IntVar(&s.lines, "lines", 100_000, "lines of output")
	flag.IntVar(&s.events, "events", 1_000_000, "events of the large ledger")
	flag.StringVar(&s.only, "only", "", "measure only the part of this name, such as \"stateful runs\"; the other tables stay empty")
	out := flag.String("out", "", "file to write instead of standard output")
	flag.Parse()
	if err := run(context.Background(), s, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, out string) error {
	dir, err := os.MkdirTemp(".", "bench-") // on the disk of the working tree, not in memory
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.dir = dir
	var r report
	for _, part := range []struct {
		name    string
		measure func(context.Context, settings, *report) error
	}{
		{"stateful runs", measureStateful},
		{"stateless runs", measureStateless},
		{"runs over HTTP", measureHTTP},
		{"output", measureOutput},
		{"projections", measureProjections},
		{"tags", measureTags},
		{"start and memory", measureStarts},
		{"proofs", measureProofs},
		{"sandbox", measureSandbox},
		{"waiting", measureWaiting},
		{"TypeScript", measureTypeScript},
	} {
		if s.only != "" && s.only != part.name {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s …\n", part.name)
		if err := part.measure(ctx, s, &r); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	var page bytes.Buffer
	if err := r.write(&page); err != nil {
		return err
	}
	if out == "" {
		_, err = os.Stdout.Write(page.Bytes())
		return err
	}
	return os.WriteFile(out, page.Bytes(), 0o644)
}

// quantile sorts d and returns its q quantile.
func quantile(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, int(float64(len(d))*q))]
}

func cpuModel() string {
	raw, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range bytes.Lines(raw) {
		if name, ok := bytes.CutPrefix(line, []byte("model name")); ok {
			return string(bytes.TrimSpace(bytes.TrimLeft(name, "\t :")))
		}
	}
	return runtime.GOARCH
}
