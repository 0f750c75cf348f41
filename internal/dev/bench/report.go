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
	HTTP                 httpResult
	Output               outputResult
	Projection           projectionResult
	Tags                 tagResult
	Starts               []startResult
	Sandbox              []sandboxRow
	Waiting              versusRow
	Proofs               proofsResult
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

Written by ` + "`make bench`" + ` (` + "`go run ./internal/dev/bench -out docs/benchmarks.md`" + `); do not edit. Machines differ and are noisy, so most tables show a floor, which was measured on the same machine in
the same run: compare ratios, not milliseconds.

Measured {{.Date}} on {{.Cores}} cores of {{.CPU}}, {{.GoVersion}}.

## Stateful runs

The time from the submission of ` + "`var n = …; 1+1`" + ` in process until its terminal event can be read. Each run has another number, so it leaves a heap of its own. Every event and heap is on disk.

The floor is measured between the runs, in the same process. A V8 cycle restores the fresh heap, runs such a script, saves the heap and disposes of the isolate. An fsync appends 512 bytes to a
file and syncs it. "Of the floor" is runs/s divided by (cores / V8 cycle). One client has one run at a time, so on two cores it reaches at most half of the floor. "Added" is p50 minus the V8 cycle,
in fsyncs. It is given for one client only, because with more clients it includes time in the queue.

| clients | p50 | p99 | runs/s | V8 cycle | fsync | of the floor | added |
|---|---|---|---|---|---|---|---|
{{range .Stateful}}| {{.Clients}} | {{ms .P50}} | {{ms .P99}} | {{x1 .PerSecond}} | {{ms .Cycle}} | {{ms .Fsync}} | {{x .OfFloor}} | {{if eq .Clients 1}}{{x1 .AddedFsy}} fsyncs{{end}} |
{{end}}
## Stateless runs

The same measurement with plain isolates, which have the optimizing compiler and leave no heap. The V8 cycle saves none either.

| clients | p50 | p99 | runs/s | V8 cycle | fsync | of the floor | added |
|---|---|---|---|---|---|---|---|
{{range .Stateless}}| {{.Clients}} | {{ms .P50}} | {{ms .P99}} | {{x1 .PerSecond}} | {{ms .Cycle}} | {{ms .Fsync}} | {{x .OfFloor}} | {{if eq .Clients 1}}{{x1 .AddedFsy}} fsyncs{{end}} |
{{end}}
## Stateful runs over HTTP

` + "`POST /api/exec?wait=30`" + ` of the same script to a server on this machine. The floor is a V8 cycle without the prelude, the built-in JavaScript of Daybook: {{ms .HTTP.Bare}} of processor time, measured between the runs. "Of the floor" is runs/s divided by
(cores / this cycle). "Added" is p50 minus this cycle. The processor time is that of the server, without the worker processes.

| clients | p50 | p99 | runs/s | of the floor | added | server CPU of a run |
|---|---|---|---|---|---|---|
{{range .HTTP.Rows}}| {{.Clients}} | {{ms .P50}} | {{ms .P99}} | {{x1 .PerSecond}} | {{x .OfFloor}} | {{if eq .Clients 1}}{{ms .Added}}{{end}} | {{ms .CPU}} |
{{end}}
A chain of 100 turns in one session: p50 {{ms .HTTP.Turn}}. Runs from a fresh isolate, in turn with them: p50 {{ms .HTTP.Fresh}}.

## Output

One script writes {{n .Output.Lines}} lines of {{.Output.LineBytes}} bytes; each is on disk before the run ends.

| | |
|---|---|
| time from request to end | {{ms .Output.Took}} |
| lines/s, durable | {{n .Output.PerSecond}} |
| events recorded | {{n .Output.Events}} |
| lines in the time of one fsync | {{x1 .Output.PerFsync}} |

## Projections

| | |
|---|---|
| apply events from memory (requested, started, output of 20 lines, completed) | {{n .Projection.ApplyPerSecond}} events/s |
| rebuild from a ledger of {{n .Projection.Events}} events | {{x1 .Projection.Rebuild.Seconds}} s, {{n .Projection.RebuildPerSecond}} events/s |

## Heaps by tags

Exact queries of two pairs among {{n .Tags.Heaps}} tagged heaps. The floor, reading the tags of one heap, took {{ms .Tags.Floor}}.

| query | heaps found | p50 | p99 |
|---|---|---|---|
{{range .Tags.Rows}}| {{.Question}} | {{n .Heaps}} | {{ms .P50}} | {{ms .P99}} |
{{end}}
## Start and memory

The time from the start of ` + "`daybook serve`" + ` until ` + "`/readyz`" + ` answers 200, and the resident memory of the idle server and of its waiting workers.

| ledger | start | server | workers |
|---|---|---|---|
{{range .Starts}}| {{n .Events}} events | {{ms .Ready}} | {{.ServerMiB}} MiB | {{.Workers}} of {{.WorkerMiB}} MiB |
{{end}}
## Proofs

Events are hashed and signed beside the appends. The floor is the same load without proofs.

| processor time of the server | with proofs | without | of the floor |
|---|---|---|---|
| an event, appended by 32 writers without syncs | {{x1 .Proofs.Append.Took}} µs | {{x1 .Proofs.Append.Floor}} µs | {{x .Proofs.Append.OfFloor}} |
| a stateless run | {{x1 .Proofs.Run.Took}} µs | {{x1 .Proofs.Run.Floor}} µs | {{x .Proofs.Run.OfFloor}} |

` + "`daybook verify`" + ` of 100,000 events of complete runs, without blobs. The floor reads the same events and computes the SHA-256 of their payloads, on one processor. The memory is that of a verification without the tiles of its window.

| verification | | floor |
|---|---|---|
| events/s | {{n .Proofs.Verified}} | {{n .Proofs.VerifyFloor}} |
| processor time of an event | {{x1 .Proofs.VerifyCPU}} µs | {{x1 .Proofs.VerifyFloorCPU}} µs |
| memory for 20,000 events, and for 200,000 | {{n .Proofs.SmallKiB}} KiB, {{n .Proofs.LargeKiB}} KiB | |

## Sandbox

The cost of confining a worker: runs with all layers and runs with none, in turn. Each figure is the 10th percentile.

| | confined | bare | difference |
|---|---|---|---|
{{range .Sandbox}}| {{.What}} | {{x .Confined}} ms | {{x .Bare}} ms | {{x .Added}} ms |
{{end}}
## Waiting for a run

The time from when the terminal event of a run can be read until a client of ` + "`?wait=`" + ` has the whole answer over HTTP. The floor is a plain read of the same execution.

| after readable | plain read | of the floor |
|---|---|---|
| {{x .Waiting.Took}} ms | {{x .Waiting.Floor}} ms | {{x .Waiting.OfFloor}} |

## TypeScript

A stateful run of 100 lines of TypeScript in a warm worker. The floor is a run of the same lines without types, in turn. Each figure is the 10th percentile.

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
