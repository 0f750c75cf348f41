package mcp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"daybook/internal/resources/budget"
	"daybook/ledger"
	"daybook/mcp"
)

// openLegacy opens a connection of the legacy transport. The caller reads the events
// after the address for messages from the reader. The buffers have their default sizes:
// with a small one the kernel delivers slowly when the client starts to read.
func openLegacy(t *testing.T, url string) (net.Conn, *bufio.Reader, string) {
	t.Helper()
	addr := strings.TrimPrefix(url, "http://")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET /sse HTTP/1.1\r\nHost: %s\r\n\r\n", addr)
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if endpoint, ok := strings.CutPrefix(line, "data: "); ok {
			return c, in, url + strings.TrimSpace(endpoint)
		}
	}
}

// The unanswered messages of a connection are bounded, and their memory counts as memory
// of answers.
func TestLegacyMessagesAreBounded(t *testing.T) {
	t.Parallel()
	const most = 128
	b := budget.New(budget.Options{Answers: 100 << 20, Runs: 1, Cache: 1, Patience: time.Millisecond})
	answer := make(chan struct{})
	book := &fakeStack{submit: func(context.Context, ledger.Submission) (ledger.Receipt, error) {
		<-answer
		return ledger.Receipt{ExecutionID: "one", Seq: 1}, nil
	}}
	url := serveHTTP(t, book.serve(t, mcp.Options{Budget: b}))
	c, in, endpoint := openLegacy(t, url)
	post(t, endpoint, initializeLine)
	call := func(id int, code string) (int, string) {
		status, h, body := post(t, endpoint, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_js","arguments":{"code":%q}}}`, id+2, code))
		if status >= 400 && h.Get("Retry-After") == "" {
			t.Errorf("%d without Retry-After: %s", status, body)
		}
		return status, body
	}
	for i := 0; i < 1000 && !strings.Contains(readData(t, in), "serverInfo"); i++ {
	}
	for i := range most {
		if status, body := call(i, strings.Repeat(" ", 10_000)); status != http.StatusAccepted {
			t.Fatalf("message %d: %d %s", i, status, body)
		}
	}
	if held := b.Stats().Answers.Used; held < 2*most*10_000 {
		t.Errorf("%d messages hold %d bytes", most, held)
	}
	if status, body := call(most, "1"); status != http.StatusTooManyRequests || !strings.Contains(body, "read the event stream") {
		t.Errorf("message %d: %d %s", most, status, body)
	}
	if status, body := statusOf(t, endpoint, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusTooManyRequests {
		t.Errorf("a notification beside them: %d %s", status, body)
	}
	close(answer)
	for range most {
		readData(t, in)
	}
	if status, body := call(most, "1"); status != http.StatusAccepted {
		t.Errorf("after the answers: %d %s", status, body)
	}
	readData(t, in)
	c.Close()
	for deadline := time.Now().Add(10 * time.Second); b.Stats().Answers.Used != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are held after the connection", b.Stats().Answers.Used)
		}
	}
}

func statusOf(t *testing.T, url, body string) (int, string) {
	t.Helper()
	status, _, answer := post(t, url, body)
	return status, answer
}

func readData(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return data
		}
	}
}

// A client that does not read its stream cannot send more than the limit. It can send
// again after it has read.
func TestLegacyUnreadStream(t *testing.T) {
	t.Parallel()
	url := serveHTTP(t, (&fakeStack{}).serve(t, mcp.Options{}))
	_, in, endpoint := openLegacy(t, url)
	post(t, endpoint, initializeLine)
	post(t, endpoint, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	list := func() int {
		status, _, _ := post(t, endpoint, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		return status
	}
	accepted := 0
	for list() == http.StatusAccepted {
		if accepted++; accepted == 3000 { // the kernel's buffers hold some answers
			t.Fatalf("%d messages are accepted of a client that reads nothing", accepted)
		}
	}
	var read atomic.Int64
	go io.Copy(countingWriter{&read}, in)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		status := list()
		if status == http.StatusAccepted {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a message is answered %d although the client reads: %d bytes until now, after %d messages", status, read.Load(), accepted)
		}
	}
}

// countingWriter counts bytes.
type countingWriter struct{ n *atomic.Int64 }

func (w countingWriter) Write(p []byte) (int, error) {
	w.n.Add(int64(len(p)))
	return len(p), nil
}
