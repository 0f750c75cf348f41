package attack_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "daybook/internal/cli" // a change of the command invalidates the test cache
	"daybook/internal/dev/tier"
)

var attackSize = flag.String("attack", "short", `"full" runs the attacks in full size, "short" in a size that takes seconds`)

// choose returns the first value in the short attack and the second in the full one.
func choose[T any](short, full T) T {
	if *attackSize == "full" {
		return full
	}
	return short
}

// slack multiplies time limits: the short attacks run on different and busy machines, with
// ten times the promised limit.
func slack(d time.Duration) time.Duration { return time.Duration(choose[int64](10, 1) * int64(d)) }

// runInParallel runs the short attack in parallel with others. It is for tests that compare
// no latencies; most of them wait for something.
func runInParallel(t *testing.T) {
	if *attackSize != "full" {
		t.Parallel()
	}
}

// maxGrowth bounds the memory of the server above its idle level, for any load, in bytes.
const maxGrowth = 600 << 20

// attack skips the test in the normal tier. covered names the tests that cover
// the behavior there.
func attack(t testing.TB, covered string) {
	t.Helper()
	if *attackSize != "full" {
		tier.NightlyOnly(t, covered)
	}
}

// buildDir is the directory of the command that buildDaybook built; "" before.
var buildDir string

// builtVariable is the variable with the path of the built command, in a process that a
// test has started.
const builtVariable = "DAYBOOK_ATTACK_COMMAND"

// buildDaybook builds the real command once for all tests. "go run" takes it from the
// build cache if its sources did not change; "go build" would link it each time.
var buildDaybook = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv(builtVariable); bin != "" {
		return bin, nil
	}
	dir, err := os.MkdirTemp("", "daybook-attack-")
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
	runLoad()
	code := m.Run()
	if buildDir != "" {
		os.RemoveAll(buildDir)
	}
	os.Exit(code)
}

// server is a daybook process that requires tokens.
type server struct {
	t      testing.TB
	bin    string
	dir    string
	addr   string
	flags  []string
	limits []string // of the process, as options of prlimit: "--nofile=1024"
	temp   string   // directory for temporary files of the server; "" is that of the system
	secure bool     // the server has a certificate, which clients do not verify
	cmd    *exec.Cmd
	log    *lockedBuffer
}

// newServer returns a server with two slots and additional flags. It is not started.
func newServer(t testing.TB, flags ...string) *server {
	t.Helper()
	bin, err := buildDaybook()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s := &server{t: t, bin: bin, dir: t.TempDir(), addr: addr, flags: append([]string{"--max-concurrent-executions=2"}, flags...)}
	s.makeCommonTokens()
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	return s
}

// commonTenants are the tenants of most tests. Each has a token to read and run on every
// server, because a running server takes up to a second to accept a new token.
var commonTenants = []string{
	"quiet", "alone", "reader", "loud", "greedy", "client", "busy", "victim", "mallory", "attacker", "attacker0", "attacker1", "attacker2", "attacker3",
}

const commonScopes = "read,run"

// commonTokens holds the tokens of commonTenants, and their file.
var commonTokens struct {
	once sync.Once
	of   map[string]string
	file []byte
}

