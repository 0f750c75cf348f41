package fetcher_test

import (
	"compress/gzip"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"daybook/internal/tools/fetcher"
)

// secret has characters that each kind of encoding changes.
const secret = `s3cr"t/&+ token=`

// withRules returns a fetcher that knows the certificates of test servers, and resolves
// every name to this machine.
func withRules(t *testing.T, rules ...fetcher.HeaderRule) *fetcher.Fetcher {
	t.Helper()
	example := httptest.NewUnstartedServer(nil)
	example.StartTLS()
	defer example.Close()
	roots := x509.NewCertPool()
	roots.AddCert(example.Certificate())
	return newFetcher(t, func(o *fetcher.Options) {
		o.Headers, o.Resolver, o.Roots = rules, toLoopback(), roots
	})
}

func portOf(t testing.TB, s *httptest.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// A secret goes to its host, its port and its scheme only, and the policy does not see it.
func TestInjection(t *testing.T) {
	t.Parallel()
	show := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Got", fmt.Sprint(r.Header.Get("X-Key") == secret, " ", r.Header.Get("X-Key") == "mine", " ", r.Header.Get("X-Mild"), "."))
	}
	s, other, plain := serveTLS(t, show), serveTLS(t, show), serve(t, show)
	f := withRules(t,
		fetcher.HeaderRule{Host: "example.com:" + portOf(t, s), Methods: []string{"get", "PUT"}, Header: "X-Key", Value: secret},
		fetcher.HeaderRule{Host: "*.example.com:" + portOf(t, s), Header: "x-mild", Value: "on", KeepScripts: true},
	)
	for _, test := range []struct {
		url     string
		method  string
		headers [][2]string
		want    string
	}{
		{at(t, s, "example.com", "/"), "GET", nil, "true false on."},
		{at(t, s, "EXAMPLE.com.", "/"), "GET", nil, "true false on."},
		{at(t, s, "example.com", "/"), "PUT", nil, "true false on."},
		{at(t, s, "example.com", "/"), "POST", nil, "false false on."},
		{at(t, s, "example.com", "/"), "GET", [][2]string{{"x-key", "mine"}, {"X-KEY", "other"}, {"X-Mild", "mine"}}, "true false mine."},
		{at(t, other, "example.com", "/"), "GET", [][2]string{{"x-key", "mine"}}, "false true ."},
		{at(t, s, "127.0.0.1", "/"), "GET", nil, "false false ."},
		{at(t, plain, "example.com", "/"), "GET", nil, "false false ."},
	} {
		res := fetch(t, f, request{Method: test.method, URL: test.url, Headers: test.headers})
		got := must(t, f, request{Method: test.method, URL: test.url, Headers: test.headers})
		if got.header("x-got") != test.want {
			t.Errorf("%s %s: %q, want %q", test.method, test.url, got.header("x-got"), test.want)
		}
		if added := res.Hops[0].Added; slices.Contains(added, "x-key") != strings.HasPrefix(test.want, "true") {
			t.Errorf("%s %s: recorded %q", test.method, test.url, added)
		}
	}
	saw := newFetcher(t, func(o *fetcher.Options) {
		o.Policy = newPolicy(t, "package mcp.fetch\nallow if not input.headers[\"x-key\"]")
		o.Headers = []fetcher.HeaderRule{{Host: "127.0.0.1:" + portOf(t, plain), Header: "X-Key", Value: secret, Plain: true}}
	})
	if got := must(t, saw, request{URL: plain.URL}); got.header("x-got") != "true false ." {
		t.Errorf("with a policy that looks at the header: %+v", got)
	}
}

func TestWildcards(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Key") != "") })
	f := withRules(t, fetcher.HeaderRule{Host: "*.x.example:" + portOf(t, s), Header: "X-Key", Value: secret, Plain: true})
	for host, want := range map[string]string{"x.example": "true", "a.x.example": "true", "a.b.X.example": "true", "ax.example": "false", "x.example.evil.example": "false", "example": "false"} {
		if got := must(t, f, request{URL: at(t, s, host, "/")}); got.text(t) != want {
			t.Errorf("%s: %s", host, got.text(t))
		}
	}
}

