package toolserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"daybook/internal/tools/toolserver"
)

// counted is memory with space for one answer at a time. It counts the bytes taken.
type counted struct {
	one   chan struct{}
	mu    sync.Mutex
	used  int64
	most  int64
	taken int
}

func newCounted() *counted { return &counted{one: make(chan struct{}, 1)} }

func (c *counted) Take(ctx context.Context, _ string, n int64) (toolserver.Held, error) {
	select {
	case c.one <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used += n
	c.most = max(c.most, n)
	c.taken++
	return &heldOf{c: c, n: n}, nil
}

func (c *counted) inUse() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

type heldOf struct {
	c    *counted
	n    int64
	once sync.Once
}

func (h *heldOf) Shrink(n int64) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.c.used -= h.n - n
	h.n = n
}

func (h *heldOf) Release() {
	h.once.Do(func() {
		h.Shrink(0)
		<-h.c.one
	})
}

// A large answer takes memory before it is read, holds that of its text until it is
// released, and is not decoded into Go values. Calls whose answers wait for memory
// receive them one after the other.
func TestLargeAnswersTakeMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow under the race detector: long answers pass the decoders")
	}
	memory := newCounted()
	set := newSet(t, toolserver.Options{Memory: memory}, child(t, "stdio", "normal"), remote(t, "http", toolserver.HTTP), remote(t, "sse", toolserver.SSE))
	for _, name := range []string{"stdio", "http", "sse"} {
		if r := set.Call(t.Context(), "default", name, "echo", []byte(`{"text":"small"}`)); string(r.Text) != `"small"` || memory.inUse() != 0 {
			t.Fatalf("%s: a small answer: %s, takes %d bytes", name, r.Text, memory.inUse())
		}
		r := set.Call(t.Context(), "default", name, "lists", []byte("{}"))
		if r.Outcome != toolserver.OK || !strings.HasPrefix(string(r.Text), `{"z":[[],[],`) || !strings.HasSuffix(string(r.Text), `],"a":1.0}`) {
			t.Fatalf("%s: %s %.100s", name, r.Outcome, r.Text)
		}
		if n := memory.inUse(); n != int64(len(r.Text)) {
			t.Errorf("%s: the answer of %d bytes holds %d", name, len(r.Text), n)
		}
		r.Release()
		r.Release()
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				r := set.Call(t.Context(), "default", name, "lists", []byte("{}"))
				defer r.Release()
				// On a shared stream, an answer waits for memory only briefly.
				if r.Outcome != toolserver.OK && name == "http" {
					t.Errorf("%s: %s %.200s", name, r.Outcome, r.Text)
				}
			})
		}
		calls.Wait()
		if n := memory.inUse(); n != 0 {
			t.Errorf("%s: %d bytes are still held", name, n)
		}
	}
	if memory.taken < 6 || memory.most < 4*900<<10 {
		t.Errorf("memory was taken %d times, at most %d bytes", memory.taken, memory.most)
	}
	lists := listServer(t)
	set = newSet(t, toolserver.Options{}, toolserver.Config{Name: "lists", URL: lists})
	set.Servers(t.Context(), "default")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := set.Call(t.Context(), "default", "lists", "lists", []byte("{}"))
	runtime.ReadMemStats(&after)
	if r.Outcome != toolserver.OK {
		t.Fatalf("%s %.200s", r.Outcome, r.Text)
	}
	if n := int(after.TotalAlloc - before.TotalAlloc); n > 30*len(r.Text) {
		t.Errorf("an answer of %d bytes took %d", len(r.Text), n)
	}
}

