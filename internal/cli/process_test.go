package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"daybook/internal/web/client"
)

// buildInto builds the command. "go run" uses the build cache if the sources did not change; "go
// build" would link each time.
func buildInto(bin string) error {
	cmd := exec.Command("go", "run", "-exec", `sh -c 'cp "$0" "$BIN"'`, "../..")
	cmd.Env = append(os.Environ(), "BIN="+bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build daybook: %w\n%s", err, out)
	}
	return nil
}

// process is a daybook command in another process.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errs   *lines
	exited chan error
}

// launch starts the built command.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(bin, args...), errs: &lines{more: make(chan struct{})}, exited: make(chan error, 1)}
	home := t.TempDir()
	p.cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	if args[0] == "mcp" || args[0] == "acp" {
		stopOwnerAtEnd(t, dataDirOf(home, args))
	}
	p.cmd.Stderr = p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// Not StdoutPipe: Wait would close the pipe before all is read.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.out = w, bufio.NewReader(r)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() { p.exited <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		p.in.Close()
		r.Close()
		select {
		case <-p.exited:
		case <-time.After(patience):
			t.Error("a killed process did not end")
		}
	})
	return p
}

// dataDirOf returns the data directory of a command.
func dataDirOf(home string, args []string) string {
	if i := slices.Index(args, "--data-dir"); i >= 0 {
		return args[i+1]
	}
	return filepath.Join(home, ".local", "share", "daybook")
}

// signal sends a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// status waits for the end and returns the exit status, or -1 after a signal.
func (p *process) status() int {
	p.t.Helper()
	select {
	case err := <-p.exited:
		p.exited <- err
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("the process did not end; stderr:\n%s", p.errs.String())
		return 0
	}
}

// rest reads stdout to its end.
func (p *process) rest() string {
	p.t.Helper()
	raw, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(raw)
}

// until reads lines of stdout up to one that matches, and returns its groups.
func (p *process) until(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	// A process that never prints such a line must not block the tests.
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	for {
		line, err := p.out.ReadString('\n')
		if groups := re.FindStringSubmatch(line); groups != nil {
			return groups
		}
		if err != nil {
			p.t.Fatalf("no line of stdout matches %s; stderr:\n%s", pattern, p.errs.String())
		}
	}
}

// lines collects the output of a process, and notifies a waiter of more.
type lines struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await waits until the output contains a text.
func (l *lines) await(t *testing.T, text string) {
	t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		more, have := l.more, strings.Contains(l.buf.String(), text)
		l.mu.Unlock()
		if have {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("the output lacks %q:\n%s", text, l.String())
		}
	}
}

// launchServer starts "daybook serve" on free ports and returns its address.
func launchServer(t *testing.T, dir string, args ...string) (p *process, url string) {
	t.Helper()
	p = launch(t, append([]string{"serve", "--data-dir", dir, "--http-addr", "127.0.0.1:0", "--nats-addr", "127.0.0.1:0"}, args...)...)
	p.until(`^Daybook \S+\n`)
	if got := p.until(`^  data +(.*)\n`)[1]; got != dir {
		t.Errorf("the printed data directory is %s, want %s", got, dir)
	}
	url = p.until(`^  http +(http://127\.0\.0\.1:\d+) `)[1]
	if mcp := p.until(`^  mcp +(\S+)\n`)[1]; mcp != url+"/mcp" {
		t.Errorf("the printed address of MCP is %s", mcp)
	}
	file := p.until(`^  events +nats://127\.0\.0\.1:\d+   \(NATS, to read: nats --server nats://127\.0\.0\.1:\d+ --creds (\S+) sub 'events\.default\.>'\)\n`)[1]
	if raw, err := os.ReadFile(file); err != nil || !strings.Contains(string(raw), "BEGIN USER NKEY SEED") {
		t.Errorf("the credentials are in %s: %s, %v", file, raw, err)
	}
	p.until(`^Ready\. `)
	return p, url
}

