package embed_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"daybook/embed"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		opts  embed.Options
		words []string
	}{
		{embed.Options{}, []string{"DataDir is empty"}},
		{embed.Options{DataDir: "x", NATS: embed.NATSOptions{URL: "nats://h", Addr: "127.0.0.1:0"}}, []string{"NATS.URL and NATS.Addr exclude each other"}},
		{embed.Options{DataDir: "x", Slots: embed.SlotOptions{Total: -1}, NATS: embed.NATSOptions{Replicas: -2}}, []string{"Slots.Total is -1", "NATS.Replicas is -2"}},
		{embed.Options{DataDir: "x", Runs: embed.RunOptions{TimeoutSecs: 301}}, []string{"Runs.TimeoutSecs is 301", "1 to 300"}},
		{embed.Options{DataDir: "x", Runs: embed.RunOptions{HeapMB: 100_000_000, HeapCeilingMB: 1<<20 + 1}}, []string{"Runs.HeapMB is 100000000: the range is 1 to 1048576 MB", "Runs.HeapCeilingMB is 1048577"}},
		{embed.Options{DataDir: "x", Runs: embed.RunOptions{HeapMB: 64, HeapCeilingMB: 32}}, []string{"Runs.HeapCeilingMB is 32: it must not be below Runs.HeapMB, which is 64"}},
		{embed.Options{DataDir: "x", Resources: embed.ResourceOptions{MemoryMB: 512 << 20}}, []string{"Resources.MemoryMB is 536870912: the range is 64 to 1048576"}},
		{embed.Options{DataDir: "x", Resources: embed.ResourceOptions{DiskReserve: 1 << 51}}, []string{"Resources.DiskReserve is 2251799813685248: the range is 1 to 1125899906842624, a negative value keeps nothing free"}},
		{embed.Options{DataDir: "x", Access: embed.AccessOptions{Limits: embed.Limits{RequestsPerSecond: math.NaN()}}}, []string{"Access.Limits.RequestsPerSecond is NaN: the range is 0.001 to 1000000 a second, 0 is unlimited"}},
		{embed.Options{DataDir: "x", Access: embed.AccessOptions{Limits: embed.Limits{Runs: -1}}}, []string{"Access.Limits.Runs is -1: the range is 0 to 1000000000, 0 is unlimited"}},
		{embed.Options{DataDir: "x", Slots: embed.SlotOptions{ExtraAfter: 2 * time.Hour, Weights: map[string]int{"acme": 0}}}, []string{"Slots.ExtraAfter is 2h0m0s: the range is 1ns to 1h, a negative value is no wait", "Slots.Weights acme=0: the range is 1 to 1000"}},
		{embed.Options{DataDir: "x", Contexts: embed.ContextOptions{Idle: -1}}, []string{"Contexts.Idle is -1ns: it must be more than 0"}},
		{embed.Options{DataDir: "x", HTTP: embed.HTTPOptions{CertFile: "a"}}, []string{"HTTP.CertFile and HTTP.KeyFile belong together"}},
		{embed.Options{DataDir: "x", MCP: embed.MCPOptions{SessionID: "a\x00"}}, []string{"MCP.SessionID"}},
		{embed.Options{DataDir: "x", Workers: embed.WorkerOptions{Sandbox: "none"}}, []string{`Workers.Sandbox: "none" is unknown`, "strict or best-effort"}},
		{embed.Options{DataDir: "x", Workers: embed.WorkerOptions{JIT: "yes"}}, []string{`Workers.JIT: "yes" is unknown`, "on or off"}},
		{embed.Options{DataDir: "x", Workers: embed.WorkerOptions{Reuse: "always"}}, []string{`Workers.Reuse: workers cannot be reused by "always"`, "tenant, session or run"}},
		{embed.Options{DataDir: "x", Workers: embed.WorkerOptions{MaxRuns: -1, MaxAge: -1}}, []string{"Workers.MaxRuns is -1", "Workers.MaxAge is -1ns"}},
	} {
		book, err := embed.Start(t.Context(), test.opts)
		if err == nil {
			closeBook(t, book)
		}
		wantError(t, err, append(test.words, "options: ")...)
	}
}

// Only one process owns a data directory. The error for a second process names the first.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	for range 2 { // the second error has the same message
		_, err := embed.Start(within(t), embed.Options{DataDir: dir})
		if !errors.Is(err, embed.ErrLocked) {
			t.Fatalf("a second start: %v", err)
		}
		wantError(t, err, dir, strconv.Itoa(os.Getpid()))
	}
	if _, err := embed.Rebuild(within(t), embed.Options{DataDir: dir}); !errors.Is(err, embed.ErrLocked) {
		t.Errorf("a rebuild meanwhile: %v", err)
	}
	completes(t, book, embed.Script{Code: "1"}) // the owner is not disturbed
	closeBook(t, book)
	start(t, embed.Options{DataDir: dir})
}

