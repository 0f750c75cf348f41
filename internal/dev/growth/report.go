package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"text/template"
	"time"
)

// report holds all results.
type report struct {
	Volume          int
	Idle            time.Duration
	Rows            []row
	Cores           int
	GoVersion, Date string
}

// Kinds are the numbers of the kinds of requests.
func (r *report) Kinds() int { return len(r.Rows[0].Requests) }

// Growth is the ratio of the p99 at the largest size and that at the smallest.
func (r *report) Growth(kind int) float64 {
	first, last := r.Rows[0].Requests[kind], r.Rows[len(r.Rows)-1].Requests[kind]
	return float64(last.P99) / float64(first.P99)
}

// Extrapolated returns what a line through the first and the last row gives for ten million
// executions. A line that falls is noise and is taken for a level one.
func (r *report) Extrapolated(of func(row) float64) float64 {
	const executions = 10e6
	first, last := r.Rows[0], r.Rows[len(r.Rows)-1]
	if first.Executions == last.Executions {
		return of(last)
	}
	slope := max((of(last)-of(first))/float64(last.Executions-first.Executions), 0)
	return of(last) + slope*(executions-float64(last.Executions))
}

func (r *report) ExtrapolatedMiB() float64 {
	return r.Extrapolated(func(r row) float64 { return float64(r.Resident.All) / (1 << 20) })
}

func (r *report) ExtrapolatedStop() float64 {
	return r.Extrapolated(func(r row) float64 { return r.Stopped.Seconds() })
}

func (r *report) ExtrapolatedKill() float64 {
	return r.Extrapolated(func(r row) float64 { return r.Killed.Seconds() })
}

// write writes the page to the file out, or to standard output.
func (r *report) write(out string) error {
	r.Cores, r.GoVersion, r.Date = runtime.NumCPU(), runtime.Version(), time.Now().UTC().Format("2006-01-02")
	var b bytes.Buffer
	if err := page.Execute(&b, r); err != nil {
		return err
	}
	if out == "" {
		_, err := os.Stdout.Write(b.Bytes())
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o644)
}

var page = template.Must(template.New("growth").Funcs(template.FuncMap{
	"ms":   func(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) },
	"s":    func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) },
	"sec":  func(f float64) string { return fmt.Sprintf("%.1f s", f) },
	"mib":  func(n int64) string { return fmt.Sprintf("%d MiB", n>>20) },
	"mem":  func(m memory) string { return fmt.Sprintf("%d MiB (%d)", m.All>>20, m.Anonymous>>20) },
	"mibf": func(f float64) string { return fmt.Sprintf("%.0f MiB", f) },
	"x":    func(f float64) string { return fmt.Sprintf("%.2f", f) },
	"rate": func(n uint64, t timing) string { return fmt.Sprintf("%.0f", float64(n)/t.Took.Seconds()) },
}).Parse(`# Benchmarks of long ledgers

Written by ` + "`make bench-growth`" + ` (` + "`go run ./internal/dev/growth -out docs/benchmarks-growth.md`" + `); do not edit. The same things are measured on ledgers of different lengths, one after another on one machine: compare the rows.
An execution has four events: it prints a line and ends. Every hundredth leaves a small heap with a tag, and every fiftieth belongs to one of 1,000 sessions. A volume has {{.Volume}} executions.

Measured {{.Date}} on {{.Cores}} cores, {{.GoVersion}}.

## Starts and memory

The time until ` + "`/readyz`" + ` answers 200, and the resident memory of the server without its workers: idle a few seconds after its start, after the requests below, and {{.Idle}} after those. In parentheses is the part that no file has; the rest is mostly the program itself, which the system shares and reads again when needed.

| executions | events | volumes | after a clean stop | after SIGKILL | idle | after requests | {{.Idle}} later |
|---|---|---|---|---|---|---|---|
{{range .Rows}}| {{.Executions}} | {{.Events}} | {{.Volumes}} | {{s .Stopped}} | {{s .Killed}} | {{mem .Resident}} | {{mem .Used}} | {{mem .Rested}} |
{{end}}
A line through the first and the last row gives {{sec .ExtrapolatedStop}} after a clean stop, {{sec .ExtrapolatedKill}} after SIGKILL and {{mibf .ExtrapolatedMiB}} for ten million executions.

## Requests

p50 and p99 of one client over HTTP, about executions, heaps and sessions of any age.

| request |{{range .Rows}} {{.Executions}} |{{end}} p99, last to first |
|---|{{range .Rows}}---|{{end}}---|
{{$r := .}}{{range $k := .Kinds}}| {{(index (index $r.Rows 0).Requests $k).Name}} |{{range $r.Rows}} {{ms (index .Requests $k).P50}}, {{ms (index .Requests $k).P99}} |{{end}} {{x ($r.Growth $k)}} |
{{end}}
## Verifying and rebuilding

` + "`daybook verify`" + ` of the data directory with all heaps, and ` + "`daybook rebuild`" + ` of the projections: from the beginning, which also compares the old ones and each copy
with the result, and from a copy.

| executions | verify | events/s | memory | from the beginning | events/s | memory | from a copy | memory |
|---|---|---|---|---|---|---|---|---|
{{range .Rows}}| {{.Executions}} | {{s .Verify.Took}} | {{rate .Events .Verify}} | {{mib .Verify.Resident}} | {{s .Rebuild.Took}} | {{rate .Events .Rebuild}} | {{mib .Rebuild.Resident}} | {{s .Restore.Took}} | {{mib .Restore.Resident}} |
{{end}}`))
