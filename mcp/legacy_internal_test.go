package mcp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A POST to a connection that accepts no message does not wait: it is refused, and
// accepted again later.
func TestLegacyPostDoesNotWait(t *testing.T) {
	t.Parallel()
	c := &legacyConn{
		transport: &sdk.SSEServerTransport{Endpoint: "/", Response: httptest.NewRecorder(), MaxRequestBodyBytes: maxMessageBytes},
		calls:     map[jsonrpc.ID][]*pendingMessage{},
	}
	conn, err := legacyTransport{c.transport, c}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	post := func(body string) int {
		t.Helper()
		w, done := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			c.post(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			conn.Close()
			<-done
			t.Fatal("a POST waits for the connection")
		}
		return w.Code
	}
	const notification = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	if code := post(`{"jsonrpc":"2.0","method":"no/method","id":1}`); code != http.StatusBadRequest {
		t.Errorf("a message that the SDK refuses is answered %d", code)
	}
	for i := range maxUnread {
		if code := post(notification); code != http.StatusAccepted {
			t.Fatalf("message %d is answered %d", i, code)
		}
	}
	if code := post(notification); code != http.StatusTooManyRequests {
		t.Errorf("a message beyond the limit is answered %d", code)
	}
	if _, err := conn.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code := post(notification); code != http.StatusAccepted {
		t.Errorf("a message after one was read is answered %d", code)
	}
	conn.Close()
	c.releaseAll()
	if code := post(notification); code != http.StatusNotFound {
		t.Errorf("a message to a connection that has ended is answered %d", code)
	}
}
