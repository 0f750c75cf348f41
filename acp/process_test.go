package acp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/embed"
)

// agent is a process of the test binary that serves an agent.
type agent struct {
	*peer
	cmd *exec.Cmd
	// raw is every byte of its standard output so far; read it after the end.
	raw *bytes.Buffer
}

func launch(t testing.TB, dir string) *agent {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "DAYBOOK_TEST_AGENT="+dir)
	cmd.Dir = os.TempDir()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, toUs := io.Pipe()
	raw := new(bytes.Buffer)
	cmd.Stdout = io.MultiWriter(raw, toUs)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, in, out)
	go func() {
		p.ended = cmd.Wait()
		toUs.Close()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.leave()
		if t.Failed() {
			t.Logf("the agent's log:\n%s", stderr.String())
		}
	})
	return &agent{p, cmd, raw}
}

// TestACP20_Restarts: a session outlives its process, also one that is killed. A run
// that was killed has failed and is not started again.
func TestACP20_Restarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := launch(t, dir)
	first.initialize()
	id := first.newSession()
	first.prompt(id, "// The work\nglobalThis.n = 41")
	mark := first.mark()
	conversation(t, first.peer, id)
	live := updates(t, first.messagesSince(mark), id)
	first.leave()

	second := launch(t, dir)
	second.initialize()
	if s := second.list(obj{}).Sessions; len(s) != 1 || s[0].SessionID != id || s[0].Title != "The work" {
		t.Fatalf("a new process lists %+v", s)
	}
	mark = second.mark()
	second.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	replayed := updates(t, second.messagesSince(mark), id)
	if replayedUpdates := asJSON(t, replayed); !slices.Equal(asJSON(t, live), withoutPrompts(asJSON(t, live), replayedUpdates)) {
		t.Error("the replay of a new process differs from the live updates")
	}
	if got := second.promptTexts(id, "n + 1"); !slices.Equal(got, []string{"42"}) {
		t.Errorf("the heap is at %q", got)
	}
	second.begin(id, endless)
	if err := second.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-second.done

	third := launch(t, dir)
	third.initialize()
	mark = third.mark()
	third.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	all := updates(t, third.messagesSince(mark), id)
	last := slices.IndexFunc(all, func(u sdk.SessionUpdate) bool {
		return u.UserMessageChunk != nil && u.UserMessageChunk.Content.Text != nil && strings.Contains(u.UserMessageChunk.Content.Text.Text, "for (;;)")
	})
	if last < 0 {
		t.Fatal("the prompt that was killed is not replayed")
	}
	replayedUpdates := strings.Join(asJSON(t, all[last:]), "\n")
	for _, want := range []string{`"status":"failed"`, `"reason":"interrupted"`, `begun\n`} {
		if !strings.Contains(replayedUpdates, want) {
			t.Errorf("the updates of the run that was killed lack %s:\n%s", want, replayedUpdates)
		}
	}
	if got := third.promptTexts(id, "n"); !slices.Equal(got, []string{"41"}) {
		t.Errorf("after the kill the heap is at %q", got)
	}
}

// withoutPrompts returns the newest of the updates, as many as were sent live, without
// the prompts.
func withoutPrompts(live, replayedUpdates []string) []string {
	replayedUpdates = slices.DeleteFunc(slices.Clone(replayedUpdates), func(u string) bool { return strings.Contains(u, `"sessionUpdate":"user_message_chunk"`) })
	return replayedUpdates[max(len(replayedUpdates)-len(live), 0):]
}

// TestTwoProcesses: a second process works through the first.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, dir)
	own := connect(t, book).initialize()
	id := own.newSession()
	own.prompt(id, "globalThis.n = 1")
	other := launch(t, dir)
	other.initialize()
	other.mustCall("session/resume", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []obj{child(t, "tools", "tools")}}, nil)
	if got := other.promptTexts(id, "n + (await mcp.tools.echo({text: 'x'}))"); !slices.Equal(got, []string{"1tools says x"}) {
		t.Errorf("the second process receives %q", got)
	}
	own.mustFail(-32602, "session/prompt", obj{"sessionId": id, "prompt": text("1")})
	// The sessions of a process end with it.
	other.begin(id, endless)
	other.in.Close()
	<-other.done
	own.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	if got := own.promptTexts(id, "n"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the first process receives %q", got)
	}
}

// TestACP39_OnlyMessages: scripts and clients cannot make the agent write anything but
// messages, one a line, to standard output.
func TestACP39_OnlyMessages(t *testing.T) {
	t.Parallel()
	a := launch(t, t.TempDir())
	for _, line := range []string{"", "garbage", "[]", "[{}]", "{}", "1", `"x"`, "null", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":{},"method":"initialize"}`,
		`{"jsonrpc":"2.0","id":null,"method":"initialize"}`, `{"jsonrpc":"2.0","id":"\ud800","method":"session/new"}`, `{"jsonrpc":"2.0","method":"nothing"}`,
		`{"jsonrpc":"2.0","id":77}`, `{"jsonrpc":"2.0","id":78,"result":{}}`, `{"method":5,"id":1}`, strings.Repeat("[", 100_000), strings.Repeat("x", 11<<20)} {
		a.line(line)
	}
	a.initialize()
	id := a.newSession(obj{"mcpServers": []obj{child(t, "dies", "dies")}})
	for _, code := range []string{
		`console.log('{"jsonrpc":"2.0","method":"forged"}\n\n\u2028')`, `console.log("\x00\x1b[2J\r\n")`, "throw new Error('{}\\n')", "({", "'\\ud800'", "while (true) ({}).x.y", "/tools",
	} {
		a.prompt(id, code)
	}
	a.in.Close()
	<-a.done
	lines := bufio.NewScanner(a.raw)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var m struct {
			JSONRPC string `json:"jsonrpc"`
			Method  string `json:"method"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.JSONRPC != "2.0" || m.Method == "forged" {
			t.Errorf("a line is not a message: %.200q", lines.Text())
		}
	}
	if a.ended != nil {
		t.Errorf("the agent ends with %v", a.ended)
	}
}

// TestEndOfInput: the agent answers requests that were piped in.
func TestEndOfInput(t *testing.T) {
	t.Parallel()
	shared(t)
	fromClient, toAgent := io.Pipe()
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- sharedDaybook.book.ServeACP(t.Context(), fromClient, &out) }()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`,
		`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/tmp","mcpServers":[]}}`,
		`{"jsonrpc":"2.0","id":"three","method":"session/list","params":{}}`,
	} {
		if _, err := io.WriteString(toAgent, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	toAgent.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"id":1,"result"`, `"id":2,"result"`, `"id":"three","result"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in:\n%s", want, out.String())
		}
	}
}

// TestServerCloses: a Daybook that is closed ends its clients' runs and
// connections.
func TestServerCloses(t *testing.T) {
	t.Parallel()
	book, err := embed.Start(waitContext(t), embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}})
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, book).initialize()
	id := p.newSession(obj{"mcpServers": []obj{child(t, "tools", "tools")}})
	p.begin(id, endless)
	if err := book.Close(); err != nil {
		t.Error(err)
	}
	<-p.done
}