// The server names a default port that another program uses, because clients look for the server
// there. No output contains the private key of subscribers.
func TestServeNamesABusyPort(t *testing.T) {
	t.Parallel()
	if l, err := net.Listen("tcp", "127.0.0.1:8080"); err == nil {
		defer l.Close() // otherwise another program uses the port already
	}
	dir := t.TempDir()
	p := launch(t, "serve", "--data-dir", dir, "--nats-addr", "127.0.0.1:0")
	url := p.until(`^  http +(http://127\.0\.0\.1:\d+) `)[1]
	if named := p.until(`^Another program uses 127\.0\.0\.1:8080, the default HTTP address: clients need --server (\S+)\.\n`)[1]; named != url {
		t.Errorf("the printed address is %s, the address is %s", named, url)
	}
	p.signal(syscall.SIGTERM)
	raw, err := os.ReadFile(filepath.Join(dir, "nats", "default.creds"))
	if err != nil {
		t.Fatal(err)
	}
	seed := regexp.MustCompile(`\bSU[A-Z2-7]{50,}`).FindString(string(raw))
	if all := p.rest() + p.errs.String(); seed == "" || strings.Contains(all, seed) {
		t.Errorf("the private key is printed:\n%s", all)
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, url := launchServer(t, dir)
	if err := client.New(url, client.Options{}).Ready(t.Context()); err != nil {
		t.Errorf("after the server printed Ready it is not ready: %v", err)
	}
	known := map[string]string{"url": url, "dir": dir}
	play(t, known, []step{
		{args: `run -e let·a·=·41` + at, stderr: "status: completed\nheap:   (?P<heap>\\w+)\n"},
		{args: `serve --http-addr 127.0.0.1:0 --data-dir $dir`, status: 1, stderr: "daybook: .*in use by another process \\(process \\d+\\).*\n"},
		{args: `run --detach -e console.log("on");await·new·Promise(r=>setTimeout(r,1000));"drained"` + at, stdout: "(?P<id>\\S+)\n"},
		{args: `exec get $id` + at, stdout: ".*status +(running|completed)\n.*"},
	})
	p.signal(syscall.SIGTERM)
	if status := p.status(); status != 0 {
		t.Errorf("after draining the server exits with %d:\n%s", status, p.errs.String())
	}
	if rest := p.rest(); rest != "" {
		t.Errorf("the rest of the output is %q", rest)
	}
	if got, want := p.errs.String(), "daybook: waiting for running scripts; press Ctrl-C again to stop at once\n"; got != want {
		t.Errorf("stderr is %q, want %q", got, want)
	}

	p, known["url"] = launchServer(t, dir)
	play(t, known, []step{
		{args: `run --heap $heap -e a+1` + at, stdout: "42\n", stderr: "status.*"},
		{args: `exec watch $id` + at, stdout: "on\ndrained\n", stderr: "status: completed\n.*"},
		{args: `exec get $id` + at, stdout: ".*attempt +1\n.*"},
	})
	p.signal(os.Interrupt)
	if status := p.status(); status != 0 {
		t.Errorf("after an interrupt the server exits with %d", status)
	}
}

// A second signal ends the server at once. The run in progress continues at the next start.
func TestServeStoppedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, url := launchServer(t, dir, "--drain-wait", "60s")
	known := map[string]string{"url": url}
	play(t, known, []step{{args: `run --detach -e console.log("tick");await·new·Promise(r=>setTimeout(r,30000)) --timeout 60` + at, stdout: "(?P<id>\\S+)\n"}})
	watched := launch(t, "exec", "watch", known["id"], "--server", url)
	watched.until("^tick\n")
	p.signal(syscall.SIGTERM)
	p.errs.await(t, "press Ctrl-C again")
	p.signal(syscall.SIGTERM)
	began := time.Now()
	if status := p.status(); status != 1 {
		t.Errorf("after a second signal the server exits with %d", status)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("stopping at once took %s", took)
	}
	if !strings.Contains(p.errs.String(), "unfinished runs continue at the next start") {
		t.Errorf("stderr is %s", p.errs.String())
	}
	_, known["url"] = launchServer(t, dir)
	watched = launch(t, "exec", "watch", known["id"], "--server", known["url"])
	watched.until("^tick\n")
	play(t, known, []step{{args: `exec cancel $id` + at, stdout: "cancelled\n"}})
	if status := watched.status(); status != 3 {
		t.Errorf("watching a cancelled run exits %d", status)
	}
}

// An interrupt of "daybook run" cancels the run, and the output has the status.
func TestInterruptRun(t *testing.T) {
	t.Parallel()
	book := serve(t)
	p := launch(t, "run", "-e", `console.log("in"); while (true) {}`, "--server", book.URL())
	p.until("^in\n")
	p.signal(os.Interrupt)
	if status := p.status(); status != 3 {
		t.Errorf("it exits %d", status)
	}
	if got, want := p.errs.String(), "Cancelled by user\nstatus: cancelled\n"; got != want {
		t.Errorf("stderr is %q, want %q", got, want)
	}
	known := map[string]string{"url": book.URL()}
	play(t, known, []step{{args: `exec list --status cancelled` + at, stdout: "EXECUTION [^\n]*\n\\S+ +cancelled [^\n]*\n"}})

	// An interrupt ends "events tail" with status 0.
	tail := launch(t, "events", "tail", "--server", book.URL())
	tail.until("execution.cancelled ")
	tail.signal(os.Interrupt)
	if status := tail.status(); status != 0 {
		t.Errorf("events tail exits with %d", status)
	}
}

// ask sends requests to an MCP server and returns the answers by id.
func (p *process) ask(requests ...string) map[float64]map[string]any {
	p.t.Helper()
	answers := map[float64]map[string]any{}
	for _, r := range requests {
		if _, err := io.WriteString(p.in, r+"\n"); err != nil {
			p.t.Fatal(err)
		}
	}
	for len(answers) < len(requests) {
		line, err := p.out.ReadString('\n')
		if err != nil {
			p.t.Fatalf("no answer: %v; stderr:\n%s", err, p.errs.String())
		}
		var msg map[string]any
		if err := json.Unmarshal([]byte(line), &msg); err != nil || msg["jsonrpc"] != "2.0" {
			p.t.Fatalf("stdout is not JSON-RPC: %q", line)
		}
		if id, ok := msg["id"].(float64); ok {
			answers[id] = msg
		}
	}
	return answers
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func callTool(id int, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, args)
}