func TestListening(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts  embed.Options
		words []string // of the error; none if the start succeeds
	}{
		"busy HTTP":           {embed.Options{HTTP: embed.HTTPOptions{Addr: busyPort(t)}}, []string{"listen for HTTP", "address already in use", "choose another --http-addr"}},
		"busy NATS":           {embed.Options{NATS: embed.NATSOptions{Addr: busyPort(t)}}, []string{"listen for NATS", "address already in use", "choose another --nats-addr"}},
		"both replaced":       {embed.Options{HTTP: embed.HTTPOptions{Addr: busyPort(t), Fallback: true}, NATS: embed.NATSOptions{Addr: busyPort(t), Fallback: true}}, nil},
		"all interfaces":      {embed.Options{HTTP: embed.HTTPOptions{Addr: ":0"}}, []string{"every interface", "no authentication"}},
		"all by address":      {embed.Options{HTTP: embed.HTTPOptions{Addr: "0.0.0.0:0"}}, []string{"0.0.0.0", "no authentication"}},
		"fallback is no help": {embed.Options{HTTP: embed.HTTPOptions{Addr: "[::]:0", Fallback: true}}, []string{"::", "no authentication"}},
		"no port":             {embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1"}}, []string{"HOST:PORT"}},
		"NATS everywhere":     {embed.Options{NATS: embed.NATSOptions{Addr: ":0"}}, []string{"NATS address", "every interface", "unencrypted", "127.0.0.1"}},
		"NATS by address":     {embed.Options{NATS: embed.NATSOptions{Addr: "0.0.0.0:4222", Fallback: true}}, []string{"0.0.0.0", "unencrypted"}},
		"NATS without port":   {embed.Options{NATS: embed.NATSOptions{Addr: "127.0.0.1"}}, []string{"host:port"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.opts.DataDir, test.opts.Runs.Elsewhere = t.TempDir(), true
			if test.words == nil {
				book := start(t, test.opts)
				for name, addr := range map[string][2]string{
					"HTTP": {strings.TrimPrefix(book.URL(), "http://"), test.opts.HTTP.Addr},
					"NATS": {strings.TrimPrefix(book.NATSURL(), "nats://"), test.opts.NATS.Addr},
				} {
					if addr[0] == addr[1] || !strings.HasPrefix(addr[0], "127.0.0.1:") {
						t.Errorf("%s listens on %q instead of busy %s", name, addr[0], addr[1])
					}
				}
				if status, _ := get(t, book.URL()+"/readyz"); status != http.StatusOK {
					t.Errorf("/readyz answers %d", status)
				}
				return
			}
			book, err := embed.Start(within(t), test.opts)
			if err == nil {
				closeBook(t, book)
			}
			wantError(t, err, test.words...)
			// A start that failed leaves the directory free.
			start(t, embed.Options{DataDir: test.opts.DataDir, Runs: embed.RunOptions{Elsewhere: true}})
		})
	}
}

// The error of a start without its NATS server names the server, without credentials, and
// what to do.
func TestStartWithoutOutsideNATS(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	book, err := embed.Start(t.Context(), embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: "nats://ada:secret@" + addr}, Runs: embed.RunOptions{Elsewhere: true}})
	if err == nil {
		closeBook(t, book)
	}
	wantError(t, err, "connect to the NATS server at "+addr, "check that it runs", "--nats-url")
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error holds the password: %v", err)
	}
}

func TestNoListeners(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Runs: embed.RunOptions{Elsewhere: true}})
	if book.URL() != "" || book.NATSURL() != "" {
		t.Errorf("URLs are %q and %q", book.URL(), book.NATSURL())
	}
}

func TestStartCancelled(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	dir := t.TempDir()
	book, err := embed.Start(ctx, embed.Options{DataDir: dir, NATS: embed.NATSOptions{NoSync: true}})
	if err == nil {
		closeBook(t, book)
		t.Fatal("a cancelled start succeeded")
	}
	start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
}

func TestClose(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	select {
	case <-book.Done():
		t.Fatal("done before it was closed")
	default:
	}
	closeBook(t, book)
	closeBook(t, book)
	<-book.Done()
	if err := book.Err(); err != nil {
		t.Errorf("after Close Err is %v", err)
	}
	_, err := book.Submit(within(t), embed.Script{Code: "1"})
	wantError(t, err, "shutting down")
	if _, err := http.Get(book.URL() + "/healthz"); err == nil {
		t.Error("the address is still open")
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	v, err := embed.Versions(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if v.V8 == "" || v.EngineID == "" || v.SnapshotFormat == 0 || v.ProjectionSchema == 0 || v.Go == "" {
		t.Errorf("versions are %+v", v)
	}
}

// holder starts another process that owns dir.
func holder(t *testing.T, dir string) (stop func()) {
	t.Helper()
	_, stop = holderProcess(t, dir)
	return stop
}

func holderProcess(t *testing.T, dir string) (pid int, stop func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "DAYBOOK_TEST_HOLD="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the other process: %v", err)
		}
	}
	t.Cleanup(stop)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the other process prints %q, %v", line, err)
	}
	return cmd.Process.Pid, stop
}

func TestLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stop := holder(t, dir)
	pid, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if string(pid) == fmt.Sprint(os.Getpid()) {
		t.Fatalf("the lock has the id of this process, %s", pid)
	}
	_, err = embed.Start(within(t), embed.Options{DataDir: dir})
	if !errors.Is(err, embed.ErrLocked) {
		t.Fatalf("a second process starts: %v", err)
	}
	wantError(t, err, "process "+string(pid))
	stop()
	start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
}
