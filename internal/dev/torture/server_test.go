package torture_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"daybook/internal/web/client"
)

// buildDir is the directory of the command that buildDaybook built; "" if no test needed it.
var buildDir string

// buildDaybook builds the real command once for all tests. "go run" takes it from the
// build cache if its sources did not change; "go build" would link it each time.
var buildDaybook = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "daybook-torture-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	bin := filepath.Join(dir, "daybook")
	cmd := exec.Command("go", "run", "-exec", `sh -c 'cp "$0" "$BIN"'`, "../../..")
	cmd.Env = append(os.Environ(), "BIN="+bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build daybook: %w\n%s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	if consume, ok := consumers[os.Getenv(consumerVariable)]; ok {
		consume() // this process is a consumer that a test has started
	}
	code := m.Run()
	if buildDir != "" {
		os.RemoveAll(buildDir)
	}
	os.Exit(code)
}

// server is a daybook process that can be killed and started again with the same data
// directory and address.
type server struct {
	t    testing.TB
	bin  string
	dir  string
	addr string
	nats string // address of the NATS listener; "" for none
	// flags are additional flags of the server.
	flags []string
	cmd   *exec.Cmd
	log   *lockedBuffer
}

func newServer(t testing.TB) *server {
	t.Helper()
	bin, err := buildDaybook()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, bin: bin, dir: t.TempDir(), addr: freeAddr(t)}
	t.Cleanup(s.kill)
	return s
}

// freeAddr returns an address for a server that is killed and started again. Its port is
// below the ephemeral ports, so that no connection takes it in between.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

func (s *server) url() string { return "http://" + s.addr }

func (s *server) api() *client.Client { return client.New(s.url(), client.Options{}) }

// isRefusal reports whether the server has answered with an error.
func isRefusal(err error) bool {
	_, ok := errors.AsType[*client.Error](err)
	return ok
}

// endedRuns returns the metrics of the runs that this process has ended, by status.
func (s *server) endedRuns() string {
	s.t.Helper()
	answer, err := http.Get(s.url() + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "daybook_runner_executions_total{") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// volumes returns the number of volumes, and how many of them are archives.
func (s *server) volumes() (all, archives int) {
	s.t.Helper()
	answer, err := s.api().Volumes(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, v := range answer.Body.Volumes {
		if all++; v.Archived {
			archives++
		}
	}
	return all, archives
}

// start launches the server and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	s.awaitReady()
}

// launch starts the process and does not wait until it is ready.
func (s *server) launch() {
	s.t.Helper()
	s.log = &lockedBuffer{}
	s.cmd = exec.Command(s.bin, append([]string{"serve", "--data-dir", s.dir, "--http-addr", s.addr, "--nats-addr", cmp.Or(s.nats, "off"), "--log-level", "info"}, s.flags...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Env = []string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH")}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// awaitReady waits until the server is ready.
func (s *server) awaitReady() {
	s.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		if s.api().Ready(s.t.Context()) == nil {
			return
		}
		if s.cmd.ProcessState != nil || time.Now().After(deadline) || s.exited() {
			s.t.Fatalf("the server did not become ready:\n%s", s.log.String())
		}
		time.Sleep(5 * time.Millisecond) // polling another process
	}
}

// exited reports whether the process has ended without a kill by the test.
func (s *server) exited() bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := bytes.Cut(raw, []byte(") "))
	return len(rest) > 0 && rest[0] == 'Z'
}

// kill ends the process with SIGKILL and waits for its end.
func (s *server) kill() {
	if s.cmd == nil || s.cmd.ProcessState != nil {
		return
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// recorded is an event as /api/events shows it.
type recorded struct {
	Seq     uint64          `json:"-"`
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Subject string          `json:"subject"`
	Data    json.RawMessage `json:"data"`
	Raw     map[string]any  `json:"-"`
}

// ledger reads all events.
func (s *server) ledger() []recorded {
	s.t.Helper()
	var all []recorded
	for after := uint64(0); ; {
		req, _ := http.NewRequest(http.MethodGet, fmt.Sprintf("%s/api/events?after=%d&limit=1000", s.url(), after), nil)
		req.Header.Set("Accept", "application/x-ndjson")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			s.t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			raw, _ := io.ReadAll(resp.Body)
			s.t.Fatalf("read the ledger: %s: %s", resp.Status, raw)
		}
		n := 0
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 4<<20)
		for in.Scan() {
			var e recorded
			if err := json.Unmarshal(in.Bytes(), &e); err != nil {
				s.t.Fatalf("%v in %s", err, in.Bytes())
			}
			if err := json.Unmarshal(in.Bytes(), &e.Raw); err != nil {
				s.t.Fatal(err)
			}
			e.Seq = sequenceOf(s.t, e.Raw)
			after = e.Seq
			all = append(all, e)
			n++
		}
		resp.Body.Close()
		if err := in.Err(); err != nil {
			s.t.Fatal(err)
		}
		if n == 0 {
			return all
		}
	}
}

func sequenceOf(t testing.TB, e map[string]any) uint64 {
	t.Helper()
	switch v := e["sequence"].(type) {
	case float64:
		return uint64(v)
	case string:
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	default:
		t.Fatalf("event has no sequence: %v", e)
		return 0
	}
}

// lockedBuffer collects the output of a process.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
