package attack_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespace is the variable that is set in a process that runs a test in its own mount
// namespace.
const inNamespace = "DAYBOOK_TEST_MOUNTS"

// withMounts runs the test again in a process with its own mount namespace, and reports
// whether this is that process.
func withMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small disk")
	}
	if out, err := exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", t.TempDir()).CombinedOutput(); err != nil {
		t.Skipf("mounting a small disk is not permitted here: %v: %s", err, out)
	}
	cmd := exec.Command("unshare", "-m", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-attack="+*attackSize)
	bin, err := buildDaybook()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), inNamespace+"=1", builtVariable+"="+bin)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("the test in its own mount namespace: %v", err)
	}
	return false
}

// A disk that becomes full under load loses no acknowledged event. Writes are refused
// with a reason, reads continue, and the same process accepts writes once there is space.
// A server that is started on the full disk does the same.
func TestFullDisk(t *testing.T) {
	attack(t, "TestADiskWithoutRoom, TestDisk and TestRunningServerKeepsItsBallast in embed, TestOpenWithoutSpace in projections, TestReopen in internal/store/natsserver")
	runInParallel(t)
	if !withMounts(t) {
		return
	}
	t.Run("reserve", func(t *testing.T) { fillDisk(t, true) })
	t.Run("no reserve", func(t *testing.T) { fillDisk(t, false, "--disk-reserve=0") })
}

func fillDisk(t *testing.T, reserve bool, flags ...string) {
	s := newServer(t, flags...)
	if err := unix.Mount("tmpfs", s.dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end(syscall.SIGKILL); unix.Unmount(s.dir, unix.MNT_DETACH) })
	s.makeCommonTokens() // on this disk
	l := &load{s: s, token: s.token("alone", "read,run"), acknowledged: map[string]string{}}
	s.start()
	l.run(t, 5)

	// The disk fills while runs are submitted.
	junk := filepath.Join(s.dir, "junk")
	var writing sync.WaitGroup
	writing.Go(func() {
		f, err := os.Create(junk)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for block := make([]byte, 256<<10); len(block) > 0; {
			if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
				block = block[:len(block)/2] // to fill the last bytes
			} else if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(5 * time.Millisecond) // one or two seconds in total
		}
	})
	l.untilRefused(t)
	writing.Wait()
	l.untilRefused(t) // until the space that the ledger had allocated is used up
	known := l.known()
	refusedReady(t, s, l.token)
	if reserve { // without a reserve, the newest events may be recorded but not applied
		l.check(t, known)
	}

	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	l.untilAccepted(t)
	l.run(t, 5)
	l.check(t, l.known())

	if reserve {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			startFull(t, s, l, sig)
		}
	}
	s.end(syscall.SIGTERM)
	if !s.cmd.ProcessState.Success() {
		t.Errorf("the server ended with %v:\n%s", s.cmd.ProcessState, s.log.String())
	}
	for _, word := range []string{"--accept-damage", "is damaged", "restore the data", "panic"} {
		if log := s.log.String(); strings.Contains(log, word) {
			t.Errorf("the log contains %q:\n%.4000s", word, log)
		}
	}
	s.verifyLedger(0)
	s.start()
	l.check(t, l.known())
}

// startFull fills the disk of a server and ends the server with a signal. It requires that
// the server can start on the full disk repeatedly, and accepts writes without a restart
// once there is space.
func startFull(t *testing.T, s *server, l *load, sig syscall.Signal) {
	// The running server notices the full disk, and keeps the ballast for the next start.
	const ballast, noticed = "ballast", "no new runs are accepted"
	waitUntil(t, "the ballast exists", func() bool { _, err := os.Stat(filepath.Join(s.dir, ballast)); return err == nil })
	before := strings.Count(s.log.String(), noticed)
	junk := []string{filepath.Join(s.dir, "junk")}
	l.fill(t, junk[0])
	waitUntil(t, "the server has noticed the full disk", func() bool { return strings.Count(s.log.String(), noticed) > before })
	refusedReady(t, s, l.token)
	l.untilRefused(t)
	if _, err := os.Stat(filepath.Join(s.dir, ballast)); err != nil {
		t.Errorf("the running server released the space for its start: %v", err)
	}
	for n := range 3 {
		if n > 0 { // a stop by SIGTERM waits 5 s for the signature of the last events
			sig = choose(syscall.SIGKILL, sig)
		}
		s.end(sig)
		// Another program may have used the space of the ballast: no byte is free. After
		// the first start on the full disk there is no ballast.
		if err := os.Remove(filepath.Join(s.dir, ballast)); n > 0 && err == nil {
			t.Errorf("%v, start %d: the ballast exists", sig, n)
		}
		junk = append(junk, filepath.Join(s.dir, fmt.Sprintf("junk%d", n)))
		l.fill(t, junk[len(junk)-1])
		s.launch()
		l.untilRefused(t)
		refusedReady(t, s, l.token)
		l.check(t, l.known())
		// The start may free enough of the projections' log to be ready with space, and
		// notice later that the disk is full.
		waitUntil(t, "the log says that the disk is full", func() bool {
			log := s.log.String()
			return saysFull(log) && (strings.Contains(log, "READ-ONLY for now") || strings.Contains(log, noticed))
		})
		if log := s.log.String(); strings.Contains(log, "delete the file") || strings.Contains(log, "restore the data") {
			t.Errorf("%v, start %d: the log advises to repair the ledger:\n%s", sig, n+1, log)
		}
	}
	for _, name := range junk {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	l.untilAccepted(t)
	l.run(t, 5)
	l.check(t, l.known())
}

// waitUntil polls another process until a condition holds.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true within 20 s: %s", what)
		}
	}
}

