package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"golang.org/x/sys/unix"
)

// ownerOf returns the process that owns a directory, or 0, and whether a client started it.
func ownerOf(t testing.TB, dir string) (pid int, background bool) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return 0, false
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return 0, false
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	pid, err = strconv.Atoi(string(raw))
	if err != nil {
		return 0, false // it has not written its id yet
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return 0, false // it has just ended
	}
	return pid, bytes.Contains(args, []byte("\x00owner\x00"))
}

// awaitOwner waits until the owner of a directory fulfills a condition.
func awaitOwner(t testing.TB, dir, what string, wanted func(pid int, background bool) bool) (pid int) {
	t.Helper()
	for late := time.Now().Add(patience); ; {
		pid, background := ownerOf(t, dir)
		if wanted(pid, background) {
			return pid
		}
		if time.Now().After(late) {
			log, _ := os.ReadFile(filepath.Join(dir, "owner.log"))
			t.Fatalf("%s: not in time; the owner is process %d and its log:\n%s", what, pid, log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stopping holds the tests and directories whose owners are stopped at the end.
var stopping sync.Map

// stopOwnerAtEnd ends the background owners of a directory when the test and its clients have
// ended: a running client would start the next owner.
func stopOwnerAtEnd(t testing.TB, dir string) {
	if _, known := stopping.LoadOrStore([2]any{t, dir}, true); known {
		return
	}
	t.Cleanup(func() {
		asked := map[int]bool{}
		for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			pids := ownersFor(dir)
			for _, pid := range pids {
				if !asked[pid] {
					asked[pid] = true
					_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
				}
			}
			switch {
			case len(pids) == 0:
				return
			case time.Now().After(late):
				t.Errorf("the owners %v of %s do not end", pids, dir)
				return
			}
		}
	})
}

// ownersFor returns the processes that clients started to own a directory, also those that have
// not taken its lock yet.
func ownersFor(dir string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		args, err := os.ReadFile(path)
		if err == nil && bytes.Contains(args, []byte("\x00owner\x00--data-dir="+dir+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// background waits for an owner of a directory that a client started.
func background(t testing.TB, dir string) (pid int) {
	t.Helper()
	return awaitOwner(t, dir, "a background owner", func(_ int, background bool) bool { return background })
}

// runOf returns the execution id in the answer to a call of run_js.
func runOf(t *testing.T, p *process, answer map[string]any) string {
	t.Helper()
	result, _ := answer["result"].(map[string]any)
	content, _ := result["structuredContent"].(map[string]any)
	id, _ := content["execution_id"].(string)
	if id == "" {
		t.Fatalf("run_js is answered with %v; stderr:\n%s", answer, p.errs.String())
	}
	return id
}

// send writes lines and does not wait for answers.
func (p *process) send(lines ...string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, strings.Join(lines, "\n")+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// receive reads answers until each of the requests has one.
func (p *process) receive(ids ...int) map[int]map[string]any {
	p.t.Helper()
	return p.receiveSome(len(ids), ids...)
}

// receiveSome reads the next n answers. An answer to another request, or a second answer to the
// same request, fails the test.
func (p *process) receiveSome(n int, ids ...int) map[int]map[string]any {
	p.t.Helper()
	answers := map[int]map[string]any{}
	for len(answers) < n {
		line, err := p.out.ReadString('\n')
		if err != nil {
			p.t.Fatalf("no answer: %v; stderr:\n%s", err, p.errs.String())
		}
		var msg map[string]any
		if err := json.Unmarshal([]byte(line), &msg); err != nil {
			p.t.Fatalf("not a message: %q", line)
		}
		id, answer := msg["id"].(float64)
		if !answer {
			continue
		}
		if !slices.Contains(ids, int(id)) || answers[int(id)] != nil {
			p.t.Errorf("request %v is answered again, or was not open: %s", id, line)
		}
		answers[int(id)] = msg
	}
	return answers
}

// Many clients that start at once on an empty directory start one owner.
func TestOwnerStartedOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made")
	all := make([]*process, 10)
	for i := range all {
		all[i] = launch(t, "mcp", "--data-dir", dir)
	}
	for _, p := range all {
		p.ask(initialize)
	}
	owner := background(t, dir)
	var run string
	for i, p := range all {
		id := runOf(t, p, p.ask(callTool(2, "run_js", `{"code":"1"}`))[2])
		if i == 0 {
			run = id
		}
		if answer := p.ask(callTool(3, "get_execution", fmt.Sprintf(`{"execution_id":%q}`, run)))[3]; strings.Contains(fmt.Sprint(answer), "isError:true") {
			t.Errorf("client %d does not see the first run: %v", i, answer)
		}
	}
	if now := background(t, dir); now != owner {
		t.Errorf("the owner was %d and is %d", owner, now)
	}
	log, err := os.ReadFile(filepath.Join(dir, "owner.log"))
	if err != nil || len(log) > 0 {
		t.Errorf("the owner logs %q, %v", log, err)
	}
	info, err := os.Stat(filepath.Join(dir, "owner.log"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log has mode %v, %v", info.Mode(), err)
	}
}

// While a client on standard streams uses a directory, other commands work through the owner of
// the directory: with --data-dir, or by default if no server answers.
func TestCommandsBesideStdioClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, "mcp", "--data-dir", dir, "--session-id", "editor")
	p.ask(initialize)
	id := runOf(t, p, p.ask(callTool(2, "run_js", `{"code":"console.log('seen'); 6 * 7"}`))[2])
	known := map[string]string{"dir": dir, "id": id}
	play(t, known, []step{
		{args: `exec watch $id --data-dir $dir`, stdout: "seen\n42\n", stderr: "status: completed\n.*"},
		{args: `exec list --data-dir $dir`, stdout: ".*$id +completed .*"},
		{eventually: true, args: `session log editor --data-dir $dir`, stdout: ".*6 \\* 7.*"},
		{args: `run --data-dir $dir -e 2`, stdout: "2\n", stderr: "status.*"},
		{args: `verify --data-dir $dir`, status: 7, stdout: ".*UNAUTHENTICATED.*", stderr: ".*"},
		{args: `status --data-dir $dir`, stdout: ".*"},
		{args: `events export $dir/../book --data-dir $dir`, stdout: "Exported .*"},
		{args: `exec list --data-dir $dir/none`, status: 5, stderr: "daybook: no process serves $dir/none: start one with .*\n"},
	})
	tail := launch(t, "events", "tail", "--data-dir", dir)
	tail.until("execution.completed")
	tail.signal(os.Interrupt)
	if status := tail.status(); status != 0 {
		t.Errorf("events tail exits with %d:\n%s", status, tail.errs.String())
	}
	play(t, known, []step{{args: `rebuild --data-dir $dir`, stdout: "Rebuilt the projections .*", stderr: "daybook: taking over $dir from .*"}})
	if answer := p.ask(callTool(3, "list_executions", `{}`))[3]; !strings.Contains(fmt.Sprint(answer), id) {
		t.Errorf("after the rebuild the client is answered %v", answer)
	}
}

// A server takes over from a background owner while a client waits for a run: the run is recorded
// once, and the client gets its answer.
func TestServeTakesOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, "mcp", "--data-dir", dir, "--stateless")
	p.ask(initialize)
	first := background(t, dir)
	p.send(callTool(2, "run_js", `{"code":"console.log('once'); await new Promise(r => setTimeout(r, 1500)); console.log('done')"}`))
	known := map[string]string{"dir": dir}
	play(t, known, []step{{eventually: true, args: `exec list --status running --data-dir $dir`, stdout: ".*\n(?P<id>\\S+) +running.*"}})
	server, url := launchServer(t, dir, "--stateless")
	known["url"] = url
	if pid, background := ownerOf(t, dir); pid == first || background {
		t.Errorf("the owner is process %d, the first was %d", pid, first)
	}
	server.errs.await(t, fmt.Sprintf("from background process %d; waiting", first))
	answer := p.receive(2)[2]
	if text := fmt.Sprint(answer["result"]); !strings.Contains(text, `once\ndone`) {
		t.Errorf("the call is answered with %v", answer)
	}
	play(t, known, []step{
		{args: `exec get $id` + at, stdout: ".*status +completed\n.*attempt +1\n.*"},
		{args: `exec list` + at, stdout: "EXECUTION[^\n]*\n$id [^\n]*\n"}, // no other
		{args: `serve --http-addr 127.0.0.1:0 --data-dir $dir`, status: 1, stderr: "daybook: .*in use by another process \\(process \\d+\\).*\n"},
	})
	// The client continues through the server.
	p.send(callTool(3, "run_js", `{"code":"console.log('next')"}`))
	if text := fmt.Sprint(p.receive(3)[3]); !strings.Contains(text, "next") {
		t.Errorf("through the server the call is answered with %s", text)
	}
	// When the server is stopped, the client continues with a background owner.
	server.signal(os.Interrupt)
	server.errs.await(t, "attached mcp and acp processes: 1; they continue")
	p.ask(callTool(4, "run_js", `{"code":"1"}`))
	background(t, dir)
	p.in.Close()
	if status := p.status(); status != 0 {
		t.Errorf("the client exits with %d:\n%s", status, p.errs.String())
	}
}

// When the owner is killed during many calls, each call is answered once and each run is recorded
// once, by the next owner.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, "mcp", "--data-dir", dir)
	p.ask(initialize)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	owner := background(t, dir)
	const calls = 20
	var ids []int
	for i := range calls {
		ids = append(ids, 100+i)
		p.send(callTool(100+i, "run_js", fmt.Sprintf(`{"code":"%d"}`, i)))
	}
	answers := p.receiveSome(5, ids...)
	if err := syscall.Kill(owner, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ids = slices.DeleteFunc(ids, func(id int) bool { return answers[id] != nil })
	for id, answer := range p.receive(ids...) {
		answers[id] = answer
	}
	awaitOwner(t, dir, "the next owner", func(pid int, background bool) bool { return background && pid != owner })
	runs := map[string]int{}
	for id, answer := range answers {
		runs[runOf(t, p, answer)] = id - 100
	}
	if len(runs) != calls {
		t.Errorf("%d calls are answered with %d runs", calls, len(runs))
	}
	known := map[string]string{"dir": dir}
	for run, i := range runs {
		known["id"] = run
		play(t, known, []step{{args: `exec watch $id --data-dir $dir`, stdout: fmt.Sprint(i) + "\n", stderr: "status: completed\n.*"}})
	}
	got := daybook("", "exec", "list", "--json", "--data-dir", dir)
	if n := strings.Count(got.stdout, `"execution_id"`); n != calls {
		t.Errorf("%d runs are recorded, want %d: %s%s", n, calls, got.stdout, got.err)
	}
	p.ask(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	p.in.Close()
	if status := p.status(); status != 0 {
		t.Errorf("it exits %d:\n%s", status, p.errs.String())
	}
	if rest := p.rest(); strings.Contains(rest, `"id"`) {
		t.Errorf("there is another answer: %s", rest)
	}
}

// An owner ends when neither a client nor a run has used it for its idle time.
func TestOwnerEndsIdle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, "mcp", "--data-dir", dir, "--idle-exit", "300ms")
	p.ask(initialize)
	owner := background(t, dir)
	began := time.Now()
	p.ask(callTool(2, "run_js", `{"code":"await new Promise(r => setTimeout(r, 1500)); 'whole'"}`))
	p.in.Close()
	if status := p.status(); status != 0 {
		t.Errorf("it exits %d:\n%s", status, p.errs.String())
	}
	awaitOwner(t, dir, "the idle owner's end", func(pid int, _ bool) bool { return pid == 0 })
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("the owner ended after %s, during the run", took)
	}
	// The next client starts another owner of the same ledger.
	p = launch(t, "mcp", "--data-dir", dir)
	p.ask(initialize)
	if now := background(t, dir); now == owner {
		t.Error("the first owner still owns the directory")
	}
	if text := fmt.Sprint(p.ask(callTool(2, "list_executions", `{}`))[2]); !strings.Contains(text, "completed") {
		t.Errorf("the next owner lists %s", text)
	}
}

// If an owner is stopped or killed while it starts, its client continues.
func TestOwnerStoppedAtStart(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		dir := t.TempDir()
		p := launch(t, "mcp", "--data-dir", dir)
		first := awaitOwner(t, dir, "an owner that starts", func(pid int, background bool) bool { return background })
		if err := syscall.Kill(first, sig); err != nil {
			t.Fatal(err)
		}
		p.ask(initialize)
		if now := background(t, dir); now == first {
			t.Errorf("after the signal %d the owner is still process %d", sig, now)
		}
	}
}

