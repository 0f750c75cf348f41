package fetcher_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"daybook/internal/policy"
	"daybook/internal/tools/fetcher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const allowAll = "package mcp.fetch\nallow := true"

// newPolicy compiles a policy with much time, so that a busy machine denies nothing.
func newPolicy(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.New([]policy.File{{Name: "test.rego", Text: []byte(text)}}, policy.Options{Rule: fetcher.DefaultRule, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// newFetcher returns a fetcher with defaults for tests: everything is allowed, and loopback
// is reachable.
func newFetcher(t testing.TB, change func(*fetcher.Options)) *fetcher.Fetcher {
	t.Helper()
	o := fetcher.Options{Policy: newPolicy(t, allowAll), AllowNetworks: loopback, Timeout: time.Minute}
	if change != nil {
		change(&o)
	}
	f, err := fetcher.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// request is a request in the form of scripts.
type request struct {
	Method   string         `json:"method,omitempty"`
	URL      string         `json:"url"`
	Headers  [][2]string    `json:"headers,omitempty"`
	Body     map[string]any `json:"body,omitempty"`
	Redirect string         `json:"redirect,omitempty"`
}

// response is a response in the form of scripts, with its body decoded.
type response struct {
	Status     int         `json:"status"`
	StatusText string      `json:"statusText"`
	URL        string      `json:"url"`
	Redirected bool        `json:"redirected"`
	Headers    [][2]string `json:"headers"`
	Body       *struct {
		Text   *string `json:"text"`
		Base64 *string `json:"base64"`
	} `json:"body"`
}

func (r response) text(t *testing.T) string {
	t.Helper()
	switch {
	case r.Body == nil:
		return ""
	case r.Body.Text != nil:
		return *r.Body.Text
	}
	raw, err := base64.StdEncoding.DecodeString(*r.Body.Base64)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (r response) header(name string) string {
	for _, h := range r.Headers {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}

var caller = fetcher.Caller{Tenant: "acme", Actor: "ann", Session: "s", Execution: "e"}

func fetch(t *testing.T, f *fetcher.Fetcher, r request) fetcher.Result {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	res := f.Fetch(t.Context(), caller, text)
	t.Cleanup(res.Release)
	return res
}

// must fetches and returns the response.
func must(t *testing.T, f *fetcher.Fetcher, r request) response {
	t.Helper()
	res := fetch(t, f, r)
	if res.Outcome != fetcher.OK {
		t.Fatalf("%s: %s", res.Outcome, res.Text)
	}
	var got response
	if err := json.Unmarshal(res.Text, &got); err != nil {
		t.Fatalf("%s: %v", res.Text, err)
	}
	return got
}

// mustFail fetches and returns the message of the failure.
func mustFail(t *testing.T, f *fetcher.Fetcher, r request, want string) fetcher.Result {
	t.Helper()
	res := fetch(t, f, r)
	if res.Outcome != fetcher.Failed || !strings.Contains(string(res.Text), want) {
		t.Errorf("%s %s: %s: %s, want %q", r.Method, r.URL, res.Outcome, res.Text, want)
	}
	return res
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func serveTLS(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return s
}

// at returns the URL of a path of a server under another host name.
func at(t testing.TB, s *httptest.Server, host, path string) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Scheme + "://" + net.JoinHostPort(host, u.Port()) + path
}

// names is a resolver for tests. It answers queries for addresses with what a function
// returns for a name and the number of the query.
type names struct {
	mu      sync.Mutex
	queries map[string]int
	answer  func(name string, query int) []string
}

func resolver(answer func(name string, query int) []string) *net.Resolver {
	n := &names{queries: map[string]int{}, answer: answer}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go n.serve(server)
		return client, nil
	}}
}

// toLoopback resolves each name to this machine.
func toLoopback() *net.Resolver {
	return resolver(func(string, int) []string { return []string{"127.0.0.1"} })
}

// serve answers the queries of one connection. Messages on a stream have their length before
// them.
func (n *names) serve(c net.Conn) {
	defer c.Close()
	for {
		length := make([]byte, 2)
		if _, err := readFull(c, length); err != nil {
			return
		}
		query := make([]byte, int(length[0])<<8|int(length[1]))
		if _, err := readFull(c, query); err != nil {
			return
		}
		answer, err := n.reply(query)
		if err != nil {
			return
		}
		if _, err := c.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...)); err != nil {
			return
		}
	}
}

func readFull(c net.Conn, p []byte) (int, error) {
	read := 0
	for read < len(p) {
		n, err := c.Read(p[read:])
		if read += n; err != nil {
			return read, err
		}
	}
	return read, nil
}

func (n *names) reply(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	n.mu.Lock()
	if q.Type == dnsmessage.TypeA {
		n.queries[name]++
	}
	addresses := n.answer(name, max(n.queries[name], 1))
	n.mu.Unlock()
	if addresses == nil {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		addr := netip.MustParseAddr(a)
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, Type: q.Type}
		switch {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return m.Pack()
}
