package embed_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// journal collects log records for a test.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// TestTokensStaySecret sends valid, invalid and revoked tokens to every interface. No log,
// file or answer may contain one of them.
func TestTokensStaySecret(t *testing.T) {
	t.Parallel()
	log := new(journal)
	g := startGuarded(t, embed.Options{Logger: log.logger()})
	good, ended := g.token("acme", "ada", access.AllScopes), g.token("acme", "bob", access.AllScopes)
	g.await(ended)
	if _, err := access.RevokeToken(g.file, ended, time.Now()); err != nil {
		t.Fatal(err)
	}
	unknown := "dbk_aaaaaaaaaa_" + strings.Repeat("canary7", 7) + "abc"
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJjYW5hcnkiOjF9." + strings.Repeat("canarysignature", 5)
	var answers strings.Builder
	ask := func(token, method, path, body string, header ...string) {
		_, answer := g.ask(token, method, path, body, header...)
		answers.WriteString(answer)
	}
	for _, token := range []string{good, ended, unknown, jwt, good + "x"} {
		for _, path := range []string{"/api/executions", "/api/executions/nosuch", "/metrics", "/readyz", "/", "/nowhere", "/api/events", "/sse?sessionid=nosuch", "/api/executions?token=x&access_token=y"} {
			if !strings.HasPrefix(path, "/sse") || token != good && token != ended { // a stream has no end
				ask(token, http.MethodGet, path, "")
			}
		}
		ask(token, http.MethodPost, "/api/exec", `{"code":"throw new Error('x')"}`)
		ask(token, http.MethodPost, "/api/exec", `{"code":1}`)
		ask(token, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, "Accept", "application/json, text/event-stream")
		ask(token, http.MethodPost, "/mcp", `nonsense`, "Accept", "application/json, text/event-stream")
	}
	ss := g.connect(good, "2025-11-25")
	for _, tool := range []string{"run_js", "get_execution", "list_sessions"} {
		res, err := ss.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"code": "1", "execution_id": "x"}})
		raw, encodeErr := json.Marshal(res)
		fmt.Fprint(&answers, string(raw), err, encodeErr)
	}
	if err := g.book.Close(); err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"the good token": good[15:], "the revoked token": ended[15:], "the unknown token": unknown[15:], "the foreign token": jwt[50:]}
	look := func(where, text string) {
		for name, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %s", where, name)
			}
		}
	}
	look("the log", log.String())
	look("an answer", answers.String())
	files := 0
	err := filepath.WalkDir(g.book.DataDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		look(path, string(raw))
		files++
		return err
	})
	if err != nil || files < 3 || !strings.Contains(log.String(), "level=DEBUG") {
		t.Errorf("%d files were searched, %v", files, err)
	}
}

// A tenant at its limit is refused over REST and MCP, and other tenants are not.
func TestQuota(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, embed.Options{Access: embed.AccessOptions{Limits: embed.Limits{Runs: 2, OutputBytes: 1000, HeapBytes: 1}}, Slots: embed.SlotOptions{Total: 4}})
	acme, other := g.token("acme", "ada", access.AllScopes), g.token("other", "bob", access.AllScopes)
	g.await(other)
	const forever = `{"code":"await new Promise(() => setTimeout(() => {}, 1e9))"}`
	type answer struct {
		ID    string `json:"execution_id"`
		Error string
		Code  string
	}
	submit := func(token, body string, header ...string) (int, answer) {
		t.Helper()
		var a answer
		status, text := g.ask(token, http.MethodPost, "/api/exec", body, header...)
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return status, a
	}
	// Concurrent submissions do not exceed the limit.
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			status, a := submit(acme, forever)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case status == http.StatusAccepted:
				ids = append(ids, a.ID)
			case status != http.StatusTooManyRequests || !strings.Contains(a.Error, "limit-runs: 2"):
				t.Errorf("%d %+v", status, a)
			}
		})
	}
	wg.Wait()
	if len(ids) != 2 {
		t.Fatalf("%d runs were accepted, the limit is 2", len(ids))
	}
	res, err := g.connect(acme, "2025-11-25").CallTool(t.Context(), &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": "1"}})
	if err != nil || !res.IsError || !strings.Contains(res.Content[0].(*sdk.TextContent).Text, "over the limit of runs queued or running (limit-runs: 2, 2 in use); try again in 2 s") {
		t.Errorf("run_js at the limit: %+v, %v", res, err)
	}
	status, first := submit(other, `{"code":"console.log('x'.repeat(2000))"}`, "Idempotency-Key", "k")
	if status != http.StatusAccepted {
		t.Fatalf("another tenant at the limit of the first: %d %+v", status, first)
	}
	g.ask(other, http.MethodGet, "/api/executions/"+first.ID+"?wait=60", "")
	if status, a := submit(other, `{"code":"1"}`); status != http.StatusTooManyRequests || !strings.Contains(a.Error, "limit-output-bytes: 1000, 2001 in use); it does not reset") {
		t.Errorf("after 2,001 bytes of output: %d %+v", status, a)
	}
	if status, a := submit(other, `{"code":"console.log('x'.repeat(2000))"}`, "Idempotency-Key", "k"); status != http.StatusAccepted || a.ID != first.ID {
		t.Errorf("a repeated submission: %d %+v", status, a)
	}
	tags := "/api/heaps/" + events.Hash(nil) + "/tags"
	if status, text := g.ask(other, http.MethodPut, tags, `{"tags":{"a":"b"}}`); status != http.StatusTooManyRequests || !strings.Contains(text, "limit-heap-bytes: 1") {
		t.Errorf("tags of a tenant whose heaps are over the limit: %d %s", status, text)
	}
	for tenant, body := range map[string]string{other: `{"tags":{}}`, acme: `{"tags":{"a":"b"}}`} {
		if status, text := g.ask(tenant, http.MethodPut, tags, body); status != http.StatusOK {
			t.Errorf("tags %s: %d %s", body, status, text)
		}
	}
	for _, id := range ids {
		if status, text := g.ask(acme, http.MethodPost, "/api/executions/"+id+"/cancel", ""); status != http.StatusOK {
			t.Errorf("cancel: %d %s", status, text)
		}
		g.ask(acme, http.MethodGet, "/api/executions/"+id+"?wait=60", "")
	}
	if status, a := submit(acme, `{"code":"1"}`); status != http.StatusAccepted {
		t.Errorf("after all runs have ended: %d %+v", status, a)
	}
	// The embedding program receives an error of package ledger.
	for range 2 {
		submit(g.admin, forever)
	}
	d := embed.Script{Code: "await new Promise(() => setTimeout(() => {}, 1e9))"}
	submitOwn := func() error { _, err := g.book.Submit(t.Context(), d); return err }
	if err := errors.Join(submitOwn(), submitOwn()); err != nil {
		t.Fatal(err)
	}
	if err := submitOwn(); ledger.CodeOf(err) != ledger.CodeExhausted {
		t.Errorf("got %v", err)
	}
}

