package webhook

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The reason of a failed attempt holds nothing that the receiver sent, and not its URL.
func TestReasonsQuoteNothing(t *testing.T) {
	t.Parallel()
	const said = "NOT-TO-BE-QUOTED"
	answering := func(answer string) func(t *testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = http.ReadRequest(bufio.NewReader(conn))
					_, _ = fmt.Fprint(conn, answer)
					_ = conn.Close()
				}
			}()
			return "http://" + l.Addr().String()
		}
	}
	for name, tt := range map[string]struct {
		start func(t *testing.T) string
		want  string
	}{
		"no HTTP":                  {answering(said + "\r\n\r\n"), "the receiver's answer is not valid HTTP"},
		"a malformed header":       {answering("HTTP/1.1 200 OK\r\n" + said + "\r\n\r\n"), "the receiver's answer is not valid HTTP"},
		"a malformed status":       {answering("HTTP/1.1 " + said + "\r\n\r\n"), "the receiver's answer is not valid HTTP"},
		"a malformed length":       {answering("HTTP/1.1 200 OK\r\nContent-Length: " + said + "\r\n\r\n"), "the receiver's answer is not valid HTTP"},
		"a reason phrase and body": {answering("HTTP/1.1 503 " + said + "\r\nContent-Length: 16\r\n\r\n" + said), "the receiver answered 503 Service Unavailable"},
		"an unknown status":        {answering("HTTP/1.1 599 " + said + "\r\n\r\n"), "the receiver answered 599"},
		"a redirect":               {answering("HTTP/1.1 302 " + said + "\r\nLocation: http://" + said + "\r\n\r\n"), "the receiver answered 302 Found: redirects are not followed, register the address it leads to"},
		"no answer":                {answering(""), "the receiver closed the connection without an answer"},
		"HTTP instead of TLS":      {func(t *testing.T) string { return strings.Replace(answering(said+"\r\n")(t), "http:", "https:", 1) }, "the receiver does not speak TLS"},
		"an answer of HTTP instead of TLS": {func(t *testing.T) string {
			t.Helper()
			server := httptest.NewServer(http.NotFoundHandler()) // answers with "HTTP/1.1 400 Bad Request"
			t.Cleanup(server.Close)
			return strings.Replace(server.URL, "http:", "https:", 1)
		}, "the receiver does not speak TLS"},
		"an unknown certificate": {func(t *testing.T) string {
			t.Helper()
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.Config.ErrorLog = nil
			server.StartTLS()
			t.Cleanup(server.Close)
			return server.URL
		}, "the receiver's certificate is signed by an unknown authority"},
		"a closed port": {func(t *testing.T) string {
			t.Helper()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			return "http://" + l.Addr().String()
		}, "the receiver cannot be reached: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(Options{AllowPrivate: true, Timeout: 30 * time.Second})
			defer client.CloseIdleConnections()
			o := attempt(t.Context(), client, tt.start(t)+"/?token="+said, Secret{}, message{id: "id", body: []byte("{}")})
			if !strings.HasPrefix(o.reason, tt.want) || strings.Contains(strings.ToUpper(o.reason), said) || strings.Contains(o.reason, "127.0.0.1") {
				t.Errorf("%q, want %q", o.reason, tt.want)
			}
		})
	}
	unknown := &url.Error{Op: "Post", URL: "http://" + said, Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: said, IsNotFound: true}}}
	if got := failureReason(unknown); got != "the receiver's host name does not exist" {
		t.Errorf("an unknown host name: %q", got)
	}
}
