package toolserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// httpTransport sends requests to a server over HTTP. It sends headers and credentials
// only to the configured origin, and no request to any other host. If a server redirects,
// or names another host for its messages, the request fails.
type httpTransport struct {
	origin  *url.URL
	headers map[string]string
	user    *url.Userinfo
	next    http.RoundTripper
	router  *answerRouter
	sse     bool // answers arrive on the stream, not as responses
}

// RoundTrip adds the headers to the request and limits the response.
func (w *httpTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != w.origin.Scheme || r.URL.Host != w.origin.Host {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errors.New("the server refers to another host, which gets no request")
	}
	r = r.Clone(r.Context())
	for name, value := range w.headers {
		r.Header.Set(name, value)
	}
	if w.user != nil && r.Header.Get("Authorization") == "" {
		password, _ := w.user.Password()
		r.SetBasicAuth(w.user.Username(), password)
	}
	a, message, err := w.router.expectBody(r)
	if err != nil {
		return nil, err
	}
	defer w.router.noteSent(message)
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := w.divertResponse(r, resp, a); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// boundedBody is a body that fails with errTooLong after a number of bytes.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// dial returns the transport of an HTTP or SSE server and a function that closes its
// idle connections.
func dial(c Config, b *answerRouter) (t sdk.Transport, idle func(), err error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, nil, errors.New("the url is malformed")
	}
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, nil, fmt.Errorf("the default transport is a %T", http.DefaultTransport)
	}
	base = base.Clone()
	w := &httpTransport{origin: &url.URL{Scheme: u.Scheme, Host: u.Host}, headers: c.Headers, user: u.User, next: base, router: b, sse: c.transport() == SSE}
	client := &http.Client{Transport: w, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("the server redirects, which is not followed: configure the url it redirects to")
	}}
	u.User = nil
	if c.transport() == SSE {
		return &sdk.SSEClientTransport{Endpoint: u.String(), HTTPClient: client, MaxEventSize: maxMessageBytes}, base.CloseIdleConnections, nil
	}
	return &sdk.StreamableClientTransport{Endpoint: u.String(), HTTPClient: client, MaxEventSize: maxMessageBytes, MaxRetries: 2}, base.CloseIdleConnections, nil
}
