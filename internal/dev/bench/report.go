package main

import (
	"fmt"
	"io"
	"runtime"
	"text/template"
	"time"
)

// report holds all results.
type report struct {
	Stateful, Stateless  []throughput
	Output               outputResult
	Projection           projectionResult
	Tags                 tagResult
	Starts               []startResult
	Sandbox              []sandboxRow
	Waiting              versusRow
	TypeScript           []versusRow
	Cores                int
	GoVersion, Date, CPU string
}

// throughput is the result of runs by a number of concurrent clients.
type throughput struct {
	Clients           int
	P50, P99          time.Duration
	Cycle, Fsync      time.Duration // p50 of the floor, sampled between the runs
	PerSecond         float64
	OfFloor, AddedFsy float64 // share of cores/cycle; p50 beyond the cycle, in fsyncs
}

func (r *report) write(w io.Writer) error {
	r.Cores, r.GoVersion, r.Date, r.CPU = runtime.NumCPU(), runtime.Version(), time.Now().UTC().Format("2006-01-02"), cpuModel()
	return page.Execute(w, r)
}

var page = template.Must(template.New("benchmarks").Funcs(template.FuncMap{
	"ms": func(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) },
	"n":  grouped,
	"x":  func(f float64) string { return fmt.Sprintf("%.2f", f) },
	"x1": func(f float64) string { return fmt.Sprintf("%.1f", f) },
}).Parse(`# Benchmarks

Written by ` + "`make bench`" + ` (` + "`go run ./internal/dev/bench -out docs/benchmarks.md`" + `); do not edit. Each figure stands beside the floor of the same machine in the same run, since machines are
noisy: compare ratios, not milliseconds.

Measured {{.Date}} on {{.Cores}} cores of {{.CPU}}, {{.GoVersion}}.

## Stateful runs

` + "`var n = …; 1+1`" + ` submitted in process, each with another number and so with a heap of its own, until its terminal event can be read. Every event and heap is on disk.

The floor is taken between the runs, in this process: a V8 cycle restores the fresh heap, runs such a script, saves the heap and disposes of it; an fsync appends 512 bytes
to a file. Of the floor is runs/s divided by (cores / V8 cycle). One client has one run at a time and cannot go beyond half of it on two cores. Added is p50 beyond the V8 cycle,
in fsyncs, and only means something without a queue.

| clients | p50 | p99 | runs/s | V8 cycle beside | fsync beside | of the floor | added |
|---|---|---|---|---|---|---|---|
{{range .Stateful}}| {{.Clients}} | {{ms .P50}} | {{ms .P99}} | {{x1 .PerSecond}} | {{ms .Cycle}} | {{ms .Fsync}} | {{x .OfFloor}} | {{if eq .Clients 1}}{{x1 .AddedFsy}} fsyncs{{end}} |
{{end}}
## Stateless runs

The same in plain isolates with the optimising compiler, which leave no heap.

| clients | p50 | p99 | runs/s | V8 cycle beside | fsync beside | of the floor | added |
|---|---|---|---|---|---|---|---|
{{range .Stateless}}| {{.Clients}} | {{ms .P50}} | {{ms .P99}} | {{x1 .PerSecond}} | {{ms .Cycle}} | {{ms .Fsync}} | {{x .OfFloor}} | {{if eq .Clients 1}}{{x1 .AddedFsy}} fsyncs{{end}} |
{{end}}
## Output

One script writes {{n .Output.Lines}} lines of {{.Output.LineBytes}} bytes; each is on disk before the run ends.

| | |
|---|---|
| from request to end | {{ms .Output.Took}} |
| lines/s, durable | {{n .Output.PerSecond}} |
| events it took | {{n .Output.Events}} |
| lines per fsync's time | {{x1 .Output.PerFsync}} |

## Projections

| | |
|---|---|
| apply events from memory (requested, started, output of 20 lines, completed) | {{n .Projection.ApplyPerSecond}} events/s |
| rebuild from a ledger of {{n .Projection.Events}} events | {{x1 .Projection.Rebuild.Seconds}} s, {{n .Projection.RebuildPerSecond}} events/s |

## Heaps by tags

Exact queries of two pairs among {{n .Tags.Heaps}} tagged heaps. Reading the tags of one heap took {{ms .Tags.Floor}} beside it.

| asked for | heaps found | p50 | p99 |
|---|---|---|---|
{{range .Tags.Rows}}| {{.Question}} | {{n .Heaps}} | {{ms .P50}} | {{ms .P99}} |
{{end}}
## Start and memory

` + "`daybook serve`" + ` from process start to ` + "`/readyz`" + ` answering 200, and resident memory when idle, of the server and of its waiting workers.

| ledger | start | server | workers |
|---|---|---|---|
{{range .Starts}}| {{n .Events}} events | {{ms .Ready}} | {{.ServerMiB}} MiB | {{.Workers}} of {{.WorkerMiB}} MiB |
{{end}}
## Sandbox

What confining a worker costs: all layers beside none, one after the other in turn. Each figure is the one that a tenth of the runs stayed below.

| | confined | bare | difference |
|---|---|---|---|
{{range .Sandbox}}| {{.What}} | {{x .Confined}} ms | {{x .Bare}} ms | {{x .Added}} ms |
{{end}}
## Waiting for a run

How long after the terminal event of a run can be read a client of ` + "`?wait=`" + ` has the whole answer over HTTP. The floor is a plain read of the same execution.

| after readable | plain read | of the floor |
|---|---|---|
| {{x .Waiting.Took}} ms | {{x .Waiting.Floor}} ms | {{x .Waiting.OfFloor}} |

## TypeScript

A stateful run of 100 lines of TypeScript in a warm worker. The floor is the run of the same lines without types, in turn. What a tenth of them stayed below.

| | TypeScript | JavaScript | of the floor |
|---|---|---|---|
{{range .TypeScript}}| {{.What}} | {{x .Took}} ms | {{x .Floor}} ms | {{x .OfFloor}} |
{{end}}`))

func grouped(v any) string {
	digits := fmt.Sprintf("%.0f", toFloat(v))
	var out []byte
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out = append(out, ',')
		}
		out = append(out, digits[i])
	}
	return string(out)
}

func toFloat(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	default:
		panic(fmt.Sprintf("not a number: %T", v))
	}
}
