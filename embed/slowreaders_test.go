package embed_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"daybook/embed"
)

// slowReader requests a path, as often as told on one connection, and reads the beginning of the first answer only. Its
// receive buffer is small, so that the server has to wait.
func slowReader(t *testing.T, book *embed.Daybook, path string, times int) *bufio.Reader {
	t.Helper()
	addr := strings.TrimPrefix(book.URL(), "http://")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	requests := strings.Repeat(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr), times)
	if _, err := conn.Write([]byte(requests)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReaderSize(conn, 16)
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
		t.Fatalf("%s: %q, %v", path, line, err)
	}
	return in
}

// Clients that request exports and tiles and read nothing stop no run, no signature, no shredding, no sealing and no
// tile of others, and not the end of the process. The ledger that is left is intact.
func TestSlowReadersOfProofsStopNothing(t *testing.T) {
	t.Parallel()
	opts := embed.Options{
		DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Runs: embed.RunOptions{DrainWait: 100 * time.Millisecond},
		Content: embed.ContentOptions{Erasable: true}, NATS: embed.NATSOptions{NoSync: true},
	}
	book := start(t, opts)
	key := book.AuditKey()
	// More than the buffers of a connection hold; in ciphertext, which cannot be compressed.
	completes(t, book, embed.Script{Session: "large", Code: "for (let i = 0; i < 8_000; i++) console.log('x'.repeat(1023)); 1"})
	for i := range 64 {
		completes(t, book, embed.Script{Code: fmt.Sprint(i)})
	}
	ask(t, book, http.MethodPost, "/api/ledger/checkpoint", http.StatusOK, nil)
	for range 3 {
		slowReader(t, book, "/api/ledger/export", 1)
		slowReader(t, book, "/api/ledger/export?from=2", 1)
		slowReader(t, book, "/api/ledger/tile/entries/000", 100)
		slowReader(t, book, "/api/ledger/tile/0/000", 1000)
	}
	if result, _ := completes(t, book, embed.Script{Code: "1 + 1"}); result != "2" {
		t.Errorf("a run gives %s", result)
	}
	ask(t, book, http.MethodPost, "/api/ledger/checkpoint", http.StatusOK, nil)
	asked(t, book, "/api/ledger/checkpoint")
	asked(t, book, "/api/ledger/tile/entries/000")
	ask(t, book, http.MethodDelete, "/api/sessions/large/content", http.StatusOK, nil)
	ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, nil)
	closeBook(t, book)
	r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}})
	if err != nil || !r.OK || !r.Complete || r.Unsigned != 0 {
		t.Errorf("%v\n%s", err, r)
	}
}

// asked requests a path that must be answered.
func asked(t *testing.T, book *embed.Daybook, path string) {
	t.Helper()
	resp, err := http.Get(book.URL() + path)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %s", path, resp.Status)
	}
}
