package fetcher_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"daybook/internal/tools/fetcher"
)

func TestFetch(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("X-Latin", "caf\xe9")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s %s %q %s %q %s", r.Method, r.URL.RequestURI(), r.Host, r.Header.Get("X-One"), r.Header.Get("X-Latin"), body, r.Header.Get("User-Agent"))
	})
	host := strings.TrimPrefix(s.URL, "http://")
	f := newFetcher(t, nil)
	got := must(t, f, request{Method: "post", URL: s.URL + "/a/b?c=d&e#f", Headers: [][2]string{{"X-One", " 1 "}, {"x-latin", "é"}}, Body: map[string]any{"text": "é"}})
	want := fmt.Sprintf("POST /a/b?c=d&e %s \"1\" \xe9 \"é\" Daybook", host)
	if got.text(t) != want || got.Status != 201 || got.StatusText != "Created" || got.URL != s.URL+"/a/b?c=d&e" || got.Redirected {
		t.Errorf("%+v\n%q, want\n%q", got, got.text(t), want)
	}
	if got.header("x-latin") != "café" {
		t.Errorf("X-Latin is %q", got.header("x-latin"))
	}
	if !slices.Contains(got.Headers, [2]string{"set-cookie", "a=1"}) || !slices.Contains(got.Headers, [2]string{"set-cookie", "b=2"}) {
		t.Errorf("cookies: %q", got.Headers)
	}
	got = must(t, f, request{Method: "PUT", URL: s.URL, Body: map[string]any{"base64": "AP8="}})
	if !strings.Contains(got.text(t), `"\x00\xff"`) {
		t.Errorf("bytes arrived as %s", got.text(t))
	}
	if got := must(t, f, request{Method: "HEAD", URL: s.URL}); got.Body != nil || got.Status != 201 {
		t.Errorf("HEAD: %+v", got)
	}
}

// The bytes of a body arrive unchanged, as text or in Base64.
func TestBodies(t *testing.T) {
	t.Parallel()
	var body []byte
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	f := newFetcher(t, nil)
	for _, test := range []struct {
		body   string
		isText bool
	}{
		{"", true}, {"plain", true}, {"\ufeffwith a mark", true}, {"日本語 \U0001f600", true}, {"\xff\xfe", false}, {strings.Repeat("\x00", 100), false}, {"\u2028", false}, {"<&>", true},
		{strings.Repeat("x", 100<<10), true}, {"ends in the middle \xf0\x9f", false},
	} {
		body = []byte(test.body)
		res := fetch(t, f, request{URL: s.URL})
		got := must(t, f, request{URL: s.URL})
		if got.text(t) != test.body || (got.Body.Text != nil) != test.isText || string(res.ResponseBody) != test.body {
			t.Errorf("%.40q: text %t, %.60s", test.body, got.Body.Text != nil, res.Text)
		}
	}
}