// If a client is killed, the owner and the run continue.
func TestClientDies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, "mcp", "--data-dir", dir)
	p.ask(initialize)
	owner := background(t, dir)
	id := runOf(t, p, p.ask(callTool(2, "run_js", `{"code":"console.log('in'); await new Promise(r => setTimeout(r, 500)); 'out'"}`))[2])
	p.signal(syscall.SIGKILL)
	p.status()
	play(t, map[string]string{"dir": dir, "id": id}, []step{
		{args: `exec watch $id --data-dir $dir`, stdout: "in\nout\n", stderr: "status: completed\n.*"},
		{args: `exec get $id --data-dir $dir`, stdout: ".*attempt +1\n.*"},
	})
	if now := background(t, dir); now != owner {
		t.Errorf("the owner was %d and is %d", owner, now)
	}
}

// A client reports why its owner cannot start. It lists the options that differ from those of a
// running owner.
func TestOwnerProblems(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := filepath.Join(dir, "none.json")
	p := launch(t, "mcp", "--data-dir", dir, "--mcp-config", missing)
	if status := p.status(); status != 2 || !strings.Contains(p.errs.String(), missing) {
		t.Errorf("it exits %d:\n%s", status, p.errs.String())
	}
	p = launch(t, "mcp", "--data-dir", filepath.Dir(written(t, "outside-server", "nats.example:4222\n")))
	if status := p.status(); status != 2 || !strings.Contains(p.errs.String(), "NATS server at nats.example:4222: start \"daybook serve\" with --nats-url") {
		t.Errorf("in the directory of an outside ledger the client exits with %d:\n%s", status, p.errs.String())
	}
	launch(t, "mcp", "--data-dir", dir).ask(initialize)
	p = launch(t, "mcp", "--data-dir", dir, "--stateless", "--execution-timeout", "7", "--drain-wait", "10s", "--session-id", "own")
	p.ask(initialize)
	p.errs.await(t, "which apply until it ends: ")
	if got := p.errs.String(); !strings.Contains(got, "which apply until it ends: --stateless, --execution-timeout\n") {
		t.Errorf("with other options the client prints %q", got)
	}
	// Options that only the owner has are listed too, but not flags of a server that a client
	// does not have.
	stateless := t.TempDir()
	launch(t, "mcp", "--data-dir", stateless, "--stateless").ask(initialize)
	p = launch(t, "mcp", "--data-dir", stateless)
	p.ask(initialize)
	p.errs.await(t, "which apply until it ends: --stateless\n")
	launchServer(t, stateless, "--seal-every", "never")
	p.ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if got := p.errs.String(); strings.Contains(got, "seal-every") {
		t.Errorf("beside a server the client prints %q", got)
	}
	file := written(t, "file", "no directory")
	p = launch(t, "mcp", "--data-dir", file)
	p.errs.await(t, "is a file; name a directory\n")
	if status := p.status(); status != 2 {
		t.Errorf("with a file as directory the client exits with %d", status)
	}
}

