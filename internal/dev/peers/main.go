// Peers measures Daybook beside other servers on the same machine, in the same minutes, and
// writes docs/benchmarks-peers.md:
//
//	go run ./internal/dev/peers -out docs/benchmarks-peers.md
//
// The peers are installed from npm, outside the repository: Restate, whose durable handler
// that does nothing is the peer of a stateless run over HTTP, and the reference server of MCP,
// whose tool echo is the peer of a stateless run_js.
//
// The other files, in reading order:
//
//   - compare.go: takes turns between two servers, and computes the figures
//   - daybook.go: runs over HTTP and MCP
//   - restate.go: calls of the durable handler
//   - echo.go: calls of the tool echo
//   - npm.go: installs the peers
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

	"daybook/internal/dev/process"
)

func main() {
	var s settings
	flag.IntVar(&s.calls, "calls", 400, "calls of a round; rounds with one client have a quarter")
	flag.IntVar(&s.rounds, "rounds", 7, "rounds of each server in a row")
	out := flag.String("out", "", "file to write instead of standard output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s, *out); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// settings are the sizes of the measurement.
type settings struct {
	calls, rounds int
	dir           string // for data and logs
}

func run(ctx context.Context, s settings, out string) (err error) {
	modules, err := install(ctx)
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp(".", "bench-"); err != nil { // on the disk of the working tree, not in memory
		return err
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	bin, err := process.BuildDaybook(ctx, s.dir)
	if err != nil {
		return err
	}
	var r report
	fmt.Fprintln(os.Stderr, "measuring runs over HTTP …")
	if r.HTTP, err = compareHTTP(ctx, s, bin, modules); err != nil {
		return fmt.Errorf("runs over HTTP: %w", err)
	}
	fmt.Fprintln(os.Stderr, "measuring calls over MCP …")
	if r.MCP, err = compareMCP(ctx, s, bin, modules); err != nil {
		return fmt.Errorf("calls over MCP: %w", err)
	}
	return r.write(out)
}

// compareHTTP compares stateless runs with calls of Restate's durable handler.
func compareHTTP(ctx context.Context, s settings, bin, modules string) (rows []comparison, err error) {
	daybook, err := startDaybook(ctx, bin, s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, daybook.Stop()) }()
	restate, err := startRestate(ctx, modules, s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, restate.stop()) }()
	for _, clients := range []int{1, 16} {
		row, err := compare(ctx, s, clients,
			side{server: daybook.Server, call: daybook.exec},
			side{server: restate.server, beside: restate.handler, call: restate.call})
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// compareMCP compares stateless run_js with the tool echo.
func compareMCP(ctx context.Context, s settings, bin, modules string) (rows []comparison, err error) {
	daybook, err := startDaybook(ctx, bin, s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, daybook.Stop()) }()
	everything, err := startEverything(ctx, modules, s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, everything.Stop()) }()
	for _, clients := range []int{1, 8} {
		ours, err := newToolClients(ctx, daybook.URL+"/mcp", clients, runJS)
		if err != nil {
			return nil, err
		}
		theirs, err := newToolClients(ctx, everything.URL+"/mcp", clients, echo)
		if err != nil {
			return nil, errors.Join(err, ours.close())
		}
		row, err := compare(ctx, s, clients,
			side{server: daybook.Server, call: ours.call},
			side{server: everything, call: theirs.call})
		if err := errors.Join(err, ours.close(), theirs.close()); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
