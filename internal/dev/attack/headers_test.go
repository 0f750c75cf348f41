package attack_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// headerGrowth bounds the memory of the connections of this attack, in bytes.
func headerGrowth() int64 { return choose[int64](100, 200) << 20 }

// Request headers with many fields take little memory, while the request is unfinished,
// waits for its body without a token, or waits for the end of a run. Refused requests are
// answered before their body has arrived.
func TestHeaders(t *testing.T) {
	attack(t, "TestFraming, TestHeaderLines and TestAnswerBeforeBody in internal/web/connections")
	s := startServer(t, "--limit-connections=4000")
	quiet, reader := s.token("alone", "read,run"), s.token("reader", "read,run")
	alone := s.baseline(quiet)
	id := s.submit(reader, "await new Promise(() => setTimeout(() => {}, 250000))", map[string]any{"execution_timeout_secs": 300})

	const host = "Host: localhost\r\n"
	many, largest := fieldLines(10_100, 0), fieldLines(120, 16<<10)
	post := "POST /api/exec HTTP/1.1\r\n" + host + "Content-Type: text/plain\r\nContent-Length: 200000\r\n"
	wait := "GET /api/executions/" + id + "?wait=60 HTTP/1.1\r\n" + host + "Authorization: Bearer " + reader + "\r\n"
	for _, a := range []struct {
		name, request string
		answers       int // status; 0 for none
	}{
		{"bodies without a token and with many fields", post + many + "\r\n", http.StatusRequestHeaderFieldsTooLarge},
		{"bodies without a token and with large headers", post + largest + "\r\n", http.StatusUnauthorized},
		{"waiting reads with many fields", wait + many + "\r\n", http.StatusRequestHeaderFieldsTooLarge},
		{"waiting reads with large headers", wait + largest + "\r\n", 0},
		{"unfinished headers with many fields", wait + many, http.StatusRequestHeaderFieldsTooLarge},
		{"unfinished headers with a large field", wait + "X: " + strings.Repeat("a", 62_000), http.StatusRequestHeaderFieldsTooLarge},
		{"unfinished headers", wait + largest, 0},
	} {
		idle, peak := s.memory(), s.peak()
		conns := make([]net.Conn, choose(400, 1500))
		for i := range conns {
			c, err := net.DialTimeout("tcp", s.addr, 30*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(time.Minute))
			io.WriteString(c, a.request) // a server that refuses the request may close meanwhile
			conns[i] = c
		}
		if a.answers != 0 {
			began := time.Now()
			for i, c := range conns {
				c.SetReadDeadline(began.Add(15 * time.Second))
				if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != a.answers {
					t.Errorf("%s: answer %d is %v, %v, want status %d", a.name, i, resp, err, a.answers)
					break
				}
			}
			if took := time.Since(began); took > slack(time.Second) {
				t.Errorf("%s: the answers took %v", a.name, took)
			}
		}
		took := s.probe(quiet, choose(10, 100))
		grown := peak() - idle
		t.Logf("%d %s: %d MiB above %d MiB", len(conns), a.name, grown>>20, idle>>20)
		if grown > headerGrowth() {
			t.Errorf("%d %s take %d MiB", len(conns), a.name, grown>>20)
		}
		s.compare(a.name, alone, took)
		closeAll(conns)
	}
}

// fieldLines returns a number of distinct header fields with a total size in bytes.
// Values may be empty.
func fieldLines(n, size int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.FormatInt(36*36+int64(i), 36) + ":") // three characters
		b.WriteString(strings.Repeat("v", max(0, size*(i+1)/n-b.Len()-2)))
		b.WriteString("\r\n")
	}
	return b.String()
}