// An owner keeps no descriptor that its client inherited, such as a lock of a script. Its command
// line, which other users can read, has none of its options, which apply nevertheless.
func TestOwnerInherits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stopOwnerAtEnd(t, dir)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "mcp", "--data-dir", dir, "--instructions", "an option=1", "--execution-timeout", "7", "--idle-exit", "1m", "--mcp-server", "one=/bin/false a,b", "--mcp-server", "two=/bin/false")
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	cmd.ExtraFiles = []*os.File{w}
	cmd.Stdin = strings.NewReader(initialize + "\n")
	out, err := cmd.CombinedOutput()
	w.Close()
	if err != nil || !strings.Contains(string(out), "an option=1") {
		t.Errorf("the client is answered %s: %v", out, err)
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", background(t, dir)))
	if err != nil || bytes.Contains(args, []byte("option")) {
		t.Errorf("the owner's command line is %q, %v", args, err)
	}
	_ = r.SetReadDeadline(time.Now().Add(patience))
	if rest, err := io.ReadAll(r); err != nil || len(rest) != 0 {
		t.Errorf("the pipe holds %q and ends with %v", rest, err)
	}
	p := launch(t, "mcp", "--data-dir", dir, "--instructions", "another", "--execution-timeout", "7", "--idle-exit", "1m", "--mcp-server", "one=/bin/false a,b", "--mcp-server", "two=/bin/false")
	p.ask(initialize)
	p.errs.await(t, "until it ends: --instructions\n")
}

