package registry_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"daybook/internal/modules/registry"
	"daybook/internal/modules/registrytest"
	"daybook/internal/modules/tarball"
	"daybook/internal/modules/tarballtest"
)

func one(name string, kind byte, size int) []byte {
	h := tar.Header{Name: name, Typeflag: kind, Mode: 0o644, Linkname: "/etc/passwd"}
	text := ""
	if kind == tar.TypeReg {
		h.Size, h.Linkname, text = int64(size), "", strings.Repeat(" ", size)
	}
	return tarballtest.PackEntries([]tar.Header{h}, []string{text})
}

func TestHostileTarballs(t *testing.T) {
	t.Parallel()
	bomb := func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		zeros := make([]byte, 1<<20)
		for range 140 {
			_, _ = z.Write(zeros)
		}
		_ = z.Close()
		return b.Bytes()
	}()
	big := one("package/big.bin", tar.TypeReg, tarball.MaxUnpacked+1)
	many := func() []byte {
		var entries []tar.Header
		for range tarball.MaxFiles + 1 {
			entries = append(entries, tar.Header{Name: "package/", Typeflag: tar.TypeDir, Mode: 0o755})
		}
		return tarballtest.PackEntries(entries, make([]string, len(entries)))
	}()
	for name, c := range map[string]struct {
		packed    []byte
		integrity string
		want      string
	}{
		"parent":             {packed: one("package/../../evil.js", tar.TypeReg, 1), want: "has .."},
		"absolute":           {packed: one("/etc/evil.js", tar.TypeReg, 1), want: "is absolute"},
		"backslash":          {packed: one(`package/..\evil.js`, tar.TypeReg, 1), want: "backslash"},
		"symbolic link":      {packed: one("package/a.js", tar.TypeSymlink, 0), want: "neither a regular file"},
		"hard link":          {packed: one("package/a.js", tar.TypeLink, 0), want: "neither a regular file"},
		"device":             {packed: one("package/a.js", tar.TypeChar, 0), want: "neither a regular file"},
		"pipe":               {packed: one("package/a.js", tar.TypeFifo, 0), want: "neither a regular file"},
		"no directory":       {packed: one("a.js", tar.TypeReg, 1), want: "outside the directory"},
		"large file":         {packed: one("package/a.js", tar.TypeReg, tarball.MaxFile+1), want: "at most 8388608"},
		"large contents":     {packed: big, want: "decompresses to more than"},
		"bomb":               {packed: bomb, want: "refused"},
		"many entries":       {packed: many, want: "more than 20000 entries"},
		"no gzip":            {packed: []byte("not gzip"), want: "not compressed with gzip"},
		"cut short":          {packed: tarballtest.Pack(map[string]string{"package.json": strings.Repeat("{} ", 9000)})[:60], want: "damaged"},
		"wrong integrity":    {packed: tarballtest.Pack(nil), integrity: "sha512-" + strings.Repeat("A", 86) + "==", want: "SHA-512 of the tarball is"},
		"weak integrity":     {packed: tarballtest.Pack(nil), integrity: "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", want: "states no SHA-512"},
		"another name":       {packed: tarballtest.Pack(map[string]string{"package.json": `{"name":"other","version":"1.0.0"}`}), want: "names \"other\""},
		"no package.json":    {packed: tarballtest.Pack(map[string]string{"a.js": ""}), want: "no package.json"},
		"large package.json": {packed: tarballtest.Pack(map[string]string{"package.json": `{"a":"` + strings.Repeat("x", 2<<20) + `"}`}), want: "at most 1048576"},
		"deep package.json":  {packed: tarballtest.Pack(map[string]string{"package.json": strings.Repeat(`{"a":`, 100_000)}), want: "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := registrytest.New()
			defer s.Close()
			s.AddTarball("evil", "1.0.0", nil, c.packed, c.integrity)
			client, err := registry.New(s.URL, s.URL)
			if err != nil {
				t.Fatal(err)
			}
			p, err := client.Package(t.Context(), "evil")
			if err != nil {
				t.Fatal(err)
			}
			v, err := p.Version("1.0.0")
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Tarball(t.Context(), "evil", "1.0.0", v)
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, registry.ErrRefused) && !errors.Is(err, tarball.ErrRefused) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestOtherHosts(t *testing.T) {
	t.Parallel()
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer s.Close()
	client, err := registry.New(s.URL, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Package(t.Context(), "moved"); err == nil || !strings.Contains(err.Error(), "redirects to another host") {
		t.Error(err)
	}
	v := &registry.Version{}
	v.Dist.Integrity = "sha512-" + strings.Repeat("A", 86) + "=="
	for _, address := range []string{other.URL + "/x.tgz", "file:///etc/passwd", "http://169.254.169.254/latest", "//evil/x", ""} {
		v.Dist.Tarball = address
		if _, err := client.Tarball(t.Context(), "a", "1.0.0", v); !errors.Is(err, registry.ErrRefused) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if reached {
		t.Error("another host was asked")
	}
	for _, bad := range []string{"", "ftp://x", "file:///x", "x", "http://", "http://x?a=b"} {
		if _, err := registry.New(bad, registry.JSR); err == nil {
			t.Errorf("%q is a registry", bad)
		}
	}
}

// TestOldManifests reads an answer with lists where objects belong, as the npm registry has
// them for old versions. A version that cannot be read is no obstacle to others.
func TestOldManifests(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"name":"old","versions":{"0.1.0":{"dependencies":[],"peerDependencies":"x"},"1.0.0":{"dependencies":{"a":"^1"}},
			"0.0.1":{"dependencies":{"a":1}},"0.0.2":null,"0.0.3":{"dist":"` + strings.Repeat("x", 1<<20) + `"}}}`))
	}))
	defer s.Close()
	client, err := registry.New(s.URL, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	p, err := client.Package(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Version("0.1.0"); err != nil || v.Dependencies != nil {
		t.Errorf("%+v %v", v, err)
	}
	if v, err := p.Version("1.0.0"); err != nil || v.Dependencies["a"] != "^1" {
		t.Errorf("%+v %v", v, err)
	}
	for _, version := range []string{"0.0.2", "2.0.0"} {
		if v, err := p.Version(version); v != nil || err != nil {
			t.Errorf("%s: %+v %v", version, v, err)
		}
	}
	for _, version := range []string{"0.0.1", "0.0.3"} {
		if _, err := p.Version(version); !errors.Is(err, registry.ErrRefused) || !strings.Contains(err.Error(), "old@"+version) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// TestErrorTexts gets status lines and headers with control characters, and long ones.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HTTP/1.1 503 Gone\x1b[2J\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\x1b[2J" + strings.Repeat("x", 5000) + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n2\r\n{}\r\n0\r\nno colon\x1b[2J\r\n\r\n", "\x1b[2J\r\n\r\n",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Write([]byte(answer))
			_ = conn.Close()
		}))
		client, err := registry.New(s.URL, s.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Package(t.Context(), "loud")
		if err == nil || strings.ContainsFunc(err.Error(), unicode.IsControl) || len(err.Error()) > 500 {
			t.Errorf("%.40q: %q", answer, err)
		}
		s.Close()
	}
}

// TestCredentials reads from a registry that asks for the name and password in its address.
func TestCredentials(t *testing.T) {
	t.Parallel()
	inner := registrytest.New()
	defer inner.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != "build" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer s.Close()
	inner.URL = s.URL
	inner.Add("own", "1.0.0", nil, map[string]string{"index.js": ""})
	address := strings.Replace(s.URL, "http://", "http://build:secret@", 1)
	client, err := registry.New(address, address)
	if err != nil {
		t.Fatal(err)
	}
	p, err := client.Package(t.Context(), "own")
	if err != nil {
		t.Fatal(err)
	}
	v, err := p.Version("1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Tarball(t.Context(), "own", "1.0.0", v); err != nil {
		t.Error(err)
	}
}