// The input of the policy has the form of mcp-v8.
func TestPolicyInput(t *testing.T) {
	t.Parallel()
	in, err := fetcher.Input(caller, "get", "HTTPS://API.Example.com:443/a/./b/../c%2Fd?q=1&r#f", [][2]string{{"X-A", "1"}, {"x-a", "2"}, {"Accept", "é"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"actor":"ann","execution":"e","headers":{"accept":"é","x-a":"1, 2"},"method":"GET","operation":"fetch","session":"s","tenant":"acme",` +
		`"url":"https://api.example.com/a/c%2Fd?q=1\u0026r","url_parsed":{"host":"api.example.com","path":"/a/c%2Fd","port":null,"query":"q=1\u0026r","scheme":"https"}}`
	if string(got) != want {
		t.Errorf("%s", got)
	}
	in, err = fetcher.Input(caller, "", "http://[::1]:8080", nil)
	if parsed := in["url_parsed"].(map[string]any); err != nil || parsed["host"] != "[::1]" || parsed["port"] != 8080 || parsed["path"] != "/" {
		t.Errorf("%v %v", in, err)
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a denied request was sent") })
	f := newFetcher(t, func(o *fetcher.Options) {
		o.Policy = newPolicy(t, "package mcp.fetch\ndefault allow := false\nallow if input.method == \"PUT\"")
	})
	res := mustFail(t, f, request{URL: s.URL + "/x"}, "fetch denied by policy: GET "+s.URL+"/x is not allowed (rule data.mcp.fetch.allow of policy ")
	if len(res.Hops) != 1 || res.Hops[0].Allowed || res.Hops[0].Rule != "data.mcp.fetch.allow" || len(res.Hops[0].Policy) != 64 || res.Hops[0].Status != 0 {
		t.Errorf("%+v", res.Hops)
	}
	f = newFetcher(t, func(o *fetcher.Options) {
		o.Policy = newPolicy(t, "package mcp.fetch\nallow if to_number(input.method) == 1")
	})
	mustFail(t, f, request{URL: s.URL}, "to_number")
}

// Each redirect is a decision of its own.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var s *url.URL
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err == nil && n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/%d", n-1), http.StatusFound)
			return
		}
		fmt.Fprintf(w, "%s %s", r.Method, r.Header.Get("Content-Type"))
	})
	s, _ = url.Parse(server.URL)
	f := newFetcher(t, func(o *fetcher.Options) {
		o.Policy = newPolicy(t, "package mcp.fetch\nallow if input.url_parsed.path != \"/7\"")
	})
	if got := must(t, f, request{URL: s.String() + "/3"}); !got.Redirected || got.URL != s.String()+"/0" || got.text(t) != "GET " {
		t.Errorf("%+v", got)
	}
	res := mustFail(t, f, request{URL: s.String() + "/9"}, "fetch denied by policy: GET "+s.String()+"/7 is not allowed")
	if !strings.HasSuffix(string(res.Text), "; it was redirected from "+s.String()+"/9 [ERR_FETCH_DENIED]") || len(res.Hops) != 3 || res.Hops[1].Status != 302 || !res.Hops[1].Allowed || res.Hops[2].Allowed {
		t.Errorf("%s %+v", res.Text, res.Hops)
	}
	f = newFetcher(t, nil)
	if got := must(t, f, request{URL: s.String() + "/20"}); got.Status != 200 {
		t.Errorf("20 redirects: %+v", got)
	}
	mustFail(t, f, request{URL: s.String() + "/21"}, "there are more than 20 redirects; it was redirected from "+s.String()+"/21 [ERR_FETCH_REDIRECT]")
	if got := must(t, f, request{URL: s.String() + "/3", Redirect: "manual"}); got.Status != 302 || got.header("location") != "/2" || got.Redirected {
		t.Errorf("manual: %+v", got)
	}
	mustFail(t, f, request{URL: s.String() + "/3", Redirect: "error"}, `the server answered with a redirect, and the request has redirect: "error"`)
	mustFail(t, f, request{URL: s.String() + "/3", Redirect: "often"}, "redirect must be")
}

// Methods and bodies after redirects are those of browsers.
func TestMethodsAfterRedirects(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %q %s", r.Method, body, r.Header.Get("Content-Type"))
			return
		}
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		http.Redirect(w, r, "/end", status)
	})
	f := newFetcher(t, nil)
	for _, test := range []struct {
		status int
		method string
		want   string
	}{
		{301, "POST", `GET "" `}, {302, "POST", `GET "" `}, {303, "POST", `GET "" `}, {307, "POST", `POST "b" text/x`}, {308, "POST", `POST "b" text/x`},
		{301, "PUT", `PUT "b" text/x`}, {303, "DELETE", `GET "" `},
	} {
		got := must(t, f, request{Method: test.method, URL: fmt.Sprintf("%s/%d", s.URL, test.status), Headers: [][2]string{{"content-type", "text/x"}}, Body: map[string]any{"text": "b"}})
		if got.text(t) != test.want {
			t.Errorf("%s after %d: %s", test.method, test.status, got.text(t))
		}
	}
	if got := must(t, f, request{Method: "HEAD", URL: s.URL + "/303"}); got.URL != s.URL+"/end" || got.Body != nil {
		t.Errorf("HEAD after 303: %+v", got)
	}
}

// Credentials of a script do not follow a redirect to another origin.
func TestScriptCredentialsStay(t *testing.T) {
	t.Parallel()
	show := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q %q %q", r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("X-Other"))
	}
	other := serve(t, show)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/home":
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		default:
			show(w, r)
		}
	})
	f := newFetcher(t, nil)
	headers := [][2]string{{"Authorization", "a"}, {"Cookie", "c"}, {"X-Other", "x"}}
	if got := must(t, f, request{URL: s.URL + "/home", Headers: headers}).text(t); got != `"a" "c" "x"` {
		t.Errorf("at home: %s", got)
	}
	if got := must(t, f, request{URL: s.URL + "/away", Headers: headers}).text(t); got != `"" "" "x"` {
		t.Errorf("away: %s", got)
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long": // with a length
			w.Header().Set("Content-Length", "200001")
			_, _ = io.CopyN(w, zeros{}, 200001)
		case "/endless":
			_, _ = io.Copy(w, zeros{})
		case "/full":
			w.Header().Set("Content-Length", "200000")
			_, _ = io.CopyN(w, zeros{}, 200000)
		case "/headers":
			for i := range 100 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
			}
		case "/short":
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("half"))
		case "/bomb", "/gzip", "/members":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			switch r.URL.Path {
			case "/bomb":
				_, _ = io.CopyN(z, zeros{}, 1<<30)
			case "/members":
				for range 20 {
					_, _ = io.CopyN(z, zeros{}, 20000)
					_ = z.Close()
					z.Reset(w)
				}
			default:
				_, _ = z.Write([]byte("unpacked"))
			}
			_ = z.Close()
		case "/nogzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("not gzip at all"))
		case "/tiny":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("not gzip"))
		case "/cut":
			w.Header().Set("Content-Encoding", "gzip")
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write([]byte("unpacked"))
			_ = z.Close()
			_, _ = w.Write(b.Bytes()[:b.Len()-4])
		case "/br", "/double":
			w.Header().Set("Content-Encoding", map[string]string{"/br": "br", "/double": "gzip, gzip"}[r.URL.Path])
			_, _ = w.Write([]byte("?"))
		}
	})
	f := newFetcher(t, func(o *fetcher.Options) { o.MaxResponseBytes, o.MaxRequestBytes, o.MaxHeaderBytes = 200000, 100, 4<<10 })
	for path, want := range map[string]string{
		"/long": "longer than 200000 bytes", "/endless": "longer than 200000 bytes", "/bomb": "longer than 200000 bytes", "/members": "longer than 200000 bytes",
		"/headers": "the headers of the response are longer than 4096 bytes [ERR_FETCH_TOO_LARGE]", "/short": "ended the connection before the end of the response [ECONNRESET]",
		"/nogzip": "not the gzip that its header announces [ERR_FETCH_RESPONSE]", "/tiny": "not the gzip that its header announces", "/cut": "not the gzip that its header announces", "/br": `content encoding "br"`, "/double": `content encoding "gzip, gzip"`,
	} {
		mustFail(t, f, request{URL: s.URL + path}, want)
	}
	if got := must(t, f, request{URL: s.URL + "/full"}); len(got.text(t)) != 200000 {
		t.Errorf("at the limit: %d bytes", len(got.text(t)))
	}
	if got := must(t, f, request{URL: s.URL + "/gzip"}); got.text(t) != "unpacked" {
		t.Errorf("gzip: %q", got.text(t))
	}
	if got := must(t, f, request{Method: "HEAD", URL: s.URL + "/gzip"}); got.Body != nil {
		t.Errorf("HEAD of gzip: %+v", got)
	}
	mustFail(t, f, request{Method: "POST", URL: s.URL, Body: map[string]any{"text": strings.Repeat("x", 101)}}, "the body of the request has 101 bytes, at most 100 are allowed [ERR_FETCH_TOO_LARGE]")
	mustFail(t, f, request{URL: s.URL, Headers: [][2]string{{"x", strings.Repeat("x", 4<<10)}}}, "the headers of the request have more than 4096 bytes")
	mustFail(t, f, request{URL: s.URL, Headers: slices.Repeat([][2]string{{"x", "y"}}, 201)}, "the request has 201 headers")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A server that stops ends the fetch when its time is over, and the end of the run ends it
// at once.
func TestSlowServers(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 10)
	wait := func(r *http.Request) {
		reached <- struct{}{}
		<-r.Context().Done()
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = w.Write([]byte("the first part"))
			_ = http.NewResponseController(w).Flush()
		}
		wait(r)
	})
	f := newFetcher(t, func(o *fetcher.Options) { o.Timeout = 50 * time.Millisecond })
	for _, path := range []string{"/headers", "/body"} {
		if res := fetch(t, f, request{URL: s.URL + path}); res.Outcome != fetcher.TimedOut || !strings.Contains(string(res.Text), "no complete response within 50ms [ETIMEDOUT]") {
			t.Errorf("%s: %s %s", path, res.Outcome, res.Text)
		}
	}
	for range len(reached) {
		<-reached
	}
	f = newFetcher(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		<-reached
		stop()
	}()
	if res := f.Fetch(ctx, caller, []byte(`{"url":"`+s.URL+`/headers"}`)); res.Outcome != fetcher.Cancelled {
		t.Errorf("after the end of the run: %s %s", res.Outcome, res.Text)
	}
}

// Malformed responses fail with words that do not depend on the library.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var answer string
	var mu sync.Mutex
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			mu.Lock()
			_, _ = c.Write([]byte(answer))
			mu.Unlock()
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	f := newFetcher(t, nil)
	for given, want := range map[string]string{
		"":         "ended the connection before the end",
		"nonsense": "the server's response is malformed",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n": "the server answered with status 101",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n":                                 "the server's response is malformed",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab":           "the request failed",
		"HTTP/1.1 200 OK\r\nbad header\r\n\r\n":                                         "the server's response is malformed",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n":                   "",
		"HTTP/1.1 302 Found\r\nLocation: ftp://a/\r\n\r\n":                              "the server's redirect cannot be followed: the URL must begin with",
		"HTTP/1.1 302 Found\r\nLocation: http://u:p@a/\r\n\r\n":                         "the server's redirect cannot be followed: the URL must not contain a user name",
		"HTTP/1.1 302 Found\r\nLocation: http:a\r\n\r\n":                                "the server's redirect cannot be followed",
	} {
		mu.Lock()
		answer = given
		mu.Unlock()
		mustFail(t, f, request{URL: "http://" + l.Addr().String()}, want)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, func(o *fetcher.Options) {
		o.Resolver = resolver(func(string, int) []string { return nil })
	})
	mustFail(t, f, request{URL: "http://" + address}, "the server refused the connection")
	if res := mustFail(t, f, request{URL: "http://nowhere.example/"}, "the host does not exist"); strings.Contains(string(res.Text), ":53") {
		t.Errorf("the message names the resolver: %s", res.Text)
	}
	s := serveTLS(t, func(http.ResponseWriter, *http.Request) {})
	mustFail(t, f, request{URL: s.URL}, "the certificate of the server is not valid")
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	mustFail(t, f, request{URL: "https" + strings.TrimPrefix(plain.URL, "http")}, "the server does not speak TLS")
}

// Memory for a large response is taken before it is read, and all of it is returned.
func TestMemory(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := 1000
		if r.URL.Path == "/large" {
			n = 300000
		}
		w.Header().Set("Content-Length", fmt.Sprint(n))
		_, _ = io.CopyN(w, iotest.DataErrReader(zeros{}), int64(n))
	})
	m := &memory{}
	f := newFetcher(t, func(o *fetcher.Options) { o.Memory = m })
	res := fetch(t, f, request{URL: s.URL + "/large"})
	if m.taken != 1200000 || m.held < int64(len(res.Text)) || m.tenant != "acme" {
		t.Errorf("%+v for %d bytes", m, len(res.Text))
	}
	if res.Release(); m.held != 0 {
		t.Errorf("after the release: %+v", m)
	}
	m.taken = 0
	if fetch(t, f, request{URL: s.URL + "/small"}); m.taken != 0 {
		t.Errorf("a small response took %d", m.taken)
	}
	m.err = errors.New("no memory is free")
	mustFail(t, f, request{URL: s.URL + "/large"}, "no memory is free")
}

type memory struct {
	taken, held int64
	tenant      string
	err         error
}

func (m *memory) Take(_ context.Context, tenant string, n int64) (fetcher.Held, error) {
	if m.err != nil {
		return nil, m.err
	}
	m.taken, m.held, m.tenant = m.taken+n, m.held+n, tenant
	return m, nil
}
func (m *memory) Shrink(n int64) { m.held = n }
func (m *memory) Release()       { m.held = 0 }