// acpCall is a request of the Agent Client Protocol.
func acpCall(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

// agent starts "daybook acp" with a session.
func agent(t *testing.T, dir, cwd string) (p *process, session string) {
	t.Helper()
	p = launch(t, "acp", "--data-dir", dir)
	p.ask(acpCall(1, "initialize", `{"protocolVersion":1}`))
	result, _ := p.ask(acpCall(2, "session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, cwd)))[2]["result"].(map[string]any)
	session, _ = result["sessionId"].(string)
	if session == "" {
		t.Fatalf("no session: %v\n%s", result, p.errs.String())
	}
	return p, session
}

func prompt(id int, session, code string) string {
	text, _ := json.Marshal(code)
	return acpCall(id, "session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%s}]}`, session, text))
}

// answered reads messages up to the answer to a request, and returns the texts of the agent's
// messages before it.
func (p *process) answered(id int) (texts []string, answer map[string]any) {
	p.t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			p.t.Fatalf("no answer: %v; stderr:\n%s", err, p.errs.String())
		}
		var msg struct {
			ID     *int
			Params struct {
				Update struct {
					Kind    string `json:"sessionUpdate"`
					Content any
				}
			}
		}
		var whole map[string]any
		if err := errors.Join(json.Unmarshal([]byte(line), &msg), json.Unmarshal([]byte(line), &whole)); err != nil {
			p.t.Fatalf("not a message: %q", line)
		}
		switch content, _ := msg.Params.Update.Content.(map[string]any); {
		case msg.ID != nil && *msg.ID == id:
			return texts, whole
		case msg.ID != nil:
			p.t.Errorf("request %d is answered again: %s", *msg.ID, line)
		case msg.Params.Update.Kind == "agent_message_chunk":
			texts = append(texts, fmt.Sprint(content["text"]))
		}
	}
}

// The sessions of an editor stay across owners. Every prompt is answered once, with each of its
// lines once.
func TestAgentAcrossOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, session := agent(t, dir, "/no/such/directory")
	p.send(prompt(3, session, "globalThis.n = 41"))
	if texts, _ := p.answered(3); len(texts) != 2 || !strings.Contains(texts[0], "does not exist") {
		t.Errorf("the first prompt is sent %q", texts) // the next owners do not repeat the announcement
	}
	first := background(t, dir)

	// A server takes over during a prompt.
	p.send(prompt(4, session, "console.log('one'); await new Promise(r => setTimeout(r, 1500)); console.log('two'); n + 1"))
	known := map[string]string{"dir": dir}
	play(t, known, []step{
		{eventually: true, args: `exec list --status running --data-dir $dir`, stdout: ".*\n(?P<id>\\S+) +running.*"},
		{eventually: true, args: `exec output $id --data-dir $dir`, stdout: "one\n"},
	})
	server, url := launchServer(t, dir)
	known["url"] = url
	texts, answer := p.answered(4)
	if got := strings.Join(texts, ""); got != "one\ntwo\n42" {
		t.Errorf("across the owners it is sent %q", texts)
	}
	if !strings.Contains(fmt.Sprint(answer["result"]), "end_turn") {
		t.Errorf("the prompt is answered with %v", answer)
	}
	play(t, known, []step{{args: `exec get $id` + at, stdout: ".*status +completed\n.*attempt +1\n.*"}})

	// The server is killed during another prompt: that prompt ends as interrupted, and a
	// background owner serves the session.
	p.send(prompt(5, session, "console.log('heard'); await new Promise(r => setTimeout(r, 30000))"))
	play(t, known, []step{
		{eventually: true, args: `exec list --status running` + at, stdout: ".*\n(?P<id>\\S+) +running.*"},
		{eventually: true, args: `exec output $id` + at, stdout: "heard\n"},
	})
	server.signal(syscall.SIGKILL)
	texts, answer = p.answered(5)
	if got := strings.Join(texts, ""); strings.Count(got, "heard") != 1 || !strings.Contains(fmt.Sprint(answer["result"]), "end_turn") {
		t.Errorf("after the kill it is sent %q and answered %v", texts, answer)
	}
	awaitOwner(t, dir, "the next owner", func(pid int, background bool) bool { return background && pid != first })
	p.send(prompt(6, session, "n"))
	if texts, _ := p.answered(6); strings.Join(texts, "") != "41" {
		t.Errorf("the next prompt is answered %q", texts)
	}
	p.in.Close()
	if status := p.status(); status != 0 {
		t.Errorf("it exits %d:\n%s", status, p.errs.String())
	}
}

// If an editor is killed, its prompts end and the owner continues.
func TestAgentDies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, session := agent(t, dir, "/tmp")
	owner := background(t, dir)
	p.send(prompt(3, session, "for (;;) await new Promise(r => setTimeout(r, 10))"))
	known := map[string]string{"dir": dir}
	play(t, known, []step{{eventually: true, args: `exec list --status running --data-dir $dir`, stdout: ".*\n(?P<id>\\S+) +running.*"}})
	p.signal(syscall.SIGKILL)
	p.status()
	play(t, known, []step{{eventually: true, args: `exec get $id --data-dir $dir`, stdout: ".*status +cancelled\n.*"}})
	if now := background(t, dir); now != owner {
		t.Errorf("the owner was %d and is %d", owner, now)
	}
}
