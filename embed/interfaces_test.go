package embed_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"golang.org/x/sys/unix"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/ledger"
)

func get(t testing.TB, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// The handler serves the complete interface in an HTTP server of another program.
func TestHandler(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{})
	server := httptest.NewServer(book.Handler())
	defer server.Close()
	resp, err := http.Post(server.URL+"/api/exec", "text/plain", strings.NewReader(`6 * 7`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var accepted struct {
		ID string `json:"execution_id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&accepted); err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	if _, body := get(t, server.URL+"/api/executions/"+accepted.ID+"?wait=30"); !strings.Contains(body, `"result":"42"`) {
		t.Errorf("the run is %s", body)
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/docs"} {
		if status, body := get(t, server.URL+path); status != http.StatusOK || body == "" {
			t.Errorf("%s answers %d", path, status)
		}
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, server.URL+"/mcp", strings.NewReader(initialize))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if raw, _ := io.ReadAll(answer.Body); !bytes.Contains(raw, []byte(`"serverInfo"`)) {
		t.Errorf("/mcp answers %s: %s", answer.Status, raw)
	}
}

// Requests over every interface have the same size limit and the same error.
func TestRequestLimit(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Runs: embed.RunOptions{Elsewhere: true}})
	server := httptest.NewServer(book.Handler())
	defer server.Close()
	// The longest source, with every character escaped.
	source := strings.Repeat(`\u00e9`, ledger.MaxCodeBytes/2)
	call := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"%s"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, id, source)
	}
	send := func(path string, body io.Reader) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(within(t), http.MethodPost, server.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "run_js"} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, _ := io.ReadAll(resp.Body) // the server may close the connection of a body that is too long
		return resp.StatusCode, string(raw)
	}
	if status, body := send("/mcp", strings.NewReader(call(1))); status != http.StatusOK || !strings.Contains(body, "execution_id") {
		t.Errorf("the longest source over MCP: %d %.300s", status, body)
	}
	if tier.Nightly() { // the HTTP interface has a test of its own for each form of body
		if status, body := send("/api/exec", strings.NewReader(`{"code":"`+source+`"}`)); status != http.StatusAccepted {
			t.Errorf("the longest source over REST: %d %.300s", status, body)
		}
	}
	long := strings.Repeat(" ", ledger.MaxRequestBytes) + "{}"
	for _, path := range []string{"/mcp", "/api/exec"} {
		for _, chunked := range tier.Choose([]bool{path == "/mcp"}, []bool{false, true}) {
			var body io.Reader = strings.NewReader(long)
			if chunked {
				body = io.MultiReader(body)
			}
			if status, answer := send(path, body); status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, ledger.ErrRequestTooLarge.Message) {
				t.Errorf("%s, chunked %t: %d %.300s", path, chunked, status, answer)
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Slots: embed.SlotOptions{Total: 1}})
	server := httptest.NewServer(book.Handler())
	defer server.Close()
	completes(t, book, embed.Script{Code: "1"})
	run(t, book, embed.Script{Code: "throw 1"})
	// The second run is cancelled before its start. The end of each run counts once.
	running := submit(t, book, embed.Script{Code: "console.log(1); for (;;);"})
	awaitStarts(t, book, running, 1)
	queued := submit(t, book, embed.Script{Code: "1"})
	for _, id := range []string{queued, running} {
		if err := book.Cancel(within(t), id); err != nil {
			t.Fatal(err)
		}
	}
	_, body := get(t, server.URL+"/metrics")
	// The metrics count a run shortly after its end can be read.
	for ctx := within(t); (!strings.Contains(body, "\ndaybook_runner_executions_total{status=\"failed\"} 1\n") || !strings.Contains(body, "{status=\"cancelled\"} 2\n")) && ctx.Err() == nil; {
		_, body = get(t, server.URL+"/metrics")
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	problems = slices.DeleteFunc(problems, func(p promlint.Problem) bool { return p.Metric == "context_read_latency_ms" }) // a name that others have decided
	if err != nil || len(problems) != 0 {
		t.Errorf("metrics do not parse, or break the conventions: %v, %v", err, problems)
	}
	for _, want := range []string{
		`daybook_runner_executions_total{status="completed"} 1`,
		`daybook_runner_executions_total{status="failed"} 1`,
		`daybook_runner_executions_total{status="timed_out"} 0`,
		`daybook_runner_executions_total{status="cancelled"} 2`,
		`daybook_runner_handed_back_total 0`,
		`daybook_runner_queue_seconds_bucket{tenant="default",le="600"} 3`,
		`daybook_runner_queue_seconds_count{tenant="default"} 3`,
		`daybook_projection_applied_position ([6-9]|\d\d)`, // six, and checkpoints
	} {
		if !regexp.MustCompile(`\n` + want + `\n`).MatchString(body) {
			t.Errorf("no line %q in:\n%s", want, body)
		}
	}
	for _, name := range []string{"daybook_runner_in_flight", "daybook_runner_retried_total", "go_goroutines", "process_open_fds"} {
		if !strings.Contains(body, "\n"+name+" ") {
			t.Errorf("no metric %s", name)
		}
	}
}

// A conversation over stdio.
const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	callRun = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"7*6"}}}` + "\n"
)

// executionOf returns the execution id in the answers of a conversation.
func executionOf(t *testing.T, out string) string {
	t.Helper()
	for line := range strings.Lines(out) {
		var msg struct {
			JSONRPC string `json:"jsonrpc"`
			ID      int    `json:"id"`
			Result  struct {
				Structured struct {
					ID string `json:"execution_id"`
				} `json:"structuredContent"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(line), &msg); err != nil || msg.JSONRPC != "2.0" {
			t.Fatalf("not JSON-RPC: %q", line)
		}
		if msg.ID == 2 {
			return msg.Result.Structured.ID
		}
	}
	t.Fatalf("no answer to the call in %q", out)
	return ""
}

func TestServeMCP(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{MCP: embed.MCPOptions{SessionID: "piped"}})
	var out bytes.Buffer
	if err := book.ServeMCP(within(t), strings.NewReader(initialize+callRun), &out); err != nil {
		t.Fatal(err)
	}
	e, err := book.Wait(within(t), executionOf(t, out.String()))
	if err != nil || deref(e.Result) != "42" || deref(e.Session) != "piped" {
		t.Errorf("the run is %s %s in session %s: %v", e.Status, deref(e.Result), deref(e.Session), err)
	}
}

// A process attaches to the owner of a directory, also with a long path, and its runs have its
// own session name.
func TestAttach(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	long := filepath.Join(base, strings.Repeat("d", 100), strings.Repeat("e", 200-101-min(len(base), 98)))
	for name, test := range map[string]struct{ dir, session, want string }{
		"as the owner": {t.TempDir(), "", "holder"},
		"long path":    {long, "attached", "attached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop := holder(t, test.dir)
			socket, err := os.Lstat(filepath.Join(test.dir, "owner.sock"))
			if err != nil || socket.Mode().Perm() != 0o600 {
				t.Errorf("the socket has mode %v, %v", socket.Mode(), err)
			}
			var out bytes.Buffer
			if err := embed.Attach(within(t), embed.Client{DataDir: test.dir, SessionID: test.session}, strings.NewReader(initialize+callRun), &out); err != nil {
				t.Fatal(err)
			}
			id := executionOf(t, out.String())
			stop()
			// The run of the client is in the ledger of the owner.
			book := start(t, embed.Options{DataDir: test.dir})
			e, err := book.Wait(within(t), id)
			if err != nil || deref(e.Result) != "42" || deref(e.Session) != test.want {
				t.Errorf("the run is %s %s in session %s: %v", e.Status, deref(e.Result), deref(e.Session), err)
			}
		})
	}
}

func TestAttachRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := embed.Attach(within(t), embed.Client{DataDir: dir}, strings.NewReader(""), io.Discard); !errors.Is(err, embed.ErrNotServing) {
		t.Errorf("attaching without an owner: %v", err)
	}
	book := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
	if err := embed.Attach(within(t), embed.Client{DataDir: dir, SessionID: "bad\nname"}, strings.NewReader(""), io.Discard); err == nil {
		t.Error("a bad session name was accepted")
	}
	// A request to attach without a valid hello is refused.
	for _, body := range []string{"", "{", "{}", `{"protocol":"x"}`, `{"protocol":"mcp","connection":"short"}`, hello("mcp", "a\\nb"), strings.Repeat("x", 2<<20)} {
		conn := dial(t, dir)
		if resp := hail(t, conn, body); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%.60q is answered with %s", body, resp.Status)
		}
		conn.Close()
	}
	closeBook(t, book)
	// The socket of a process that has ended does not disturb.
	if err := embed.Attach(within(t), embed.Client{DataDir: dir}, strings.NewReader(""), io.Discard); !errors.Is(err, embed.ErrNotServing) {
		t.Errorf("attaching to the socket of a closed Daybook: %v", err)
	}
	start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
}

func dial(t *testing.T, dir string) *net.UnixConn {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(dir, "owner.sock"))
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*net.UnixConn)
}

// hello is the body of a request to attach.
func hello(protocol, session string) string {
	return fmt.Sprintf(`{"protocol":%q,"session":"%s","connection":%q}`, protocol, session, strings.Repeat("ab", 32))
}

// hail sends a request to attach a client to an owner.
func hail(t *testing.T, conn net.Conn, body string) *http.Response {
	t.Helper()
	_, err := fmt.Fprintf(conn, "POST /owner/attach HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: daybook-link\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil && !errors.Is(err, syscall.EPIPE) { // the owner does not read all of a hello that is too long
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// framed returns lines in the form in which the client's end of a link sends them, numbered
// from first.
func framed(first int, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		fmt.Fprintf(&b, "{\"line\":%d,\"bytes\":%d}\n%s", first, len(line), line)
		first++
	}
	return b.String()
}

// Attached clients that send nothing or read nothing do not delay Close.
func TestCloseWithClientsAttached(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
	silent, idle, deaf := dial(t, dir), dial(t, dir), dial(t, dir)
	for _, c := range []*net.UnixConn{silent, idle, deaf} {
		defer c.Close()
	}
	for _, c := range []net.Conn{idle, deaf} {
		if resp := hail(t, c, hello("mcp", "")); resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("attaching is answered with %s", resp.Status)
		}
	}
	if _, err := io.WriteString(idle, framed(1, initialize)); err != nil {
		t.Fatal(err)
	}
	if n, err := idle.Read(make([]byte, 1)); n != 1 {
		t.Fatal(err)
	}
	// Request far more answers than fit into the socket, and read none: an answer has 10 KB
	// or more.
	_, err := io.WriteString(deaf, framed(1, initialize))
	for n := 10; n < 110 && err == nil; n++ { // below the limit of unanswered requests of a connection
		_, err = io.WriteString(deaf, framed(n, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, n)))
	}
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(patience); unread(t, deaf) < 64<<10; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d bytes of answers arrived", unread(t, deaf))
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- book.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Close waits for a client that reads nothing")
	}
}

// unread returns the number of bytes that wait in a socket to be read.
func unread(t *testing.T, c *net.UnixConn) (n int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var refused error
	err = raw.Control(func(fd uintptr) { n, refused = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	if err = errors.Join(err, refused); err != nil {
		t.Fatal(err)
	}
	return n
}

// Attach returns ErrOwnerEnded when the owner ends.
func TestAttachEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
	in, feed := io.Pipe()
	defer feed.Close()
	out, answers := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- embed.Attach(within(t), embed.Client{DataDir: dir}, in, answers)
		answers.Close()
	}()
	if _, err := io.WriteString(feed, initialize); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 1)); n != 1 {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	closeBook(t, book)
	if err := <-done; !errors.Is(err, embed.ErrOwnerEnded) {
		t.Errorf("attached: %v", err)
	}

	// Attach also ends with its own context.
	start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
	in2, feed2 := io.Pipe()
	defer feed2.Close()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := embed.Attach(ctx, embed.Client{DataDir: dir}, in2, io.Discard); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Follow passes on the recorded events and then new ones.
func TestFollow(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{})
	first := run(t, book, embed.Script{Code: "1"}).ExecutionID
	var second string
	got := map[string][]events.Type{}
	err := book.Follow(within(t), 0, func(batch []events.Event, _ uint64) error {
		for _, e := range batch {
			if e.Tenant != events.LedgerTenant { // they depend on the time
				got[e.About()] = append(got[e.About()], e.Type)
			}
		}
		switch {
		case len(got[first]) == 3 && second == "":
			second = submit(t, book, embed.Script{Code: "2"})
		case second != "" && len(got[second]) == 3:
			return io.EOF
		}
		return nil
	})
	if err != io.EOF || len(got) != 2 {
		t.Errorf("followed %v: %v", got, err)
	}
}
