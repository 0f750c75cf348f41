package fetcher

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"http://a":                          "http://a/",
		"HTTP://A.Example:80/":              "http://a.example/",
		"https://a:443?x":                   "https://a/?x",
		"https://a:0443/":                   "https://a/",
		"http://a:443/":                     "http://a:443/",
		"http://a:/":                        "http://a/",
		"http://a./x":                       "http://a/x",
		"http://a/b/../c":                   "http://a/c",
		"http://a/b/%2e%2E/c":               "http://a/c",
		"http://a/b/.%2e/c":                 "http://a/c",
		"http://a/../../c":                  "http://a/c",
		"http://a/b/..":                     "http://a/",
		"http://a/b/.":                      "http://a/b/",
		"http://a/b/./c/":                   "http://a/b/c/",
		"http://a/b%2Fc":                    "http://a/b%2Fc",
		"http://a//b":                       "http://a//b",
		`http://a\b\..\c?\`:                 `http://a/c?%5C`,
		"http://a/é?é#é":                    "http://a/%C3%A9?%C3%A9",
		`http://a/"<>^{|}` + "`":            "http://a/%22%3C%3E%5E%7B%7C%7D%60",
		"http://a/?":                        "http://a/?",
		"http://a/x;y=1?q='1'":              "http://a/x;y=1?q='1'",
		"http://127.1/":                     "http://127.0.0.1/",
		"http://0X7F.1":                     "http://127.0.0.1/",
		"http://0x.0x.0":                    "http://0.0.0.0/",
		"http://1.2.3":                      "http://1.2.0.3/",
		"http://[::FFFF:1.2.3.4]:8080/":     "http://[::ffff:1.2.3.4]:8080/",
		"http://[0:0::1]/":                  "http://[::1]/",
		"http://1.example/":                 "http://1.example/",
		"http://xn--bcher-kva.example/":     "http://xn--bcher-kva.example/",
		"http://a_b.example/":               "http://a_b.example/",
		"http://a/%zz":                      "",
		"http://bücher.example/":            "",
		"http://a b/":                       "",
		"http://a/ b":                       "",
		"http://a/\r\nHost:b":               "",
		"http://a\x00/":                     "",
		"http:a":                            "",
		"http:/a":                           "",
		"http:///a":                         "",
		"//a/b":                             "",
		"/a":                                "",
		"":                                  "",
		"ftp://a/":                          "",
		"file:///etc/passwd":                "",
		"javascript:1":                      "",
		"http://u@a/":                       "",
		"http://u:p@a/":                     "",
		"http://@a/":                        "",
		"http://a:0/":                       "",
		"http://a:65536/":                   "",
		"http://a:1x/":                      "",
		"http://[fe80::1%25eth0]/":          "",
		"http://[1.2.3.4]/":                 "",
		"http://[::1/":                      "",
		"http://.a/":                        "",
		"http://./":                         "",
		"http://a../":                       "",
		"http://256.0.0.1/":                 "",
		"http://1.2.3.4.5/":                 "",
		"http://a.1/":                       "",
		"http://" + strings.Repeat("a", 64): "",
		"http://a/" + strings.Repeat("a", maxURL):    "",
		"http://a/" + strings.Repeat("é", maxURL/4):  "",
		"http://" + strings.Repeat("a.", 127) + "b/": "",
	} {
		u, err := parseTarget(given, nil)
		if (err == nil) != (want != "") || err == nil && u.String() != want {
			t.Errorf("%.100q: %v, %v, want %q", given, u, err, want)
		}
	}
	base, err := parseTarget("https://a.example/b/c?d", nil)
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"e": "https://a.example/b/e", "/e": "https://a.example/e", "//B.example/e": "https://b.example/e", "?f": "https://a.example/b/c?f", "": "https://a.example/b/c?d", `\\b.example`: "https://b.example/",
		"http://c/": "http://c/", "../../..": "https://a.example/", "mailto:a": "", "#x": "https://a.example/b/c?d",
	} {
		u, err := parseTarget(given, base)
		if (err == nil) != (want != "") || err == nil && u.String() != want {
			t.Errorf("redirect to %q: %v, %v, want %q", given, u, err, want)
		}
	}
}

func TestSmuggledHeaders(t *testing.T) {
	t.Parallel()
	for _, h := range [][2]string{
		{"Host", "b"}, {"host", "b"}, {"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}, {"Connection", "close"}, {"Proxy-Authorization", "x"}, {"TE", "trailers"}, {"Upgrade", "x"},
		{"Expect", "100-continue"}, {"Accept-Encoding", "br"}, {"Trailer", "x"}, {"Keep-Alive", "x"}, {"HTTP2-Settings", "x"},
		{"", "x"}, {"a b", "x"}, {"a:", "x"}, {"a\r\nHost", "x"}, {"\u212a", "x"}, {"a\x00", "x"},
		{"a", "x\r\nHost: b"}, {"a", "x\nb"}, {"a", "x\rb"}, {"a", "x\x00"}, {"a", "x\x7f"}, {"a", "\u0100"}, {"a", "\ufffd"}, {"a", "\u010d\u010a"},
	} {
		if got, err := checkHeaders([][2]string{h}, 1000); err == nil {
			t.Errorf("%q became %q", h, got)
		}
	}
	got, err := checkHeaders([][2]string{{"X-A", " \t a\tb \r\n"}, {"x-a", ""}, {"Cookie", "é"}}, 1000)
	if err != nil || len(got) != 3 || got[0] != (header{"x-a", "a\tb"}) || got[1] != (header{"x-a", ""}) || got[2] != (header{"cookie", "\xe9"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// Whatever a script sends is refused, or is a request in the one form.
func FuzzDecodeRequest(f *testing.F) {
	for _, seed := range []string{
		`{"url":"http://a/"}`, `{"method":"POST","url":"https://A:443/b/../c?d#e","headers":[["A","b"]],"body":{"text":"x"},"redirect":"manual"}`,
		`{"url":"http://0x7f.1/","body":{"base64":"AA=="}}`, `{"url":"http://[::1]:80\\x"}`, `{"url":"http://a/","headers":[["a","\u00e9"]]} {}`, `[]`, `{"url":"http://a/%2e%2e//.."}`,
	} {
		f.Add([]byte(seed))
	}
	o := Options{}.withDefaults()
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decodeRequest(text, o)
		if err != nil {
			return
		}
		again, err := parseTarget(r.target.String(), nil)
		if err != nil || again.String() != r.target.String() {
			t.Errorf("%q became %q, and then %v, %v", text, r.target, again, err)
		}
		u, err := url.ParseRequestURI(r.target.RequestURI())
		if err != nil || u.EscapedPath() != r.target.EscapedPath() {
			t.Errorf("%q is requested as %q", r.target, r.target.RequestURI())
		}
		if host := r.target.Hostname(); host != strings.ToLower(host) || strings.HasSuffix(host, ".") || r.target.User != nil || r.target.Fragment != "" {
			t.Errorf("%q became %q", text, r.target)
		}
		if addr, err := netip.ParseAddr(r.target.Hostname()); err == nil && addr.Zone() != "" {
			t.Errorf("%q has a zone", r.target)
		}
		if !token.MatchString(r.method) || r.method != strings.ToUpper(r.method) || len(r.body) > o.MaxRequestBytes {
			t.Errorf("%q became %+v", text, r)
		}
		for _, h := range r.headers {
			if !token.MatchString(h.name) || isOwnHeader(h.name) || strings.ContainsAny(h.value, "\r\n\x00") {
				t.Errorf("%q has the header %q", text, h)
			}
		}
		policyInput(Caller{}, r)
	})
}
