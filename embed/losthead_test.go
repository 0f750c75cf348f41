package embed_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// sessionBook is a Daybook with a logical session.
type sessionBook struct {
	*embed.Daybook
	t    *testing.T
	base string
	id   string
}

func inSession(t *testing.T, book *embed.Daybook) *sessionBook {
	t.Helper()
	s := &sessionBook{Daybook: book, t: t, base: book.URL()}
	s.id = s.open().SessionID
	return s
}

type openAnswer struct {
	SessionID      string `json:"session_id"`
	New            bool
	Broken         *string
	StateLost      bool `json:"state_lost"`
	NewSymbolSpace bool `json:"new_symbol_space"`
}

func (s *sessionBook) open() (a openAnswer) {
	s.t.Helper()
	body := map[string]any{"intent": "keeps a heap", "seeds": []string{"builtin.console"}}
	if status, raw := call(s.t, http.MethodPost, s.base+"/api/logical-sessions", body, &a); status != http.StatusOK {
		s.t.Fatalf("open: %d: %s", status, raw)
	}
	return a
}

func (s *sessionBook) submit(code string) (execution string) {
	s.t.Helper()
	var accepted struct {
		ExecutionID string `json:"execution_id"`
	}
	body := map[string]any{"code": code, "logical_session": s.id}
	if status, raw := call(s.t, http.MethodPost, s.base+"/api/exec", body, &accepted); status != http.StatusAccepted {
		s.t.Fatalf("submit: %d: %s", status, raw)
	}
	return accepted.ExecutionID
}

type ended struct {
	ExecutionID string `json:"execution_id"`
	Status      events.Status
	Result      *string
	Error       *string
	Heap        *string
	Reason      *string
}

func (s *sessionBook) wait(execution string) (e ended) {
	s.t.Helper()
	if status, raw := call(s.t, http.MethodGet, s.base+"/api/executions/"+execution+"?wait=60", nil, &e); status != http.StatusOK || !e.Status.Terminal() {
		s.t.Fatalf("wait: %d: %s", status, raw)
	}
	return e
}

func (s *sessionBook) turn(code string) ended {
	s.t.Helper()
	return s.wait(s.submit(code))
}

var blobID = regexp.MustCompile(`"nuid":"([^"]+)"`)

// manyNumbers is code whose heap is too large for its content to be stored in its metadata.
const manyNumbers = "var numbers = []; for (let i = 0, x = 1; i < 5000; i++) numbers.push(x = x * 48271 % 2147483647); "

// loseHeap damages a stored heap in the files of a closed Daybook: its content or its metadata.
func loseHeap(t *testing.T, dir, heap string, content bool) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "OBJ_BLOBS", "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	name := []byte(base64.URLEncoding.EncodeToString([]byte("heap/" + events.DefaultTenant + "/" + heap)))
	for _, path := range blocks {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.LastIndex(raw, name)
		if at < 0 {
			continue
		}
		if content {
			chunk := append([]byte("$O.BLOBS.C."), blobID.FindSubmatch(raw[at:])[1]...)
			if at = bytes.Index(raw, chunk); at < 0 {
				t.Fatal("the content is in another file")
			}
		}
		flipByte(t, path, at+len(name)+200)
		return
	}
	t.Fatal("the heap is not in the blob store")
}

// A turn whose session head was lost fails at once after the loss was accepted. Opening the
// session again starts it from a fresh isolate, also while a turn waits.
func TestLostAndAcceptedHead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	http := "127.0.0.1:0"
	book := start(t, embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: http}})
	s := inSession(t, book)
	head := *s.turn("let n = 1").Heap
	closeBook(t, book)
	loseHeap(t, dir, head, false)

	// No runner: the turn waits.
	s.Daybook = start(t, embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: http}, Storage: embed.StorageOptions{AcceptDamage: true}, Runs: embed.RunOptions{Elsewhere: true}})
	s.base = s.URL()
	waiting := s.submit("n")
	if a := s.open(); !a.StateLost || a.Broken == nil || *a.Broken != ledger.BreakHeapLost {
		t.Fatalf("opened while a turn waits: %+v", a)
	}
	if a := s.open(); a.StateLost || a.Broken != nil {
		t.Errorf("the break is recorded twice: %+v", a)
	}
	queued := s.submit("let n = 5; n")
	closeBook(t, s.Daybook)

	s.Daybook = start(t, embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: http}})
	s.base = s.URL()
	if e := s.wait(waiting); e.Status != events.StatusFailed || deref(e.Error) == "" || !strings.Contains(*e.Error, "was lost: event") || !strings.Contains(*e.Error, "open_session") {
		t.Errorf("the turn from the lost head: %s, %s", e.Status, deref(e.Error))
	}
	if e := s.wait(queued); e.Status != events.StatusCompleted || deref(e.Result) != "5" {
		t.Errorf("the turn after the break: %s, %s", e.Status, deref(e.Error))
	}
	// A run outside of the session is refused with the loss, which is not temporary.
	status, answer := request(s.Daybook, "POST", "/api/exec", `{"code":"1","heap":"`+head+`"}`)
	if status != 410 || !strings.Contains(answer, "was lost: event") {
		t.Errorf("a run from the lost heap is answered %d: %s", status, answer)
	}
	answers(t, s.Daybook, "GET", "/api/ledger/blobs/heaps/"+head, "", 410, "was lost: event")

	s.checkListedAsLost(head)
}

// checkListedAsLost requires that the list of heaps, the heap itself and the refusal of a run
// from it name the same event.
func (s *sessionBook) checkListedAsLost(heap string) {
	s.t.Helper()
	var list struct{ Results []projections.Heap }
	ask(s.t, s.Daybook, "GET", "/api/heaps", 200, &list)
	var lost uint64
	for _, h := range list.Results {
		switch {
		case h.Heap == heap && h.Lost != nil:
			lost = *h.Lost
		case h.Lost != nil:
			s.t.Errorf("heap %s is listed as lost", h.Heap)
		}
	}
	var one projections.Heap
	ask(s.t, s.Daybook, "GET", "/api/heaps/"+heap, 200, &one)
	if one.Lost == nil || *one.Lost != lost {
		s.t.Errorf("the list has the loss at %d, the heap itself at %v", lost, one.Lost)
	}
	answers(s.t, s.Daybook, "POST", "/api/exec", `{"code":"1","heap":"`+heap+`"}`, 410, fmt.Sprintf("was lost: event %d ", lost))
}

// Opening a session detects the damaged blob of its head, without a run.
func TestDamagedHeadIsFoundOnOpening(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	s := inSession(t, book)
	head := *s.turn(manyNumbers + "let n = 1").Heap
	closeBook(t, book)
	loseHeap(t, dir, head, true)
	s.Daybook = start(t, embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Storage: embed.StorageOptions{AcceptDamage: true}})
	s.base = s.URL()
	if e := s.turn("n"); e.Status != events.StatusFailed || !strings.Contains(deref(e.Error), "open_session") {
		t.Errorf("a turn from the lost head: %s, %s", e.Status, deref(e.Error))
	}
	if a := s.open(); !a.StateLost {
		t.Errorf("opened again: %+v", a)
	}
	if e := s.turn("typeof n"); deref(e.Result) != "undefined" {
		t.Errorf("after the break n is %s", deref(e.Result))
	}
}
