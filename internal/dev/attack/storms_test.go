package attack_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stormer is a client that repeats changes as fast as it can and counts the answers.
type stormer struct {
	s     *server
	token string
	// answers is the number of answers by change and status.
	answers map[string]int
}

// send sends a request and returns the answer. Success, 404, 409 and 429 with a Retry-After
// are expected; another status fails the test.
func (c *stormer) send(change, method, path string, body any) string {
	resp, err := c.s.do(c.s.t.Context(), c.token, method, path, body)
	if err != nil {
		c.s.t.Errorf("%s: %v", change, err)
		return ""
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.s.t.Errorf("%s: read the answer: %v", change, err)
		return ""
	}
	key := fmt.Sprintf("%s %d", change, resp.StatusCode)
	c.answers[key]++
	switch status := resp.StatusCode; {
	case status >= 200 && status < 300, status == http.StatusNotFound, status == http.StatusConflict:
	case status == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "":
	case c.answers[key] == 1: // report once for each client
		c.s.t.Errorf("%s is answered %s: %.300s", change, resp.Status, raw)
	}
	return string(raw)
}

var executionID = regexp.MustCompile(`"execution_id":"([^"]+)"`)

// change makes one of the changes of a storm, which n selects. All clients change the
// session shared and the tags of heap. Only this client changes the session own and the
// tags of ownHeap. The edits of the tags of all these heaps have the same subject.
func (c *stormer) change(n int, shared, own, heap, ownHeap string) {
	reset := func(what, session string) {
		c.send("reset of "+what, http.MethodPost, "/api/sessions/"+url.PathEscape(session)+"/reset", nil)
	}
	tags := func(heap string) string { return "/api/heaps/" + heap + "/tags" }
	edit := map[string]any{"tags": map[string]string{"n": fmt.Sprint(n), "text": strings.Repeat("x", 500)}}
	switch n % 8 {
	case 0, 4:
		reset("a shared session", shared)
	case 1:
		reset("a session", own)
		reset("a session that does not exist", "no such session")
	case 2:
		c.send("tags of a shared heap", http.MethodPut, tags(heap), edit)
	case 3:
		c.send("tags of a heap", http.MethodPut, tags(ownHeap), edit)
	case 5:
		c.send("deleted tags of a shared heap", http.MethodDelete, tags(heap)+"?keys=n", nil)
	case 6:
		c.send("deleted tags of a heap", http.MethodDelete, tags(ownHeap), nil)
	case 7:
		answer := c.send("run", http.MethodPost, "/api/exec", map[string]any{"code": "for (;;);", "execution_timeout_secs": 5})
		id := executionID.FindStringSubmatch(answer)
		if id == nil {
			return
		}
		// Cancel the same run twice at the same time.
		path := "/api/executions/" + id[1] + "/cancel"
		second := stormer{c.s, c.token, map[string]int{}}
		var both sync.WaitGroup
		both.Go(func() { second.send("cancel", http.MethodPost, path, nil) })
		c.send("cancel", http.MethodPost, path, nil)
		both.Wait()
		for key, n := range second.answers {
			c.answers[key] += n
		}
	}
}

// Clients of a tenant change the same few sessions, heaps and runs as fast as they can.
// Their requests succeed or are refused with 429, and another tenant is not slower.
func TestStorms(t *testing.T) {
	attack(t, "TestContentionIsNoOutage and TestConcurrentCancels in ledger")
	s := startServer(t)
	loud, quiet := s.token("loud", "read,run"), s.token("quiet", "read,run")
	alone := s.baseline(quiet)
	idle := s.memory()

	const clients = 8
	open := func(intent string) string {
		in := map[string]any{"intent": intent, "seeds": []string{"builtin"}}
		return s.call(loud, http.MethodPost, "/api/logical-sessions", in, http.StatusOK)["session_id"].(string)
	}
	shared := open("shared")
	own := make([]string, clients)
	for i := range own {
		own[i] = open(fmt.Sprintf("own %d", i))
	}
	heap := s.run(loud, "1", nil)["heap"].(string)

	var over atomic.Bool // not a context: a change is completed, so that each run is cancelled
	list := make([]stormer, clients)
	var storm sync.WaitGroup
	for i := range list {
		list[i] = stormer{s, loud, map[string]int{}}
		ownHeap := heap[:2] + strings.Repeat(fmt.Sprintf("%x", i), len(heap)-2)
		storm.Go(func() {
			for n := i; !over.Load(); n++ {
				list[i].change(n, shared, own[i], heap, ownHeap)
			}
		})
	}
	peak := s.peak()
	beside := s.probe(quiet, choose(12, probes()))
	over.Store(true)
	storm.Wait()
	answers, done := map[string]int{}, 0
	for _, c := range list {
		for key, n := range c.answers {
			answers[key] += n
			done += n
		}
	}
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		t.Logf("%6d %s", answers[key], key)
	}
	if done < 10*clients {
		t.Errorf("the storm sent only %d requests", done)
	}
	s.compare("storms of changes", alone, beside)
	if grown := peak() - idle; grown > maxGrowth {
		t.Errorf("the server used %d MiB more than idle", grown>>20)
	}

	// The objects of the storm can still be changed, and no run is left.
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) { // polls another process
		left := s.call(loud, http.MethodGet, "/api/executions?status=running", nil, http.StatusOK)["executions"].([]any)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d runs are left, the first is %v", len(left), left[0])
		}
	}
	s.call(loud, http.MethodPost, "/api/sessions/"+shared+"/reset", nil, http.StatusOK)
	if e := s.run(loud, "1", map[string]any{"logical_session": shared}); e["status"] != "completed" {
		t.Errorf("a turn after the storm answers %v", e)
	}
	want := map[string]string{"after": "storm"}
	s.call(loud, http.MethodPut, "/api/heaps/"+heap+"/tags", map[string]any{"tags": want}, http.StatusOK)
}