// makeCommonTokens gives a server that is not started the file with the common tokens. The
// first call creates it.
func (s *server) makeCommonTokens() {
	s.t.Helper()
	var err error
	commonTokens.once.Do(func() {
		made := map[string]string{}
		for _, tenant := range commonTenants {
			made[tenant] = s.createToken(tenant, commonScopes)
		}
		commonTokens.file, err = os.ReadFile(s.tokenFile())
		commonTokens.of = made
	})
	if err == nil {
		err = os.WriteFile(s.tokenFile(), commonTokens.file, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// createToken creates a token with the command.
func (s *server) createToken(tenant, scopes string) string {
	s.t.Helper()
	return strings.TrimSpace(s.command("token", "create", "--file", s.tokenFile(), "--tenant", tenant, "--principal", tenant, "--scope", scopes))
}

// startServer creates a server and starts it.
func startServer(t testing.TB, flags ...string) *server {
	t.Helper()
	s := newServer(t, flags...)
	s.start()
	return s
}

func (s *server) tokenFile() string { return filepath.Join(s.dir, "tokens.jsonl") }

func (s *server) url() string {
	if s.secure {
		return "https://" + s.addr
	}
	return "http://" + s.addr
}

// client sends requests to the server.
func (s *server) client() *http.Client {
	if s.secure {
		return secureClient
	}
	return http.DefaultClient
}

var secureClient = &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// command runs another command of the binary and returns its standard output.
func (s *server) command(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.bin, args...)
	cmd.Env = s.env()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("daybook %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

func (s *server) env() []string {
	env := []string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH")}
	if s.temp != "" {
		env = append(env, "TMPDIR="+s.temp)
	}
	return env
}

// token returns a token of a tenant; scopes are separated by commas. It creates the token
// unless the tenant is a common one.
func (s *server) token(tenant, scopes string) string {
	s.t.Helper()
	if token := commonTokens.of[tenant]; token != "" && scopes == commonScopes {
		return token
	}
	token := s.createToken(tenant, scopes)
	if s.cmd == nil {
		return token
	}
	// A running server reads the file again within a second.
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		resp, err := s.do(s.t.Context(), token, http.MethodGet, "/api/executions?limit=1", nil)
		if err != nil {
			s.t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			return token
		}
	}
	s.t.Fatal("the server does not accept a new token")
	return ""
}

// start launches the server and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	s.ready()
}

// ready waits until the server is ready.
func (s *server) ready() {
	s.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		resp, err := s.client().Get(s.url() + "/readyz")
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) || s.exited() {
			s.t.Fatalf("the server did not become ready:\n%s", s.log.String())
		}
		time.Sleep(5 * time.Millisecond) // polls another process
	}
}

// launch starts the process and does not wait until it is ready.
func (s *server) launch() {
	s.t.Helper()
	s.log = &lockedBuffer{}
	args := append([]string{s.bin, "serve", "--data-dir", s.dir, "--http-addr", s.addr, "--nats-addr", "off", "--auth", "tokens=" + s.tokenFile()}, s.flags...)
	if len(s.limits) > 0 {
		args = slices.Concat([]string{"prlimit"}, s.limits, args)
	}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Env = s.env()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// exited reports whether the process has ended without a signal of the test.
func (s *server) exited() bool {
	raw, err := os.ReadFile(s.proc("stat"))
	if err != nil {
		return true
	}
	_, rest, _ := bytes.Cut(raw, []byte(") "))
	return len(rest) > 0 && rest[0] == 'Z'
}

// end sends a signal and waits until the process has ended.
func (s *server) end(sig syscall.Signal) {
	if s.cmd == nil || s.cmd.ProcessState != nil {
		return
	}
	s.cmd.Process.Signal(sig)
	s.cmd.Wait()
}

func (s *server) proc(name string) string {
	return fmt.Sprintf("/proc/%d/%s", s.cmd.Process.Pid, name)
}

// memory returns the resident anonymous memory of the server without its workers, in
// bytes. Pages of files do not count, because the kernel can reclaim them.
func (s *server) memory() int64 {
	s.t.Helper()
	n, err := s.resident()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.log.String())
	}
	return n
}

// resident is memory with an error if the server has ended.
func (s *server) resident() (int64, error) {
	raw, err := os.ReadFile(s.proc("status"))
	if err != nil {
		return 0, fmt.Errorf("the server has ended: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("the kernel does not report RssAnon, or the server has ended")
}

// peak measures the server's memory until stop is called, which returns the largest value.
func (s *server) peak() (stop func() int64) {
	quit, most := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var top int64
		for {
			select {
			case <-tick.C:
				if n, err := s.resident(); err == nil { // a server may end meanwhile
					top = max(top, n)
				}
			case <-quit:
				most <- top
				return
			}
		}
	}()
	return func() int64 { close(quit); return <-most }
}

// descriptors returns the number of open files of the server.
func (s *server) descriptors() int {
	s.t.Helper()
	list, err := os.ReadDir(s.proc("fd"))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list)
}

// cpu returns the processor time that the server has used, without its workers.
func (s *server) cpu() time.Duration {
	s.t.Helper()
	_, used, err := processStat(s.cmd.Process.Pid)
	if err != nil {
		s.t.Fatal(err)
	}
	return used
}