// Two MCP servers that start at once on one directory share its ledger.
func TestMCPTwice(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made")
	var both [2]*process
	for i, session := range []string{"left", "right"} {
		both[i] = launch(t, "mcp", "--data-dir", dir, "--session-id", session)
	}
	ids := [2]string{}
	for i, p := range both {
		p.ask(initialize)
		result := p.ask(callTool(2, "run_js", fmt.Sprintf(`{"code":"\"from %d\""}`, i)))[2]["result"].(map[string]any)
		ids[i], _ = result["structuredContent"].(map[string]any)["execution_id"].(string)
	}
	for i, p := range both { // each reads the run of the other
		for waiting := true; waiting; {
			result := p.ask(callTool(3, "get_execution", fmt.Sprintf(`{"execution_id":%q}`, ids[1-i])))[3]["result"].(map[string]any)
			got, _ := result["structuredContent"].(map[string]any)
			if waiting = got["status"] == "running"; !waiting && got["result"] != fmt.Sprintf("from %d", 1-i) {
				t.Errorf("process %d sees %v", i, got)
			}
		}
		// The session entry follows the end of its run, so the request is repeated until
		// the entry is there.
		const want = `{"sessions":["left","right"]}`
		raw := []byte(nil)
		for late := time.Now().Add(patience); string(raw) != want && time.Now().Before(late); {
			result := p.ask(callTool(4, "list_sessions", `{}`))[4]["result"].(map[string]any)
			raw, _ = json.Marshal(result["structuredContent"])
		}
		if string(raw) != want {
			t.Errorf("process %d sees sessions %s, want %s", i, raw, want)
		}
	}
	for _, p := range both {
		p.in.Close()
		if status := p.status(); status != 0 {
			t.Errorf("at the end of its input the process exits with %d:\n%s", status, p.errs.String())
		}
		if rest := p.rest(); rest != "" {
			t.Errorf("stdout ends with %q", rest)
		}
	}
}

func TestMCPBesideServer(t *testing.T) {
	t.Parallel()
	book := serve(t)
	p := launch(t, "mcp", "--data-dir", book.DataDir())
	p.ask(initialize)
	result := p.ask(callTool(2, "run_js", `{"code":"console.log('shared'); 1"}`))[2]["result"].(map[string]any)
	id, _ := result["structuredContent"].(map[string]any)["execution_id"].(string)
	play(t, map[string]string{"url": book.URL(), "id": id}, []step{
		{args: `exec watch $id` + at, stdout: "shared\n1\n", stderr: "status: completed\n.*"},
		{eventually: true, args: `session list` + at, stdout: "KIND .*\nnamed +stdio .*"}, // the client names no session, so that of the server applies
	})
	alone := launch(t, "mcp", "--data-dir", t.TempDir())
	alone.ask(initialize)
	for name, p := range map[string]*process{"attached": p, "alone": alone} {
		p.signal(syscall.SIGTERM)
		if status := p.status(); status != 0 {
			t.Errorf("%s: the process exits with %d after SIGTERM:\n%s", name, status, p.errs.String())
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got := daybook("", "completion", shell)
		if got.status != 0 || got.err != "" || !strings.Contains(got.stdout, "exec watch") {
			t.Errorf("completion %s: %+v", shell, got)
		}
	}
	script := written(t, "daybook.bash", daybook("", "completion", "bash").stdout)
	if out, err := exec.Command("bash", "-n", script).CombinedOutput(); err != nil {
		t.Fatalf("bash does not read it: %v\n%s", err, out)
	}
	for typed, want := range map[string]string{
		"":                              "serve mcp acp run repl exec heap session context events volume key token nats module webhook status verify replay monitor policy witness rebuild version completion --help --config --raw",
		"he":                            "heap",
		"exec ":                         "list show get output text watch cancel calls artifacts events --help",
		"exec w":                        "watch",
		"run plan.ts --ti":              "--timeout",
		"run --tag a=b plan.ts --det":   "--detach",
		"heap find kind=table --s":      "--server",
		"completion ":                   "bash zsh fish --help",
		"session log exec --j":          "--json",
		"exec get some-id nothing-else": "",
	} {
		program := `source "$1"; read -ra COMP_WORDS <<< "daybook $2"; [[ $2 == "" || $2 == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _daybook; echo "${COMPREPLY[*]}"`
		out, err := exec.Command("bash", "-c", program, "bash", script, typed).CombinedOutput()
		if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != want {
			t.Errorf("%q completes to %q, want %q: %v", typed, got, want, err)
		}
	}
}
