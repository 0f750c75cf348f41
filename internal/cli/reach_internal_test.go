package cli

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
)

// If another program uses the default address, requests go to the owner of the data directory.
// Without an owner the error names that program.
func TestStrangerAtTheDefaultAddress(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_DATA_HOME", base)
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Authorization") != "" {
			t.Errorf("another program receives %s %s, token %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		w.Header().Set("Server", "Other/1.0")
		http.Error(w, "<html>no such page</html>", http.StatusNotFound)
	}))
	defer stranger.Close()
	defer direct.CloseIdleConnections()
	ask := func(token string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, stranger.URL+"/api/exec", bytes.NewReader([]byte(`{"code":"1"}`)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", token)
		}
		return clientFlags{}.do(req)
	}
	if err := os.Mkdir(filepath.Join(base, "daybook"), 0o700); err != nil {
		t.Fatal(err)
	}
	resp, err := ask("Bearer secret")
	if err == nil {
		resp.Body.Close()
		t.Fatalf("without an owner the answer is %s", resp.Status)
	}
	for _, word := range []string{"another program answers at " + stranger.URL, "404 Not Found as Other/1.0", "no process serves " + base} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("without an owner the error does not say %q: %v", word, err)
		}
	}

	book, err := embed.Start(t.Context(), embed.Options{DataDir: filepath.Join(base, "daybook"), Runs: embed.RunOptions{Elsewhere: true, DrainWait: -1}, NATS: embed.NATSOptions{NoSync: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if resp, err = ask(""); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted {
		t.Errorf("the owner answers %s %s", resp.Status, body)
	}
}

// Another program at the address of --server is refused with one line.
func TestNamedStranger(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "tls": httptest.NewTLSServer} {
		stranger := start(http.NotFoundHandler())
		url := strings.Replace(stranger.URL, "https:", "http:", 1)
		var out, errs bytes.Buffer
		status := Main([]string{"exec", "list", "--server", url}, strings.NewReader(""), &out, &errs)
		why := map[string]string{"http": "it answers 404 Not Found", "tls": "it speaks TLS, as in https://"}[name]
		if want := "daybook: " + url + " is not a Daybook server: " + why + "; name another with --server\n"; status != exitUnavailable || out.Len() > 0 || errs.String() != want {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q, want %q", name, status, out.String(), errs.String(), want)
		}
		stranger.Close()
	}
	direct.CloseIdleConnections()
}

// A program that speaks another protocol is a stranger too. Without a listener probeServer returns
// an error.
func TestProbeServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = conn.Write([]byte("220 mail.example.com\r\n"))
			conn.Close()
		}
	}()
	at := "http://" + l.Addr().String()
	if stranger, err := probeServer(t.Context(), at); err != nil || !strings.Contains(stranger, "does not answer as an HTTP server") {
		t.Errorf("a mail server is %q, %v", stranger, err)
	}
	l.Close()
	// Another test may listen there by now.
	for try := 0; ; try++ {
		stranger, err := probeServer(t.Context(), at)
		if err != nil {
			break
		}
		if try == 10 {
			t.Fatalf("without a listener there is %q", stranger)
		}
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at = "http://" + other.Addr().String()
		other.Close()
	}
}