// load submits runs and stores the acknowledged ones.
type load struct {
	s     *server
	token string

	mu           sync.Mutex
	n            int
	acknowledged map[string]string // results by execution
}

// submit requests a run, and returns the status and the body of the answer.
func (l *load) submit(t *testing.T) (status int, body string, header http.Header) {
	t.Helper()
	l.mu.Lock()
	l.n++
	n := l.n
	l.mu.Unlock()
	code := fmt.Sprintf("console.log('x'.repeat(20000)); %d", n)
	resp, err := l.s.do(t.Context(), l.token, http.MethodPost, "/api/exec", map[string]any{"code": code})
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	if resp.StatusCode == http.StatusAccepted {
		var answer struct {
			ID string `json:"execution_id"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		l.acknowledged[answer.ID] = fmt.Sprint(n)
		l.mu.Unlock()
	}
	return resp.StatusCode, string(raw), resp.Header
}

func (l *load) known() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := map[string]string{}
	for id, result := range l.acknowledged {
		known[id] = result
	}
	return known
}

// run submits runs, which must be accepted and end.
func (l *load) run(t *testing.T, n int) {
	t.Helper()
	for range n {
		if status, body, _ := l.submit(t); status != http.StatusAccepted {
			t.Fatalf("a run is answered %d: %.400s", status, body)
		}
	}
	l.s.probe(l.token, 1)
}

// untilRefused submits runs until three in a row are refused with the right answer.
func (l *load) untilRefused(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for refused := 0; refused < 3; time.Sleep(choose(10*time.Millisecond, 2*time.Millisecond)) {
		status, body, header := l.submit(t)
		switch {
		case status == http.StatusAccepted, status == 0: // the disk is not full yet, or the server does not serve yet
			refused = 0
		case status != http.StatusServiceUnavailable || !saysFull(body) || header.Get("Retry-After") != "10":
			t.Fatalf("a run on a full disk is answered %d, Retry-After %q: %.400s", status, header.Get("Retry-After"), body)
		default:
			refused++
		}
		if time.Now().After(deadline) || l.s.exited() {
			t.Fatalf("runs are not refused: %d %.400s\n%s", status, body, l.s.log.String())
		}
	}
}

// untilAccepted submits runs until one is accepted, without a restart of the server.
func (l *load) untilAccepted(t *testing.T) {
	t.Helper()
	began := time.Now()
	for {
		status, body, _ := l.submit(t)
		if status == http.StatusAccepted {
			if resp, err := http.Get(l.s.url() + "/readyz"); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					t.Logf("runs are accepted %v after there was space", time.Since(began))
					return
				}
			}
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("with space again, a run is answered %d: %.400s\n%s", status, body, l.s.log.String())
		}
		time.Sleep(20 * time.Millisecond) // polls another process
	}
}

// check requires that every acknowledged run is recorded, and has its result once it has
// ended.
func (l *load) check(t *testing.T, known map[string]string) {
	t.Helper()
	for id, result := range known {
		e := l.s.call(l.token, http.MethodGet, "/api/executions/"+id, nil, http.StatusOK)
		if e["status"] != "running" && (e["status"] != "completed" || e["result"] != result) {
			t.Errorf("an acknowledged run is %v with the result %v (%v), want %s", e["status"], e["result"], e["error"], result)
		}
	}
	t.Logf("%d acknowledged runs are recorded", len(known))
}

// fill uses all free space of the disk.
func (l *load) fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// saysFull reports whether a text names a full disk, or free space below the reserve.
func saysFull(text string) bool {
	return strings.Contains(text, "the disk is full") || strings.Contains(text, "too little of the disk is free")
}

// refusedReady requires that /readyz answers 503 with the full disk as the reason.
func refusedReady(t *testing.T, s *server, token string) {
	t.Helper()
	resp, err := s.do(t.Context(), token, http.MethodGet, "/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusServiceUnavailable || !saysFull(string(raw)) {
		t.Errorf("/readyz answers %s: %s, %v", resp.Status, raw, err)
	}
}