// rpc answers requests of a client. call answers calls of tools, sends the rest of a
// stream that broke off, and receives responses of the client.
func rpc(t *testing.T, call func(w http.ResponseWriter, r *http.Request, id json.RawMessage, tool string)) (url string, connected *atomic.Int64) {
	t.Helper()
	connected = new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if r.Header.Get("Last-Event-Id") != "" {
			call(w, r, nil, "rest")
			return
		}
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.ID == nil || m.Method == "" {
			if m.ID != nil {
				call(w, r, nil, "response")
			}
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			connected.Add(1)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}}`, m.ID)
		case "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, m.ID)
		case "tools/call":
			call(w, r, m.ID, m.Params.Name)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		}
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL, connected
}

// listServer answers calls with many short values.
func listServer(t *testing.T) (url string) {
	t.Helper()
	answer := `{"content":[],"structuredContent":{"a":[[]` + strings.Repeat(",[]", 300<<10) + `]}}`
	url, _ = rpc(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage, _ string) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, answer)
	})
	return url
}

// An answer that is too long, truncated, not JSON or an HTTP error fails its call, and
// so does a call that is cancelled during its answer. Other calls on the same connection
// are answered.
func TestBrokenAnswersFailTheirCall(t *testing.T) {
	release := make(chan struct{})
	fill := func(w io.Writer, bytes int) {
		for piece := strings.Repeat("x", 1<<20); bytes > 0; bytes -= len(piece) {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
	}
	url, connected := rpc(t, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, tool string) {
		start := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id)
		stream := strings.HasPrefix(tool, "event ")
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			start = "event: message\ndata: " + start
		}
		switch strings.TrimPrefix(tool, "event ") {
		case "patient":
			<-release
			fmt.Fprint(w, start, `fine"}]}}`)
			if stream {
				fmt.Fprint(w, "\n\n")
			}
		case "long":
			fmt.Fprint(w, start)
			fill(w, 17<<20)
		case "broken":
			fmt.Fprint(w, start)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "garbage":
			fmt.Fprint(w, start[:len(start)-9], "\n\n")
		case "fails":
			w.WriteHeader(http.StatusInternalServerError)
			fill(w, 1<<20)
		case "slow":
			fmt.Fprint(w, start)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	set := newSet(t, toolserver.Options{}, toolserver.Config{Name: "s", URL: url})
	set.Servers(t.Context(), "default")
	for _, kind := range []string{"", "event "} {
		var patient sync.WaitGroup
		patient.Go(func() {
			r := set.Call(t.Context(), "quiet", "s", kind+"patient", []byte("{}"))
			if r.Outcome != toolserver.OK || string(r.Text) != `"fine"` {
				t.Errorf("%spatient: %s %s", kind, r.Outcome, r.Text)
			}
		})
		for tool, want := range map[string]string{
			"long": "longer than 16 MiB", "broken": "", "garbage": "not a JSON-RPC message", "fails": "the server answered 500 Internal Server Error", "slow": "given up",
		} {
			ctx, stop := context.WithCancel(t.Context())
			if tool == "slow" {
				time.AfterFunc(50*time.Millisecond, stop)
			}
			r := set.Call(ctx, "loud", "s", kind+tool, []byte("{}"))
			stop()
			if r.Outcome == toolserver.OK || !strings.Contains(string(r.Text), want) || strings.Contains(string(r.Text), "not available") {
				t.Errorf("%s%s: %s %.200s", kind, tool, r.Outcome, r.Text)
			}
		}
		release <- struct{}{}
		patient.Wait()
	}
	if n := connected.Load(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

// An answer that is too long does not end a connection whose answers share a stream.
func TestEnormousAnswer(t *testing.T) {
	set := newSet(t, toolserver.Options{}, child(t, "stdio", "normal"), remote(t, "sse", toolserver.SSE))
	set.Servers(t.Context(), "default")
	var calls sync.WaitGroup
	for _, name := range []string{"stdio", "sse"} {
		calls.Go(func() {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if r := set.Call(ctx, "loud", name, "enormous", []byte("{}")); r.Outcome != toolserver.Cancelled {
				t.Errorf("%s: %s %.100s", name, r.Outcome, r.Text)
			}
			if r := set.Call(t.Context(), "quiet", name, "echo", []byte(`{"text":"b"}`)); string(r.Text) != `"b"` {
				t.Errorf("%s: after it: %s %s", name, r.Outcome, r.Text)
			}
		})
	}
	calls.Wait()
}