// A redirect to another host, port or scheme leaves the secret behind.
func TestSecretsStayAtTheirHost(t *testing.T) {
	t.Parallel()
	show := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Key") != "") }
	otherPort, plain := serveTLS(t, show), serve(t, show)
	s := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		show(w, r)
	})
	f := withRules(t, fetcher.HeaderRule{Host: "example.com:" + portOf(t, s), Header: "X-Key", Value: secret})
	start := at(t, s, "example.com", "/?to=")
	for to, want := range map[string]string{
		at(t, s, "example.com", "/"): "true", at(t, s, "127.0.0.1", "/"): "false", at(t, otherPort, "example.com", "/"): "false", at(t, plain, "example.com", "/"): "false",
		at(t, s, "127.0.0.1", "/?to="+url.QueryEscape(at(t, s, "example.com", "/"))): "true",
	} {
		if got := must(t, f, request{URL: start + url.QueryEscape(to)}); got.text(t) != want {
			t.Errorf("after a redirect to %s: %s", to, got.text(t))
		}
	}
}

// A server that repeats the secret does not tell it to the script, in whichever form.
func TestRepeatedSecrets(t *testing.T) {
	t.Parallel()
	basic := base64.StdEncoding.EncodeToString([]byte("user:passw0rd!"))
	s := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "https://example.com/?key="+url.QueryEscape(r.Header.Get("X-Key")), http.StatusFound)
			return
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, "before ", r.Header.Get("X-Key"), " after")
			_ = z.Close()
			return
		}
		k := r.Header.Get("X-Key")
		w.Header().Set("X-Echo", k)
		w.Header().Set("X-"+hex.EncodeToString([]byte(k)), "1")
		w.Header().Set("X-"+r.Header.Get("X-Token"), "in a name, whose case is changed")
		w.Header().Set("Www-Authenticate", "got "+r.Header.Get("Authorization"))
		for _, form := range []string{k, url.QueryEscape(k), url.PathEscape(k), html.EscapeString(k), fmt.Sprintf("%q", k), fmt.Sprintf("%x %X", k, k)} {
			fmt.Fprintln(w, form)
		}
		for _, before := range []string{"", "1", "12", "123", "X-Key: "} {
			fmt.Fprintln(w, base64.StdEncoding.EncodeToString([]byte(before+k+" after")), base64.URLEncoding.EncodeToString([]byte(before+k+" after")))
		}
		fmt.Fprintln(w, "user:passw0rd!", "passw0rd!", basic)
	})
	port := portOf(t, s)
	f := withRules(t,
		fetcher.HeaderRule{Host: "example.com:" + port, Header: "X-Key", Value: secret},
		fetcher.HeaderRule{Host: "example.com:" + port, Header: "Authorization", Value: "Basic " + basic},
		fetcher.HeaderRule{Host: "example.com:" + port, Header: "X-Token", Value: "tokenIs-withoutQuotes"},
		fetcher.HeaderRule{Host: "elsewhere.example", Header: "X-Else", Value: "another secret"},
	)
	res := fetch(t, f, request{URL: at(t, s, "example.com", "/")})
	text := string(res.Text) + string(res.ResponseBody)
	for _, form := range []string{secret, `s3cr\"t`, "s3cr%22t", "s3cr&#34;t", "s3cr&quot;t", hex.EncodeToString([]byte(secret)), "passw0rd", basic, "tokenis-withoutquotes", base64.StdEncoding.EncodeToString([]byte(secret))[:16]} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
			t.Errorf("the script gets %q in %s", form, text)
		}
	}
	for _, before := range []string{"", "1", "12"} {
		encoded := base64.StdEncoding.EncodeToString([]byte(before + secret))
		if middle := encoded[4 : len(encoded)-4]; strings.Contains(text, middle) {
			t.Errorf("the script gets %q", middle)
		}
	}
	if !strings.Contains(text, "[hidden]") || strings.Contains(string(res.Text), "content-length") {
		t.Errorf("%s", res.Text)
	}
	if got := must(t, f, request{URL: at(t, s, "example.com", "/gzip")}); got.text(t) != "before [hidden] after" {
		t.Errorf("compressed: %q", got.text(t))
	}
	mustFail(t, f, request{URL: at(t, s, "example.com", "/redirect")}, "the redirect of the server contains a secret")
	// A secret of another host is not hidden: that would tell a script that sends guesses which one is right.
	echo := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "another secret") })
	if got := must(t, f, request{URL: echo.URL}); got.text(t) != "another secret" {
		t.Errorf("from another host: %q", got.text(t))
	}
}

