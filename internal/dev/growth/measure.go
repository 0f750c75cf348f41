package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"daybook/internal/dev/process"
	"daybook/internal/web/client"
)

// row is the result for one size of the ledger.
type row struct {
	Executions, Volumes int
	Events              uint64
	Stopped, Killed     time.Duration // until the server is ready, after a clean stop and after SIGKILL
	Resident            memory        // of the server, idle, after its start
	Used                memory        // after the requests
	Rested              memory        // after settings.idle without requests
	Requests            []requestTimes
	// Restore is a rebuild that begins with a projection copy.
	Rebuild, Restore, Verify timing
}

// memory is the resident memory of a process in bytes, and the part of it that no file has.
type memory struct{ All, Anonymous int64 }

func memoryOf(s *process.Server) memory { return memory{s.Resident(), s.Anonymous()} }

// timing is the time and the largest resident memory of a command.
type timing struct {
	Took     time.Duration
	Resident int64 // bytes
}

// settleFor is the time after a start in which background tasks come to rest.
const settleFor = 5 * time.Second

// startServer starts a server on the ledger and returns the time until it is ready.
func startServer(ctx context.Context, s settings) (*process.Server, time.Duration, error) {
	addr, err := process.FreeAddr()
	if err != nil {
		return nil, 0, err
	}
	start := time.Now()
	server, err := process.Start(ctx, process.Config{Name: "daybook", Dir: s.dir, URL: "http://" + addr, Ready: "/readyz",
		Command: []string{s.bin, "serve", "--data-dir", s.data(), "--http-addr", addr, "--nats-addr", "off"}})
	return server, time.Since(start), err
}

// seal seals the active volume, unless the server has just opened it because the one before was full.
func seal(ctx context.Context, s settings) (err error) {
	server, _, err := startServer(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	_, err = client.New(server.URL, client.Options{}).Seal(ctx)
	if err != nil && strings.Contains(err.Error(), "holds only its opening event") {
		return nil
	}
	return err
}

// measure measures a ledger of one size.
func measure(ctx context.Context, s settings, g *generator) (r row, err error) {
	r.Executions = g.executions
	// This start derives what is missing of the projections and signs what was written.
	if err := finish(ctx, s); err != nil {
		return r, err
	}
	server, ready, err := startServer(ctx, s)
	if err != nil {
		return r, err
	}
	r.Stopped = ready
	if err := server.Kill(); err != nil {
		return r, err
	}
	if server, r.Killed, err = startServer(ctx, s); err != nil {
		return r, err
	}
	time.Sleep(settleFor)
	r.Resident = memoryOf(server)
	c := client.New(server.URL, client.Options{})
	err = func() error {
		if r.Requests, err = measureRequests(ctx, c, g, s.calls); err != nil {
			return err
		}
		r.Used = memoryOf(server)
		time.Sleep(s.idle)
		r.Rested = memoryOf(server)
		volumes, err := c.Volumes(ctx)
		if err != nil {
			return err
		}
		list := volumes.Body.Volumes
		r.Volumes, r.Events = len(list), list[len(list)-1].Last
		return nil
	}()
	if err := errors.Join(err, server.Stop()); err != nil {
		return r, err
	}
	if r.Verify, err = timeCommand(ctx, s.bin, "verify", "--data-dir", s.data(), "--key", filepath.Join(s.data(), "audit", "vkey")); err != nil {
		return r, err
	}
	if r.Restore, err = timeCommand(ctx, s.bin, "rebuild", "--data-dir", s.data()); err != nil {
		return r, err
	}
	r.Rebuild, err = timeCommand(ctx, s.bin, "rebuild", "--from-start", "--data-dir", s.data())
	return r, err
}

// finish starts a server until it has a checkpoint of all events and the archives of all volumes
// but the newest two, and stops it.
func finish(ctx context.Context, s settings) (err error) {
	server, _, err := startServer(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	c := client.New(server.URL, client.Options{})
	late := time.Now().Add(archivedWithin)
	if err := sign(ctx, c, late); err != nil {
		return err
	}
	for ; ; time.Sleep(100 * time.Millisecond) {
		volumes, err := c.Volumes(ctx)
		if err != nil {
			return err
		}
		list := volumes.Body.Volumes
		left := 0
		for _, v := range list[:max(len(list)-2, 0)] {
			if !v.Archived {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("%d volumes have no archive after %v", left, archivedWithin)
		}
	}
}

// sign waits for a checkpoint of all events. On a busy machine a server may still hash the events
// that were written when its own wait ends, and is asked again.
func sign(ctx context.Context, c *client.Client, late time.Time) error {
	for {
		resp, err := c.Send(ctx, "POST", "/api/ledger/checkpoint", nil)
		if err == nil {
			return resp.Body.Close()
		}
		if time.Now().After(late) {
			return err
		}
		time.Sleep(time.Second)
	}
}

// archivedWithin is how long the archives of all volumes may take.
const archivedWithin = time.Hour

// memoryInterval is the interval at which timeCommand reads the memory of a command. What the command
// takes after the last reading is not seen.
const memoryInterval = 20 * time.Millisecond

// timeCommand runs a command. The system's own record of the largest memory of a child would include
// that of this process before it became another program.
func timeCommand(ctx context.Context, command ...string) (t timing, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return t, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ticker := time.NewTicker(memoryInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			t.Took = time.Since(start)
			if err != nil {
				return t, fmt.Errorf("%v: %w\n%s", command[1:], err, &out)
			}
			return t, nil
		case <-ticker.C:
			t.Resident = max(t.Resident, process.Peak(cmd.Process.Pid))
		}
	}
}
