package link_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"daybook/internal/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 2 * time.Minute
	maxLine  = 1 << 10
)

// rig is a client at one end of a link, and consecutive owners at the other.
type rig struct {
	t        *testing.T
	protocol link.Protocol
	in       *io.PipeWriter
	out      *bufio.Reader
	owners   chan *owner
	done     chan error
}

// pair returns the two ends of a connection.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "link")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return ends[0], ends[1]
}

// owner is an owner whose server is the test.
type owner struct {
	t     *testing.T
	link  *link.Conn
	ctx   context.Context
	stop  context.CancelFunc
	lines chan string
	out   io.Writer
	ended chan error
}

func connect(t *testing.T, p link.Protocol) *rig {
	t.Helper()
	return connectWith(t, p, maxLine)
}

func connectWith(t *testing.T, p link.Protocol, maxLine int) *rig {
	t.Helper()
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	r := &rig{t: t, protocol: p, in: in, out: bufio.NewReader(out), owners: make(chan *owner), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		err := link.Run(ctx, r.attach, fromClient, toClient, maxLine)
		fromClient.Close()
		toClient.Close()
		r.done <- err
	}()
	t.Cleanup(func() {
		cancel()
		in.Close()
		out.Close()
		<-r.done
	})
	return r
}

// attach connects the client to a new owner.
func (r *rig) attach(ctx context.Context, generation int) (net.Conn, error) {
	near, far := pair(r.t)
	o := &owner{t: r.t, ended: make(chan error, 1)}
	o.link = link.NewConn(far, bufio.NewReader(far), link.Options{Protocol: r.protocol, Connection: "c", Generation: generation})
	serving := make(chan struct{})
	go func() {
		life, stop := context.WithCancel(context.Background())
		defer stop()
		o.ended <- o.link.Serve(life, func(ctx context.Context, in io.Reader, out io.Writer) error {
			o.ctx, o.stop, o.lines, o.out = ctx, stop, make(chan string, 100), out
			go func() {
				defer stop()
				defer close(o.lines)
				for from := bufio.NewReader(in); ; {
					line, err := from.ReadString('\n')
					if err != nil {
						return
					}
					o.lines <- line
				}
			}()
			close(serving)
			<-ctx.Done()
			return nil
		})
	}()
	<-serving
	select {
	case r.owners <- o:
		return near, nil
	case <-ctx.Done():
		near.Close()
		return nil, ctx.Err()
	}
}

func (r *rig) owner() *owner {
	r.t.Helper()
	select {
	case o := <-r.owners:
		return o
	case <-time.After(patience):
		r.t.Fatal("the client attaches to no owner")
		return nil
	}
}

