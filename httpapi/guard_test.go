package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"daybook/httpapi"
)

func TestCheckBind(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		addr string
		auth bool
		want string // part of the error; empty: allowed
	}{
		{addr: "127.0.0.1:8080"},
		{addr: "127.9.9.9:0"},
		{addr: "[::1]:8080"},
		{addr: "localhost:8080"},
		{addr: "LOCALHOST:8080"},
		{addr: "0.0.0.0:8080", auth: true},
		{addr: "0.0.0.0:8080", want: "no authentication is configured"},
		{addr: ":8080", want: "every interface"},
		{addr: "[::]:8080", want: "no authentication is configured"},
		{addr: "192.168.1.4:8080", want: "192.168.1.4"},
		{addr: "book.example:8080", want: "book.example"},
		{addr: "localhost.example:8080", want: "localhost.example"},
		{addr: "8080", want: "HOST:PORT"},
		{addr: "8080", auth: true, want: "HOST:PORT"},
	} {
		err := httpapi.CheckBind(tc.addr, tc.auth)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%q refused: %v", tc.addr, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%q: %v, want an error with %q", tc.addr, err, tc.want)
		}
	}
}

// newBareHandler returns a handler without parts behind it, for requests that never reach
// them.
func newBareHandler(t testing.TB, change ...func(*httpapi.Options)) http.Handler {
	t.Helper()
	o := httpapi.Options{Commands: noCommands{}, Queries: noQueries{}, Events: noEvents{}}
	for _, c := range change {
		c(&o)
	}
	h, err := httpapi.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A refused request must not reach the parts: a call of a nil interface panics.
type (
	noCommands struct{ httpapi.Commands }
	noQueries  struct{ httpapi.Queries }
	noEvents   struct{ httpapi.EventLog }
)

func (noQueries) Damage() error   { return nil }
func (noQueries) Applied() uint64 { return 0 }

func TestGuard(t *testing.T) {
	t.Parallel()
	h := newBareHandler(t, func(o *httpapi.Options) { o.Hosts = []string{"book.example", "other.example:8443"} })
	for _, tc := range []struct {
		name, method, host string
		header             []string
		want               int
	}{
		{name: "loopback", host: "127.0.0.1:8080", want: 200},
		{name: "loopback v6", host: "[::1]:8080", want: 200},
		{name: "mapped loopback", host: "[::ffff:127.0.0.1]", want: 200},
		{name: "localhost", host: "LocalHost", want: 200},
		{name: "allowed", host: "book.example:1234", want: 200},
		{name: "allowed with port", host: "other.example:8443", want: 200},
		{name: "wrong port", host: "other.example:1", want: 403},
		{name: "rebound", host: "evil.example", want: 403},
		{name: "suffix", host: "localhost.evil.example", want: 403},
		{name: "prefix", host: "evil.localhost", want: 403},
		{name: "other address", host: "10.0.0.1:8080", want: 403},
		{name: "no host", host: "", want: 403},
		{name: "same origin", host: "localhost:8080", header: []string{"Origin", "http://localhost:8080"}, want: 200},
		{name: "behind TLS", host: "book.example", header: []string{"Origin", "https://book.example"}, want: 200},
		{name: "cross origin", host: "localhost:8080", header: []string{"Origin", "http://evil.example"}, want: 403},
		{name: "other port", host: "localhost:8080", header: []string{"Origin", "http://localhost:3000"}, want: 403},
		{name: "default port", host: "book.example:80", header: []string{"Origin", "http://book.example"}, want: 200},
		{name: "port of the other scheme", host: "localhost", header: []string{"Origin", "http://localhost:443"}, want: 403},
		{name: "null origin", host: "localhost:8080", header: []string{"Origin", "null"}, want: 403},
		{name: "file origin", host: "localhost:8080", header: []string{"Origin", "file://localhost:8080"}, want: 403},
		{name: "embedded picture", host: "localhost:8080", header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, want: 403},
		{name: "same site", host: "localhost:8080", header: []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}, want: 403},
		{name: "framed", host: "localhost:8080", header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, want: 403},
		{name: "link", host: "localhost:8080", header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, want: 200},
		{name: "form of another site", method: "POST", host: "localhost:8080", header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, want: 403},
		{name: "preflight", method: "OPTIONS", host: "localhost:8080", header: []string{"Origin", "http://evil.example", "Access-Control-Request-Method", "POST"}, want: 403},
	} {
		method := tc.method
		if method == "" {
			method = http.MethodGet
		}
		r := httptest.NewRequest(method, "/healthz", nil)
		r.Host = tc.host
		for i := 0; i+1 < len(tc.header); i += 2 {
			r.Header.Set(tc.header[i], tc.header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.want {
			t.Errorf("%s: %d %s, want %d", tc.name, w.Code, w.Body, tc.want)
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: Access-Control-Allow-Origin is %q", tc.name, got)
		}
	}
}

// Every route, documented, plain or mounted, is behind the guard. Its responses have
// the security headers, including error responses.
func TestEveryRouteIsGuarded(t *testing.T) {
	t.Parallel()
	reached := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a refused request reached a handler") })
	h := newBareHandler(t, func(o *httpapi.Options) {
		o.Mounts = map[string]http.Handler{"/mcp": reached, "/sse": reached, "/assets/": reached}
		o.Metrics = reached
	})
	type route struct{ method, path string }
	var routes []route
	for path, ops := range document(t).Paths {
		for method := range ops {
			routes = append(routes, route{strings.ToUpper(method), path})
		}
	}
	for _, path := range []string{"/mcp", "/sse", "/assets/app.js", "/metrics", "/openapi.json", "/docs", "/", "/nowhere"} {
		routes = append(routes, route{"GET", path}, route{"POST", path}, route{"DELETE", path})
	}
	if len(routes) < 30 {
		t.Fatalf("only %d routes found", len(routes))
	}
	fill := strings.NewReplacer("{id}", "0", "{heap}", "0", "{name}", "0")
	for _, rt := range routes {
		for name, change := range map[string]func(*http.Request){
			"foreign host":      func(r *http.Request) { r.Host = "evil.example" },
			"foreign origin":    func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
			"null origin":       func(r *http.Request) { r.Header.Set("Origin", "null") },
			"cross-site script": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		} {
			r := httptest.NewRequest(rt.method, fill.Replace(rt.path), nil)
			r.Host = "127.0.0.1:8080"
			change(r)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s, %s: %d %s", rt.method, rt.path, name, w.Code, w.Body)
			}
			for header, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff",
				"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
				httpapi.APIHeader: "1",
			} {
				if got := w.Header().Get(header); !strings.HasPrefix(got, want) {
					t.Errorf("%s %s, %s: %s is %q", rt.method, rt.path, name, header, got)
				}
			}
		}
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	t.Parallel()
	if _, err := httpapi.New(httpapi.Options{}); err == nil {
		t.Error("New without Commands, Queries and Events succeeded")
	}
	for _, host := range []string{"", "http://book.example", "book.example/path", "*"} {
		_, err := httpapi.New(httpapi.Options{Commands: noCommands{}, Queries: noQueries{}, Events: noEvents{}, Hosts: []string{host}})
		if err == nil || !strings.Contains(err.Error(), "host") {
			t.Errorf("host %q: %v", host, err)
		}
	}
}
