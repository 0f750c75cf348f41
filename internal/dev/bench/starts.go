package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startResult holds the start time and the memory of an idle server.
type startResult struct {
	Events               int
	Ready                time.Duration
	ServerMiB, WorkerMiB int
	Workers              int
}

func measureStarts(ctx context.Context, s settings, r *report) error {
	bin := filepath.Join(s.dir, "daybook")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	for _, ledger := range []struct {
		dir    string
		events int
	}{{"empty", 0}, {"large", s.events}} {
		// Start twice: the second start finds the projections and consumers that
		// a stopped server leaves.
		var res startResult
		for range 2 {
			var err error
			if res, err = measureStart(ctx, bin, filepath.Join(s.dir, ledger.dir)); err != nil {
				return err
			}
		}
		res.Events = ledger.events
		r.Starts = append(r.Starts, res)
	}
	return nil
}

func measureStart(ctx context.Context, bin, dir string) (res startResult, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return res, err
	}
	addr := l.Addr().String()
	l.Close()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, bin, "serve", "--data-dir", dir, "--http-addr", addr, "--nats-addr", "off")
	cmd.Stderr = &log
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return res, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if waitErr := cmd.Wait(); err == nil && waitErr != nil {
			err = fmt.Errorf("stop: %w\n%s", waitErr, log.String())
		}
	}()
	for {
		resp, err := http.Get("http://" + addr + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Since(start) > 5*time.Minute {
			return res, fmt.Errorf("not ready after five minutes\n%s", log.String())
		}
		time.Sleep(time.Millisecond)
	}
	res.Ready = time.Since(start)
	time.Sleep(3 * time.Second) // until the waiting workers have started
	res.ServerMiB = residentMiB(cmd.Process.Pid)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
	for _, path := range tasks {
		raw, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(raw)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return res, err
			}
			res.Workers++
			res.WorkerMiB = max(res.WorkerMiB, residentMiB(pid))
		}
	}
	return res, nil
}

func residentMiB(pid int) int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize() >> 20
}