// send writes a line of the client.
func (r *rig) send(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// receives checks the next message for the client.
func (r *rig) receives(want string) {
	r.t.Helper()
	got, err := r.out.ReadString('\n')
	if err != nil || got != want+"\n" {
		r.t.Fatalf("the client receives %q, want %q: %v", got, want, err)
	}
}

// next returns the next line for the server.
func (o *owner) next() string {
	o.t.Helper()
	select {
	case line, ok := <-o.lines:
		if !ok {
			o.t.Fatal("the client has ended")
		}
		return line
	case <-time.After(patience):
		o.t.Fatal("the server hears nothing")
		return ""
	}
}

// hears checks the next line for the server.
func (o *owner) hears(want string) {
	o.t.Helper()
	if got := o.next(); got != want+"\n" {
		o.t.Fatalf("the server hears %q, want %q", got, want)
	}
}

// asks reads the next line, which must have the method. It returns the line's id and
// key, and whether it may have been handled before.
func (o *owner) asks(method string) (id json.RawMessage, key string, again bool) {
	o.t.Helper()
	got := o.next()
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal([]byte(got), &m); err != nil || m.Method != method {
		o.t.Fatalf("the server hears %q, want %s: %v", got, method, err)
	}
	d, _ := link.NextDelivery(o.ctx, m.ID)
	return m.ID, d.Key, d.Again
}

func (o *owner) says(format string, args ...any) {
	o.t.Helper()
	if _, err := fmt.Fprintf(o.out, format+"\n", args...); err != nil {
		o.t.Fatal(err)
	}
}

// dies ends the owner without a last frame.
func (o *owner) dies() {
	o.link.Cut()
	o.stop()
	<-o.ended
}

func request(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

func result(id json.RawMessage) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
}

// The next owner gets the state of the connection, and each request is answered once.
func TestNextOwner(t *testing.T) {
	t.Parallel()
	r := connect(t, link.MCP)
	first := r.owner()
	answered := func(id, method, params string) {
		t.Helper()
		r.send(request(id, method, params))
		got, _, again := first.asks(method)
		if again {
			t.Errorf("%s is taken for a repetition", method)
		}
		first.says("%s", result(got))
		r.receives(result(json.RawMessage(id)))
	}
	answered("1", "initialize", `{"a":1}`)
	r.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	first.asks("notifications/initialized")
	answered("2", "logging/setLevel", `{"level":"info"}`)
	answered("3", "resources/subscribe", `{"uri":"x"}`)
	answered("4", "resources/subscribe", `{"uri":"y"}`)
	answered("5", "resources/unsubscribe", `{"uri":"x"}`)
	answered("6", "logging/setLevel", `{"level":"error"}`)
	keys := map[string]string{}
	for _, id := range []string{`"open"`, `7.0`, `8`} {
		r.send(request(id, "tools/call", `{}`))
		_, keys[id], _ = first.asks("tools/call")
	}
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`)
	first.asks("notifications/cancelled")
	first.says(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	r.receives(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	first.dies()

	second := r.owner()
	for _, want := range []struct{ method, params string }{
		{"initialize", `{"a":1}`}, {"notifications/initialized", ""}, {"logging/setLevel", `{"level":"error"}`}, {"resources/subscribe", `{"uri":"y"}`},
	} {
		line := second.next()
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Method != want.method || string(m.Params) != want.params {
			t.Fatalf("the second owner hears %q, want %s %s: %v", line, want.method, want.params, err)
		}
		if m.ID != nil {
			second.says("%s", result(m.ID)) // the client does not get this answer
		}
	}
	r.receives(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"y"}}`)
	for _, id := range []string{`"open"`, `7.0`} {
		got, key, again := second.asks("tools/call")
		if string(got) != id || key == "" || key != keys[id] || !again {
			t.Errorf("request %s is repeated as %s, key %q instead of %q, again %v", id, got, key, keys[id], again)
		}
	}
	// The second owner does not get an answer to the first owner's request; its own
	// request has another id.
	r.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	second.says(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	asked, err := r.out.ReadString('\n')
	var q struct{ ID json.RawMessage }
	if err := errors.Join(err, json.Unmarshal([]byte(asked), &q)); err != nil || string(q.ID) == "1" {
		t.Fatalf("the second owner's question arrives as %q: %v", asked, err)
	}
	r.send(result(q.ID))
	second.hears(`{"id":1,"jsonrpc":"2.0","result":{}}`)
	second.says(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	r.receives(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	second.says(`{"jsonrpc":"2.0","id":"open","result":{}}`)
	r.receives(`{"jsonrpc":"2.0","id":"open","result":{}}`)
	r.in.Close()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
}

// An owner after Hold reads no more and still answers. The next owner gets the lines
// that were sent after that.
func TestHold(t *testing.T) {
	t.Parallel()
	r := connect(t, link.MCP)
	first := r.owner()
	r.send(request("1", "a", "{}"))
	first.asks("a")
	first.link.Hold()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r.send(request("2", "b", "{}"))
	}()
	first.says("%s", result(json.RawMessage("1")))
	r.receives(result(json.RawMessage("1")))
	<-sent
	if n := first.link.Pending(); n != 0 {
		t.Errorf("%d requests are open", n)
	}
	first.dies()
	second := r.owner()
	if id, _, _ := second.asks("b"); string(id) != "2" {
		t.Errorf("the second owner is asked %s", id)
	}
	second.says("%s", result(json.RawMessage("2")))
	r.receives(result(json.RawMessage("2")))
}

// Updates of a prompt that the client has received are not sent again, and its session
// is resumed first.
func TestPromptContinues(t *testing.T) {
	t.Parallel()
	r := connect(t, link.ACP)
	first := r.owner()
	update := func(n int, kind string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":%q,"n":%d}}}`, kind, n)
	}
	r.send(request("1", "session/new", `{"cwd":"/c","mcpServers":[]}`))
	first.asks("session/new")
	first.says(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`)
	r.receives(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`)
	r.send(request("2", "session/prompt", `{"sessionId":"s"}`))
	first.asks("session/prompt")
	r.send(request("3", "session/prompt", `{"sessionId":"s"}`)) // one too many
	first.asks("session/prompt")
	announced := `{"jsonrpc":"2.0","method":"session/update","params":{"_meta":{"daybook/announced":true},"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}}`
	first.says("%s", announced)
	r.receives(announced)
	for n := range 2 {
		first.says("%s", update(n, "agent_message_chunk"))
		r.receives(update(n, "agent_message_chunk"))
	}
	first.says(`{"jsonrpc":"2.0","id":3,"error":{"code":1}}`)
	r.receives(`{"jsonrpc":"2.0","id":3,"error":{"code":1}}`)
	first.dies()
	second := r.owner()
	second.hears(`{"id":"daybook restores session s","jsonrpc":"2.0","method":"session/resume","params":{"_meta":{"daybook/reattached":true},"cwd":"/c","mcpServers":[],"sessionId":"s"}}`)
	if link.IsRestoring(first.ctx) || !link.IsRestoring(second.ctx) {
		t.Error("the second owner alone restores the connection")
	}
	second.says(`{"jsonrpc":"2.0","id":"daybook restores session s","error":{"code":1}}`) // the client does not get this error
	if _, _, again := second.asks("session/prompt"); !again || link.IsRestoring(second.ctx) {
		t.Error("the prompt does not count as a repetition")
	}
	second.says("%s", update(9, "available_commands_update"))
	r.receives(update(9, "available_commands_update"))
	second.says("%s", announced)
	r.receives(announced)
	for n := range 3 {
		second.says("%s", update(n, "agent_message_chunk"))
	}
	r.receives(update(2, "agent_message_chunk"))
	second.says("%s", result(json.RawMessage("2")))
	r.receives(result(json.RawMessage("2")))
}

// A session that another client took is not resumed at the next owner.
func TestForget(t *testing.T) {
	t.Parallel()
	r := connect(t, link.ACP)
	first := r.owner()
	for id, session := range map[string]string{"1": "kept", "2": "lost"} {
		r.send(request(id, "session/new", `{"cwd":"/c"}`))
		first.asks("session/new")
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"sessionId":%q}}`, id, session)
		first.says("%s", answer)
		r.receives(answer)
	}
	link.Forget(first.ctx, "lost")
	first.says("{}")
	r.receives("{}")
	first.dies()
	r.send(request("3", "session/list", "{}"))
	second := r.owner()
	id, _, _ := second.asks("session/resume")
	if !strings.Contains(string(id), "kept") {
		t.Errorf("the second owner is asked %s", id)
	}
	second.says("%s", result(id))
	second.asks("session/list")
}

// Lines that are no requests, or too long, are passed on once; the server reports the
// problem.
func TestOddLines(t *testing.T) {
	t.Parallel()
	r := connect(t, link.MCP)
	first := r.owner()
	for _, line := range []string{"hello", "[1]", `{"id":{},"method":"x"}`, `{"id":null,"method":"x"}`, `{"id":1e999,"method":"x"}`, "5"} {
		r.send(line)
		first.hears(line)
	}
	r.send(strings.Repeat("x", maxLine))
	first.hears(strings.Repeat("x", maxLine))
	r.send(strings.Repeat("x", maxLine+2))
	first.hears(strings.Repeat(" ", maxLine+1))
	r.send(`{"jsonrpc":"2.0","id":3,"result":{}}`) // to a request that was not sent
	for range 10000 {                              // a server may refuse requests without their id
		r.send(`{"id":9.5,"method":"x"}`)
		first.hears(`{"id":9.5,"method":"x"}`)
	}
	r.send(request("4", "end", "{}"))
	first.asks("end")
	for range 10 {
		first.says("{}")
		r.receives("{}")
	}
	first.dies()
	second := r.owner()
	second.asks("end") // and none of the others
}

// A subscription to a URI that is longer than the header of a frame is restored.
func TestLongURI(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70<<10)
	r := connectWith(t, link.MCP, 100<<10)
	first := r.owner()
	for _, id := range []string{"1", "2"} {
		r.send(request(id, "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, id+long)))
		first.asks("resources/subscribe")
		first.says("%s", result(json.RawMessage(id)))
		r.receives(result(json.RawMessage(id)))
	}
	r.send(request("3", "resources/unsubscribe", fmt.Sprintf(`{"uri":%q}`, "1"+long)))
	first.asks("resources/unsubscribe")
	first.says("%s", result(json.RawMessage("3")))
	r.receives(result(json.RawMessage("3")))
	first.dies()
	second := r.owner()
	id, _, _ := second.asks("resources/subscribe") // the other one
	second.says("%s", result(id))
	r.receives(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, "2"+long))
}

// A client whose owners end repeatedly because of the same request gives up.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	r := connect(t, link.MCP)
	r.owner().dies()
	r.send(request("1", "poison", "{}"))
	for {
		select {
		case o := <-r.owners:
			o.dies()
			continue
		case err := <-r.done:
			if !errors.Is(err, link.ErrOwnerEnded) {
				t.Errorf("it ends with %v", err)
			}
			r.done <- nil
		case <-time.After(patience):
			t.Fatal("it does not end")
		}
		return
	}
}

// FuzzLink checks that each line of the client reaches the server, and each line of the
// server the client.
func FuzzLink(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	f.Add(`{"id":{},"method":"tools/call","params":[]}`, `{"id":[1,{"a":1e400}],"error":null}`)
	f.Add(`{"method":"resources/subscribe","params":{"uri":5},"id":""}`, `{"method":"x","id":"\ud800"}`)
	f.Add(`[1`, `"x"`)
	f.Fuzz(func(t *testing.T, said, answered string) {
		if strings.ContainsAny(said+answered, "\r\n") || said == "" || answered == "" || len(said) > maxLine {
			t.Skip()
		}
		for _, p := range []link.Protocol{link.MCP, link.ACP} {
			near, far := pair(t)
			fromClient, in := io.Pipe()
			var out bytes.Buffer
			conn := link.NewConn(far, bufio.NewReader(far), link.Options{Protocol: p, Connection: "c"})
			served := make(chan error, 1)
			go func() {
				served <- conn.Serve(t.Context(), func(_ context.Context, in io.Reader, out io.Writer) error {
					lines := bufio.NewReader(in)
					line, err := lines.ReadString('\n')
					if err == nil && line != said+"\n" && line != `{"marker":true}`+"\n" {
						t.Errorf("%q is heard as %q", said, line)
					}
					go func() { _, _ = io.Copy(io.Discard, lines) }()
					_, err = io.WriteString(out, answered+"\n")
					return err
				})
			}()
			// An answer to a request that no server sent is not passed on; the other
			// line is.
			go func() { _, _ = io.WriteString(in, said+"\n"+`{"marker":true}`+"\n") }()
			attach := func(context.Context, int) (net.Conn, error) { return near, nil }
			if err := link.Run(t.Context(), attach, fromClient, &out, maxLine); err != nil {
				t.Error(err)
			}
			fromClient.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
			if out.String() != answered+"\n" {
				t.Errorf("%q arrives as %q", answered, out.String())
			}
		}
	})
}
