package attack_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// slowReader opens a connection that requests a path and reads nothing of the answer. Its
// receive buffer is small, so that the server has to wait.
func (s *server) slowReader(token, path, accept string) (net.Conn, error) {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		return conn, err
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nAuthorization: Bearer %s\r\n\r\n", path, s.addr, accept, token)
	return conn, err
}

// slowReaders opens many slow readers and returns the largest memory of the server above
// the idle level within a time, and the number of readers by the start of their answers.
func (s *server) slowReaders(token, path, accept string, readers int, idle int64, watch time.Duration) (grown int64, answers map[string]int) {
	s.t.Helper()
	stop := s.peak()
	var opening sync.WaitGroup
	conns := make(chan net.Conn, readers)
	for range readers {
		opening.Go(func() {
			conn, err := s.slowReader(token, path, accept)
			if conn != nil {
				s.t.Cleanup(func() { conn.Close() })
			}
			if err != nil {
				s.t.Errorf("open a slow reader: %v", err)
				return
			}
			conns <- conn
		})
	}
	opening.Wait()
	close(conns)
	time.Sleep(watch) // lets memory grow; there is no event to wait for
	grown, answers = stop()-idle, map[string]int{}
	for conn := range conns {
		answers[startOfAnswer(conn)]++
	}
	return grown, answers
}

// startOfAnswer reads the version and the status of the answer on a connection. It returns
// another text if no answer has arrived.
func startOfAnswer(conn net.Conn) string {
	start := make([]byte, len("HTTP/1.1 200"))
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		return err.Error()
	}
	if _, err := io.ReadFull(conn, start); err != nil {
		return "nothing"
	}
	return string(start)
}

// largeHeapCode is a script that leaves a heap of many arrays of 1,048,576 elements.
func largeHeapCode(arrays int) string {
	return fmt.Sprintf("globalThis.kept = []; for (let i = 0; i < %d; i++) kept.push(new Array(1 << 20).fill(i)); kept.length", arrays)
}

// largeHeapArrays is the number of arrays in the heap of largeHeap.
func largeHeapArrays() int { return choose(32, 56) }

// largeHeap leaves a heap that is large in memory and small on disk, and returns its
// hash and size.
func (s *server) largeHeap(token string) (hash string, size int64) {
	s.t.Helper()
	e := s.run(token, largeHeapCode(largeHeapArrays()), map[string]any{"heap_memory_max_mb": 256, "execution_timeout_secs": 60})
	if e["status"] != "completed" {
		s.t.Fatalf("the run with a large heap: %v", e)
	}
	hash = e["heap"].(string)
	// The size is the largest number in the answer.
	for _, h := range s.call(token, http.MethodGet, "/api/heaps/"+hash, nil, http.StatusOK) {
		if n, ok := h.(float64); ok && int64(n) > size {
			size = int64(n)
		}
	}
	return hash, size
}

// The memory of the server stays within its limit while many slow readers read a heap that
// is far larger in memory than on disk. Another tenant's runs are answered, and a further
// reader gets the heap or a refusal with a Retry-After.
func TestSlowReadersOfHeaps(t *testing.T) {
	attack(t, "budget and heaps in pieces in internal/resources/budget, internal/store/blobs and httpapi")
	s := startServer(t)
	attacker, quiet := s.token("attacker", "read,run"), s.token("quiet", "read,run")
	alone := s.baseline(quiet)
	idle := s.memory()
	stop := s.peak()
	hash, size := s.largeHeap(attacker)
	if made := stop() - idle; made > maxGrowth {
		t.Errorf("the run that left the heap used %d MiB more, the limit is %d", made>>20, int64(maxGrowth)>>20)
	} else {
		t.Logf("the run that left the heap: %d MiB more", made>>20)
	}
	path := "/api/ledger/blobs/heaps/" + hash
	grown, answers := s.slowReaders(attacker, path, "*/*", choose(60, 200), idle, choose(3*time.Second, 20*time.Second))
	t.Logf("a heap of %d MB; idle %d MiB, %d MiB more with slow readers, which got %v", size/1e6, idle>>20, grown>>20, answers)
	if answers["HTTP/1.1 200"] == 0 {
		t.Errorf("no slow reader got an answer: %v", answers)
	}
	if grown > maxGrowth {
		t.Errorf("the server used %d MiB more, the limit is %d", grown>>20, int64(maxGrowth)>>20)
	}
	s.compare("slow readers of a heap", alone, s.probe(quiet, probes()))

	resp := s.open(t.Context(), attacker, path, "*/*")
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		sum := sha256.New()
		n, err := io.Copy(sum, resp.Body)
		if got := hex.EncodeToString(sum.Sum(nil)); err != nil || got != hash {
			t.Errorf("a further reader got %d bytes with the hash %s, %v", n, got, err)
		}
	case http.StatusServiceUnavailable:
		if resp.Header.Get("Retry-After") == "" {
			t.Error("a further reader is refused without Retry-After")
		}
	default:
		t.Errorf("a further reader: %s", resp.Status)
	}
}

// A heap that is read at full speed arrives complete.
func TestLargeHeapArrives(t *testing.T) {
	attack(t, "heaps in pieces in httpapi")
	runInParallel(t)
	s := startServer(t)
	token := s.token("reader", "read,run")
	hash, _ := s.largeHeap(token)
	idle, stop := s.memory(), s.peak()
	resp := s.open(t.Context(), token, "/api/ledger/blobs/heaps/"+hash, "*/*")
	defer resp.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, resp.Body)
	grown := stop() - idle
	if got := hex.EncodeToString(sum.Sum(nil)); err != nil || got != hash || n != resp.ContentLength {
		t.Errorf("%d of %d bytes with the hash %s, %v", n, resp.ContentLength, got, err)
	}
	t.Logf("%d MB with %d MiB of memory", n/1e6, grown>>20)
	if grown > 100<<20 { // the heap, encoded and decoded, would take more
		t.Errorf("one reader takes %d MiB", grown>>20)
	}
}

// Runs that restore and save a large heap at the same time get the memory for it one after
// the other. All of them end, and the memory of the server stays within its limit.
func TestRunsWithLargeHeaps(t *testing.T) {
	attack(t, "budget in internal/resources/budget and runner")
	runInParallel(t)
	s := startServer(t)
	attacker, quiet := s.token("attacker", "read,run"), s.token("quiet", "read,run")
	s.probe(quiet, 5)
	idle := s.memory()
	hash, size := s.largeHeap(attacker)
	stop := s.peak()
	var ids []string
	for i := range choose(4, 12) {
		ids = append(ids, s.submit(attacker, fmt.Sprintf("kept.length + %d", i), map[string]any{"heap": hash, "heap_memory_max_mb": 256, "execution_timeout_secs": 120}))
	}
	for i, id := range ids {
		e := s.wait(attacker, id)
		if want := fmt.Sprint(largeHeapArrays() + i); e["status"] != "completed" || e["result"] != want {
			t.Errorf("a run with a large heap: %v, %v, result %v, want %s", e["status"], e["error"], e["result"], want)
		}
		if left, _ := e["heap"].(string); left == "" {
			t.Error("a run with a large heap has not saved it")
		}
	}
	grown := stop() - idle
	t.Logf("%d runs with a heap of %d MB: %d MiB more", len(ids), size/1e6, grown>>20)
	if grown > maxGrowth {
		t.Errorf("the server used %d MiB more, the limit is %d", grown>>20, int64(maxGrowth)>>20)
	}
}
