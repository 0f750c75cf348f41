package web_test

import (
	"crypto/tls"
	"errors"
	"net/http/httptest"
	"testing"

	"daybook/internal/web"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	g := web.NewGuard([]string{"book.example", "Other.Example:8443"})
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for _, tc := range []struct {
		name, method, host string
		header             []string
		read, asWrite      error
	}{
		{name: "loopback", host: "[::1]:8080"},
		{name: "allowed", host: "BOOK.example:1"},
		{name: "allowed port", host: "other.example:8443"},
		{name: "another port", host: "other.example", read: web.ErrForeignHost, asWrite: web.ErrForeignHost},
		{name: "foreign host", host: "evil.example", header: link, read: web.ErrForeignHost, asWrite: web.ErrForeignHost},
		{name: "own origin", host: "localhost:1", header: []string{"Origin", "http://localhost:1"}},
		{name: "foreign origin", host: "localhost:1", header: []string{"Origin", "http://localhost:2"}, read: web.ErrForeignOrigin, asWrite: web.ErrForeignOrigin},
		{name: "a link", host: "localhost", header: link, asWrite: web.ErrOtherSite},
		{name: "a picture", host: "localhost", header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, read: web.ErrEmbedded, asWrite: web.ErrOtherSite},
		{name: "a form", method: "POST", host: "localhost", header: link, read: web.ErrOtherSite, asWrite: web.ErrOtherSite},
	} {
		method := tc.method
		if method == "" {
			method = "GET"
		}
		r := httptest.NewRequest(method, "/", nil)
		r.Host = tc.host
		for i := 0; i < len(tc.header); i += 2 {
			r.Header.Set(tc.header[i], tc.header[i+1])
		}
		if err := g.Check(r); !errors.Is(err, tc.read) || err != nil && tc.read == nil {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.read)
		}
		if err := g.CheckAsWrite(r); !errors.Is(err, tc.asWrite) || err != nil && tc.asWrite == nil {
			t.Errorf("%s as a write: %v, want %v", tc.name, err, tc.asWrite)
		}
		if r.Method != method {
			t.Errorf("%s: the request is a %s afterwards", tc.name, r.Method)
		}
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "localhost:1"
	if got := web.BaseURL(r, ""); got != "http://localhost:1" {
		t.Error(got)
	}
	r.TLS = &tls.ConnectionState{}
	if got := web.BaseURL(r, ""); got != "https://localhost:1" {
		t.Error(got)
	}
	if got := web.BaseURL(r, "https://book.example/"); got != "https://book.example" {
		t.Error(got)
	}
}
