package attack_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Streams is the number of streams that a connection may open.
const http2Streams = 100

// HTTP/2 connections take little memory for hostile frames: many streams with large
// headers whose answers have no window, headers without end, streams that are reset at
// once, and frames with answers that the client does not read.
func TestHTTP2(t *testing.T) {
	attack(t, "TestFrames, TestStreams, TestResets and TestUnreadAnswers in internal/web/connections")
	s := newServer(t)
	s.certify(t)
	s.start()
	quiet, reader := s.token("alone", "read,run"), s.token("reader", "read,run")
	alone := s.baseline(quiet)
	id := s.submit(reader, "await new Promise(() => setTimeout(() => {}, 250000))", map[string]any{"execution_timeout_secs": 300})

	first := s.memory()
	get := func(path string, fields ...hpack.HeaderField) []hpack.HeaderField {
		return append([]hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"},
			{Name: ":authority", Value: s.addr}, {Name: ":path", Value: path}}, fields...)
	}
	wait := append(get("/api/executions/"+id+"?wait=60"), hpack.HeaderField{Name: "authorization", Value: "Bearer " + reader})
	unread := []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}
	streams := func(header []hpack.HeaderField) func(*http2Client) {
		return func(c *http2Client) {
			for range http2Streams {
				c.request(header)
			}
		}
	}
	for _, a := range []struct {
		name     string
		settings []http2.Setting
		silent   bool // the client reads nothing
		flood    bool // uses processor time, some of which each connection gets without a wait
		send     func(*http2Client)
	}{
		{"requests with many fields", unread, false, false, streams(get("/api/executions", http2Fields(560, 0)...))},
		{"requests with too large headers", unread, false, false, streams(get("/api/executions", http2Fields(570, 20<<10)...))},
		{"requests without a token", unread, false, false, streams(get("/api/executions", http2Fields(110, 15<<10)...))},
		{"requests that wait", nil, false, false, streams(append(wait, http2Fields(110, 14<<10)...))},
		{"headers without end", nil, false, false, func(c *http2Client) {
			c.frame(&http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(wait)})
			for range 10_000 {
				c.framer.WriteContinuation(1, false, nil)
			}
		}},
		{"requests behind a malformed one", unread, false, false, func(c *http2Client) {
			c.frame(&http2.HeadersFrameParam{StreamID: 1<<31 - 1, BlockFragment: c.encode([]hpack.HeaderField{{Name: ":none"}}), EndHeaders: true})
			streams(get("/api/executions", http2Fields(110, 15<<10)...))(c)
		}},
		{"streams that are reset", nil, false, true, func(c *http2Client) {
			header := append(wait, http2Fields(110, 14<<10)...)
			end := time.Now().Add(4 * time.Second)
			c.SetWriteDeadline(end) // ends the loop if the server stops reading
			for time.Now().Before(end) && c.err == nil {
				c.reset(c.request(header))
			}
		}},
		{"frames without progress", nil, false, true, func(c *http2Client) {
			end := time.Now().Add(4 * time.Second)
			c.SetWriteDeadline(end)
			for time.Now().Before(end) && c.framer.WriteWindowUpdate(0, 1) == nil {
				c.err = c.framer.WriteRawFrame(0xfa, 0, 0, nil)
			}
		}},
		{"pings to a client that does not read", nil, true, true, func(c *http2Client) {
			for range 60_000 {
				if c.framer.WritePing(false, [8]byte{}) != nil {
					return
				}
			}
		}},
	} {
		t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
			idle, peak, cpu := s.memory(), s.peak(), s.cpu()
			clients := make([]*http2Client, choose(250, 1000))
			var sending sync.WaitGroup
			for i := range clients {
				clients[i] = s.dialHTTP2(t, a.settings, a.silent)
			}
			for _, c := range clients {
				sending.Go(func() {
					a.send(c)
					c.out.Flush()
				})
			}
			sending.Wait()
			time.Sleep(time.Second) // lets memory grow; there is no event to wait for
			grown := peak() - idle
			t.Logf("%d connections with %s: %d MiB above %d MiB, %v of the processors", len(clients), a.name, grown>>20, idle>>20, s.cpu()-cpu)
			if total := grown + idle - first; grown > choose[int64](300, 600)<<20 || total > maxGrowth {
				t.Errorf("%d connections with %s take %d MiB, all attacks so far %d MiB", len(clients), a.name, grown>>20, total>>20)
			}
			took := s.probe(quiet, choose(10, 100))
			if a.flood {
				t.Logf("a quiet tenant beside %s: p50 %v, p99 %v", a.name, percentile(took, 50), percentile(took, 99))
			} else {
				s.compare(a.name, alone, took)
			}
			for _, c := range clients {
				c.Close()
			}
		})
	}
}

// http2Client is a connection that sends frames.
type http2Client struct {
	net.Conn
	out    *bufio.Writer
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	next   uint32 // stream
	err    error
}

// dialHTTP2 opens a connection. The client discards the answers, or does not read them.
func (s *server) dialHTTP2(t *testing.T, settings []http2.Setting, silent bool) *http2Client {
	t.Helper()
	plain, err := net.DialTimeout("tcp", s.addr, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if silent {
		plain.(*net.TCPConn).SetReadBuffer(4 << 10) // writes of the server soon block
	}
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	t.Cleanup(func() { plain.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	c := &http2Client{Conn: plain, out: bufio.NewWriterSize(conn, 16<<10), next: 1}
	c.framer = http2.NewFramer(c.out, nil)
	c.hpack = hpack.NewEncoder(&c.block)
	c.hpack.SetMaxDynamicTableSize(0) // the server allocates the text of each field again
	io.WriteString(c.out, http2.ClientPreface)
	c.framer.WriteSettings(settings...)
	c.out.Flush() // later writes fail if the server has closed
	if !silent {
		go io.Copy(io.Discard, conn)
	}
	return c
}

func (c *http2Client) encode(header []hpack.HeaderField) []byte {
	c.block.Reset()
	for _, f := range header {
		c.hpack.WriteField(f)
	}
	return c.block.Bytes()
}

// request opens a stream with a request.
func (c *http2Client) request(header []hpack.HeaderField) (stream uint32) {
	stream = c.next
	c.next += 2
	block := c.encode(header)
	first := block[:min(len(block), 16<<10)]
	c.frame(&http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: true, EndHeaders: len(first) == len(block)})
	if rest := block[len(first):]; len(rest) > 0 {
		c.framer.WriteContinuation(stream, true, rest)
	}
	return stream
}

func (c *http2Client) frame(p *http2.HeadersFrameParam) { c.err = c.framer.WriteHeaders(*p) }

func (c *http2Client) reset(stream uint32) {
	if err := c.framer.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
		c.err = err
	}
}

// http2Fields returns a number of distinct header fields with a total size in bytes.
// Values may be empty.
func http2Fields(n, size int) []hpack.HeaderField {
	list := make([]hpack.HeaderField, n)
	for i := range list {
		list[i] = hpack.HeaderField{Name: fmt.Sprintf("%03d", i), Value: strings.Repeat("v", max(0, size/n-3))}
	}
	return list
}

// certify gives a server that is not started a certificate for TLS.
func (s *server) certify(t *testing.T) {
	t.Helper()
	cert, key := filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
	writeCertificate(t, cert, key)
	s.secure, s.flags = true, append(s.flags, "--tls-cert="+cert, "--tls-key="+key)
}

// writeCertificate writes a certificate that clients do not verify.
func writeCertificate(t *testing.T, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
