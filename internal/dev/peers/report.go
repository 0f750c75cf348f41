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
	HTTP, MCP       []comparison
	Cores           int
	GoVersion, Date string
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

var page = template.Must(template.New("peers").Funcs(template.FuncMap{
	"ms":    func(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) },
	"rate":  func(f float64) string { return fmt.Sprintf("%.0f", f) },
	"ratio": func(a, b time.Duration) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) },
	"share": func(a, b float64) string { return fmt.Sprintf("%.2f", a/b) },
}).Parse(`# Benchmarks beside other servers

Written by ` + "`make bench-peers`" + ` (` + "`go run ./internal/dev/peers -out docs/benchmarks-peers.md`" + `); do not edit. Both servers of a table run on the same machine at the same time and are measured in turn, so compare
the ratios. Each figure is the median of the rounds.

Measured {{.Date}} on {{.Cores}} cores, {{.GoVersion}}.

## Durable runs over HTTP

Daybook: ` + "`POST /api/exec?wait=30`" + ` of a stateless script, which parses, runs and records it. Restate 1.7.12 with its defaults: a call of a durable handler that does nothing. The processor time is that of the server; the
scripts run in worker processes, and the handler in a process of its own.

| clients | Daybook p50 | Restate p50 | ratio | Daybook/s | Restate/s | ratio | Daybook CPU | Restate CPU |
|---|---|---|---|---|---|---|---|---|
{{range .HTTP}}| {{.Clients}} | {{ms .Ours.P50}} | {{ms .Peers.P50}} | {{ratio .Ours.P50 .Peers.P50}} | {{rate .Ours.PerSecond}} | {{rate .Peers.PerSecond}} | {{share .Ours.PerSecond .Peers.PerSecond}} | {{ms .Ours.CPU}} | {{ms .Peers.CPU}} and {{ms .Peers.BesideCPU}} |
{{end}}
## Tools over MCP

Daybook: ` + "`run_js`" + ` of a stateless script over Streamable HTTP. The reference server ` + "`server-everything`" + `: its tool ` + "`echo`" + `, which records nothing. Clients of the official Go SDK, each with a session of its own.

| clients | Daybook p50 | echo p50 | ratio | Daybook/s | echo/s | ratio | Daybook CPU | echo CPU |
|---|---|---|---|---|---|---|---|---|
{{range .MCP}}| {{.Clients}} | {{ms .Ours.P50}} | {{ms .Peers.P50}} | {{ratio .Ours.P50 .Peers.P50}} | {{rate .Ours.PerSecond}} | {{rate .Peers.PerSecond}} | {{share .Ours.PerSecond .Peers.PerSecond}} | {{ms .Ours.CPU}} | {{ms .Peers.CPU}} |
{{end}}`))
