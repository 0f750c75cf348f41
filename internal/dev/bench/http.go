package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"daybook/events"
	"daybook/internal/dev/bench/gobench"
	"daybook/internal/dev/process"
	"daybook/internal/web/client"
)

// httpResult holds stateful runs over HTTP beside V8 cycles without the prelude.
type httpResult struct {
	Bare time.Duration // processor time of such a cycle
	Rows []httpRow
	// Turn and Fresh are the p50 of a turn in a chain of 100 and of a run from a fresh
	// isolate, in turn.
	Turn, Fresh time.Duration
}

// httpRow is the result for a number of clients.
type httpRow struct {
	Clients   int
	P50, P99  time.Duration
	PerSecond float64
	OfFloor   float64       // of cores / Bare
	Added     time.Duration // p50 beyond Bare
	CPU       time.Duration // of the server for a run, without its workers
}

// measureHTTP measures stateful runs of a server, whose clients wait for the result.
func measureHTTP(ctx context.Context, s settings, r *report) (err error) {
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	bin, err := process.BuildDaybook(ctx, dir)
	if err != nil {
		return err
	}
	addr, err := process.FreeAddr()
	if err != nil {
		return err
	}
	server, err := process.Start(ctx, process.Config{Name: "http", Dir: dir, URL: "http://" + addr, Ready: "/readyz",
		Command: []string{bin, "serve", "--data-dir", filepath.Join(dir, "http-data"), "--http-addr", addr, "--nats-addr", "off"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	// A client keeps two connections by default: most calls would then open a connection.
	kept := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	l := &httpLoad{client: client.New(server.URL, client.Options{HTTP: kept})}
	if _, err := timeCalls(ctx, 16, 100, l.fresh); err != nil {
		return err
	}
	var bare []time.Duration
	for _, clients := range []int{1, 16} {
		row := httpRow{Clients: clients}
		var took []time.Duration
		var busy, cpu time.Duration
		for range 4 {
			floor, err := bareCycle(ctx)
			if err != nil {
				return err
			}
			bare = append(bare, floor)
			start, before := time.Now(), server.CPU()
			some, err := timeCalls(ctx, clients, max(s.runs/4, 1), l.fresh)
			if err != nil {
				return err
			}
			busy, cpu = busy+time.Since(start), cpu+server.CPU()-before
			took = append(took, some...)
		}
		row.P50, row.P99 = quantile(took, 0.5), quantile(took, 0.99)
		row.PerSecond, row.CPU = float64(len(took))/busy.Seconds(), cpu/time.Duration(len(took))
		r.HTTP.Rows = append(r.HTTP.Rows, row)
	}
	r.HTTP.Bare = quantile(bare, 0.5)
	for i := range r.HTTP.Rows {
		row := &r.HTTP.Rows[i]
		row.OfFloor, row.Added = row.PerSecond*r.HTTP.Bare.Seconds()/float64(cores), row.P50-r.HTTP.Bare
	}
	return l.measureChain(ctx, &r.HTTP)
}

// bareCycle returns the processor time of a V8 cycle without the prelude.
func bareCycle(ctx context.Context) (time.Duration, error) {
	all, err := gobench.Run(ctx, "./internal/exec/v8", "^BenchmarkCycleAboveFloor$", 50)
	if err != nil {
		return 0, err
	}
	f, err := gobench.Figures(all, "CycleAboveFloor", "bare-cpu-ms")
	if err != nil {
		return 0, err
	}
	return time.Duration(f[0] * float64(time.Millisecond)), nil
}

// httpLoad runs scripts over HTTP.
type httpLoad struct {
	client *client.Client
	unique atomic.Int64
}

// fresh runs a script from a fresh isolate.
func (l *httpLoad) fresh(ctx context.Context) error { return l.exec(ctx, "") }

// exec runs a script in a logical session, or in none, and waits for its end.
func (l *httpLoad) exec(ctx context.Context, session string) error {
	// Each run leaves a heap of its own, because storing a known heap costs almost nothing.
	code := fmt.Sprintf("var n = %d; 1+1", l.unique.Add(1))
	resp, err := l.client.Send(ctx, http.MethodPost, "/api/exec?wait=30", client.Run{Code: code, LogicalSession: session})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var e client.Execution
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		return err
	}
	if e.Status != events.StatusCompleted || e.Result == nil || *e.Result != "2" {
		return fmt.Errorf("%s is %s", e.ExecutionID, e.Status)
	}
	return nil
}

// measureChain makes the turns of one session, and after each a run from a fresh isolate.
func (l *httpLoad) measureChain(ctx context.Context, r *httpResult) error {
	session, err := l.client.OpenSession(ctx, client.Opening{Intent: "measure a chain of turns", Seeds: []string{"builtin"}})
	if err != nil {
		return err
	}
	var turns, fresh []time.Duration
	timed := func(list *[]time.Duration, session string) error {
		start := time.Now()
		err := l.exec(ctx, session)
		*list = append(*list, time.Since(start))
		return err
	}
	for range 100 {
		if err := errors.Join(timed(&turns, session.Body.SessionID), timed(&fresh, "")); err != nil {
			return err
		}
	}
	r.Turn, r.Fresh = quantile(turns, 0.5), quantile(fresh, 0.5)
	return nil
}