// workersCPU returns the processor time of the current workers of the server.
func (s *server) workersCPU() (sum time.Duration) {
	s.t.Helper()
	list, err := os.ReadDir("/proc")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process may have ended meanwhile.
		if parent, used, err := processStat(pid); err == nil && parent == s.cmd.Process.Pid {
			sum += used
		}
	}
	return sum
}

// processStat returns the parent of a process and the processor time that it has used.
func processStat(pid int) (parent int, used time.Duration, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := bytes.Cut(raw, []byte(") "))
	fields := strings.Fields(string(rest))
	if len(fields) < 13 {
		return 0, 0, fmt.Errorf("the kernel describes process %d as %q", pid, raw)
	}
	var user, system int
	for field, value := range map[int]*int{1: &parent, 11: &user, 12: &system} {
		if *value, err = strconv.Atoi(fields[field]); err != nil {
			return 0, 0, err
		}
	}
	return parent, time.Duration(user+system) * 10 * time.Millisecond, nil // USER_HZ is 100
}

// open starts to read an answer of a media type. The caller closes the body.
func (s *server) open(ctx context.Context, token, path, accept string) *http.Response {
	s.t.Helper()
	resp, err := s.get(ctx, token, path, accept)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// get requests an answer of a media type. The caller closes the body.
func (s *server) get(ctx context.Context, token, path, accept string) (*http.Response, error) {
	req, err := s.request(ctx, token, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	return s.client().Do(req)
}

// do sends a request with a token. A string body is sent unchanged, as JSON.
func (s *server) do(ctx context.Context, token, method, path string, body any) (*http.Response, error) {
	req, err := s.request(ctx, token, method, path, body)
	if err != nil {
		return nil, err
	}
	return s.client().Do(req)
}

// request returns a request for do.
func (s *server) request(ctx context.Context, token, method, path string, body any) (*http.Request, error) {
	var payload io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		payload = strings.NewReader(b)
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url()+path, payload)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return req, nil
}

// call sends a request, requires a status and decodes the answer.
func (s *server) call(token, method, path string, body any, status int) map[string]any {
	s.t.Helper()
	resp, err := s.do(s.t.Context(), token, method, path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != status {
		s.t.Fatalf("%s %s: %s, want %d: %.500s", method, path, resp.Status, status, raw)
	}
	var answer map[string]any
	if err := json.Unmarshal(raw, &answer); err != nil {
		s.t.Fatalf("%s %s: %v in %.500s", method, path, err, raw)
	}
	return answer
}

// submit starts a run and returns its id. members are the members of the request other than
// the code.
func (s *server) submit(token, code string, members map[string]any) string {
	s.t.Helper()
	body := map[string]any{"code": code}
	for k, v := range members {
		body[k] = v
	}
	return s.call(token, http.MethodPost, "/api/exec", body, http.StatusAccepted)["execution_id"].(string)
}

// wait waits until a run has ended and returns it.
func (s *server) wait(token, id string) map[string]any {
	s.t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for time.Now().Before(deadline) {
		if e := s.call(token, http.MethodGet, "/api/executions/"+id+"?wait=30", nil, http.StatusOK); e["status"] != "running" {
			return e
		}
	}
	s.t.Fatalf("the run %s has not ended within 5 minutes", id)
	return nil
}

// run runs code to its end.
func (s *server) run(token, code string, members map[string]any) map[string]any {
	s.t.Helper()
	return s.wait(token, s.submit(token, code, members))
}

// probe runs `1` for a tenant a number of times, one after the other, and returns the
// durations, sorted.
func (s *server) probe(token string, times int) []time.Duration {
	s.t.Helper()
	took := make([]time.Duration, times)
	for i := range took {
		start := time.Now()
		e := s.call(token, http.MethodPost, "/api/exec?wait=60", map[string]any{"code": "1"}, http.StatusOK)
		took[i] = time.Since(start)
		if e["status"] != "completed" || e["result"] != "1" {
			s.t.Fatalf("a run of 1 answers %v", e)
		}
	}
	slices.Sort(took)
	return took
}

// percentile returns the value at percentile p of sorted values.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
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