// While the token file cannot be read, a revocation may be ignored: /readyz reports it.
func TestUnreadableTokens(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, embed.Options{})
	g.await(g.admin)
	if status, text := g.ask("", http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if err := os.Chmod(g.file, 0o644); err != nil {
		t.Fatal(err)
	}
	for ctx := within(t); ; {
		status, text := g.ask(g.admin, http.MethodGet, "/readyz", "")
		if status == http.StatusServiceUnavailable && strings.Contains(text, "chmod 600") {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d %s", status, text)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if status, text := g.ask("", http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable || strings.Contains(text, g.file) {
		t.Errorf("without a token: %d %s", status, text)
	}
}

func TestStartRefusesAccess(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string]embed.Options{
		"no authentication is configured": {HTTP: embed.HTTPOptions{Addr: "0.0.0.0:0"}},
		"there is no token file":          {Access: embed.AccessOptions{TokenFile: filepath.Join(t.TempDir(), "none")}},
		"OIDC needs an audience":          {Access: embed.AccessOptions{OIDC: embed.OIDC{Issuer: "https://login.example.com"}}},
		"HTTP.CertFile and HTTP.KeyFile":  {HTTP: embed.HTTPOptions{CertFile: "x"}},
		"PublicURL":                       {HTTP: embed.HTTPOptions{PublicURL: "book.example.com"}},
		"Access.Limits.Runs is -1":        {Access: embed.AccessOptions{Limits: embed.Limits{Runs: -1}}},
	} {
		opts.DataDir, opts.NATS.NoSync, opts.Runs.Elsewhere = t.TempDir(), true, true
		book, err := embed.Start(within(t), opts)
		if err == nil {
			closeBook(t, book)
		}
		wantError(t, err, want)
	}
}

// certificate writes a new self-signed certificate for 127.0.0.1.
func certificate(t *testing.T, certFile, keyFile, name string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool
}

// The server uses a replaced certificate without a restart.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := certificate(t, certFile, keyFile, "first")
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0", CertFile: certFile, KeyFile: keyFile}, Runs: embed.RunOptions{Elsewhere: true}})
	if !strings.HasPrefix(book.URL(), "https://127.0.0.1:") {
		t.Fatalf("the URL is %s", book.URL())
	}
	get := func(pool *x509.CertPool) (string, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
		res, err := client.Get(book.URL() + "/healthz")
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK || res.TLS.Version < tls.VersionTLS12 {
			t.Errorf("%s, TLS version %x", res.Status, res.TLS.Version)
		}
		return res.TLS.PeerCertificates[0].Subject.CommonName, nil
	}
	if name, err := get(pool); err != nil || name != "first" {
		t.Fatalf("%s, %v", name, err)
	}
	if err := os.WriteFile(certFile, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	pool2 := certificate(t, certFile, keyFile, "second")
	for ctx := within(t); ; {
		if name, err := get(pool2); err == nil && name == "second" {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal("the new certificate is not served")
		case <-time.After(50 * time.Millisecond):
		}
	}
	if _, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool2, MaxVersion: tls.VersionTLS11}}).DialContext(t.Context(), "tcp", strings.TrimPrefix(book.URL(), "https://")); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
}