func lookup(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": secret, "EMPTY": ""}[name]
	return v, ok
}

func TestParseHeaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := fetcher.ParseHeaderFlag("host=api.example.com,header=Authorization,value=Bearer ${TOKEN},methods=GET;POST,override=false", lookup)
	if err != nil || r.Value != "Bearer "+secret || !slices.Equal(r.Methods, []string{"GET", "POST"}) || !r.KeepScripts || r.Plain {
		t.Errorf("%#v, %v", r, err)
	}
	r, err = fetcher.ParseHeaderFlag("host=*.example.com,header=X-Key,value=${file:"+file+"},plain=true", lookup)
	if err != nil || r.Value != "from a file" || r.KeepScripts || !r.Plain {
		t.Errorf("%#v, %v", r, err)
	}
	rules, err := fetcher.ParseHeaderFile([]byte(`[{"host":"a.example","methods":["GET"],"headers":{"Authorization":"Bearer ${TOKEN}","X-Plain":"literal"}},{"host":"b.example:8443","headers":{"X":"y"},"override":false}]`), lookup)
	if err != nil || len(rules) != 3 || rules[0].Value != "Bearer "+secret || rules[1].Value != "literal" || !rules[2].KeepScripts {
		t.Errorf("%v, %v", rules, err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, rules); strings.Contains(text, secret) || !strings.Contains(text, "header Authorization for a.example") {
			t.Errorf("%s shows %s", format, text)
		}
	}
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"host=a.example,header=X,value=" + secret:            "the value is visible to other users",
		"host=a.example,header=X,value=plain":                "the value is visible to other users",
		"host=a.example,header=X,value=${NONE}":              "the environment has no NONE",
		"host=a.example,header=X,value=${EMPTY}":             "the environment has no EMPTY",
		"host=a.example,header=X,value=${file:" + open + "}": "run chmod 600",
		"host=a.example,header=X,value=${file:/none}":        "read secret",
		"host=a.example,header=X,value=${file:" + dir + "}":  "it must be a file",
		"host=a.example,header=X":                            "the value is empty",
		"header=X,value=${TOKEN}":                            "the host must be a name",
		"host=*,header=X,value=${TOKEN}":                     "the host must be a name",
		"host=a.*.example,header=X,value=${TOKEN}":           "the host must be a name",
		"host=https://a.example,header=X,value=${TOKEN}":     "the host must be a name",
		"host=a.example/x,header=X,value=${TOKEN}":           "the host must be a name",
		"host=a.example,header=X y,value=${TOKEN}":           "the name of the header is malformed",
		"host=a.example,header=Host,value=${TOKEN}":          "follows from the request",
		"host=a.example,header=X,value=${TOKEN},methods=G T": "a method is malformed",
		"host=a.example,header=X,token=x":                    `"token" is unknown`,
		"a.example":                                          "a rule has the form",
	} {
		_, err := fetcher.ParseHeaderFlag(flag, lookup)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
	for text, want := range map[string]string{
		`{`: "the file must be a JSON array", `{}`: "the file must be a JSON array", `[] []`: "unexpected text", `[{"host":"a.example","x":{}}]`: `member "x" is unknown`,
		`[{"host":"a.example"}]`: "has no headers", `[{"host":"a.example","headers":{"X":"${NONE}"}}]`: "the environment has no NONE",
		`[{"host":"a.example","headers":{"X":"a\nb` + "s3cret" + `"}}]`: "printable ASCII",
	} {
		if _, err := fetcher.ParseHeaderFile([]byte(text), lookup); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
