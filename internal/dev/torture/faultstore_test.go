package torture_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/audit"
	"daybook/embed"
	"daybook/events"
	"daybook/proof"
)

// truth is an intact store with all its answers.
type truth struct {
	files   map[string][]byte
	answers map[string]string
	events  []string
	// key is the verification key. records are the records of all events, 256 in each
	// text, leaves their leaf hashes, and root is the tree hash over them.
	key     string
	records map[string]string
	leaves  []proof.Hash
	root    string
}

// buildStore creates a store that uses every part, and reads its answers. Its volumes are an
// archive, a sealed stream and the active volume, and its projections have a copy.
func buildStore(t *testing.T, dir string) *truth {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	book := startBook(t, dir, false)
	for n := range 2 {
		runOnce(ctx, t, book, embed.Script{Code: fmt.Sprintf("for (let i = 0; i < 400; i++) console.log('old', i, Math.random()); globalThis.old = %d; old", n), Session: "archive of faults", Tags: map[string]string{"old": fmt.Sprint(n)}})
		post(t, book, "/api/ledger/volumes/seal", "")
	}
	closeOrFail(t, book)
	archiveOldest(t, faultOptions(dir, false))
	book = startBook(t, dir, false)
	heap := ""
	for n := range 4 {
		e, err := book.Run(ctx, embed.Script{Code: fmt.Sprintf("globalThis.n = (globalThis.n ?? 0) + %d; console.log('n is', n); n", n+1), Heap: heap, Session: "ledger of faults", Tags: map[string]string{"round": fmt.Sprint(n)}})
		if err != nil || e.Heap == nil {
			t.Fatalf("run: %s, %v", e.Status, err)
		}
		heap = *e.Heap
	}
	for _, code := range []string{
		"throw new Error('as it should')",
		"/*" + strings.Repeat("a large source ", 8000) + "*/ 'y'.repeat(100_000)",
		// With this output the ledger has two blocks. A block has 8 MiB.
		"let line = ''; for (let i = 0; i < 20_000; i++) line += (i * 7919 % 1000) + ','; for (let i = 0; i < 140; i++) console.log(i, line); 1",
	} {
		if _, err := book.Run(ctx, embed.Script{Code: code, Session: "ledger of faults"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	// Start again, because some files are created at the second start.
	book = startBook(t, dir, true)
	y := &truth{answers: map[string]string{}}
	var err error
	if y.events, err = readEvents(book); err != nil {
		t.Fatal(err)
	}
	for _, url := range questions(t, book) {
		status, body := ask(book, url)
		if status != http.StatusOK {
			t.Fatalf("%s is answered %d: %s", url, status, body)
		}
		y.answers[url] = body
	}
	y.key = book.AuditKey()
	y.readProof(t, book)
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	y.files = readFiles(t, dir)
	copied := t.TempDir()
	if err := writeFiles(copied, y.files); err != nil {
		t.Fatal(err)
	}
	if r, err := embed.Verify(ctx, embed.VerifyOptions{DataDir: copied, Keys: []string{y.key}}); err != nil || r.Verdict != audit.Intact || !y.isSame(r, false) {
		t.Fatalf("the store without a fault: %v\n%s", err, r)
	}
	return y
}

func startBook(t *testing.T, dir string, noRunner bool) *embed.Daybook {
	t.Helper()
	book, err := embed.Start(t.Context(), faultOptions(dir, noRunner))
	if err != nil {
		t.Fatal(err)
	}
	return book
}

func faultOptions(dir string, noRunner bool) embed.Options {
	// A listener creates credentials of subscribers, which some faults change.
	return embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: noRunner}, NATS: embed.NATSOptions{NoSync: true, Addr: "127.0.0.1:0"}, Logger: slog.New(slog.DiscardHandler)}
}

// questions returns the URLs of all reads of the store.
func questions(t *testing.T, book *embed.Daybook) []string {
	t.Helper()
	list := []string{
		"/api/executions", "/api/heaps", "/api/sessions", "/api/sessions/ledger%20of%20faults/entries", "/api/sessions/archive%20of%20faults/entries",
		"/api/heaps?tag=round%3D2", "/api/heaps?tag=old%3D0",
	}
	var all struct {
		Executions []struct {
			ID string `json:"execution_id"`
		}
		Results []struct{ Heap string }
	}
	for _, url := range []string{"/api/executions", "/api/heaps"} {
		if _, body := ask(book, url); json.Unmarshal([]byte(body), &all) != nil {
			t.Fatalf("%s: %s", url, body)
		}
	}
	if len(all.Executions) != 9 || len(all.Results) < 6 {
		t.Fatalf("%d executions and %d heaps", len(all.Executions), len(all.Results))
	}
	for _, e := range all.Executions {
		at := "/api/executions/" + e.ID
		list = append(list, at, at+"/events", at+"/output", at+"/output?byte_offset=0&byte_limit=1000000")
	}
	for _, h := range all.Results {
		at := "/api/heaps/" + h.Heap
		list = append(list, at, at+"/tags", at+"/lineage", "/api/ledger/blobs/heaps/"+h.Heap)
	}
	return list
}

// brokenOff is the body that ask returns for an answer that breaks off. The log has the
// reason.
const brokenOff = "the answer broke off"

// ask returns the answer to a request. One that breaks off has the status 500.
func ask(book *embed.Daybook, url string) (status int, body string) {
	defer func() {
		if v := recover(); v == http.ErrAbortHandler {
			status, body = http.StatusInternalServerError, brokenOff
		} else if v != nil {
			panic(v)
		}
	}()
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+url, nil)
	w := httptest.NewRecorder()
	book.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// readEvents reads the ledger from its start to its end or to the first error.
func readEvents(book *embed.Daybook) ([]string, error) {
	if status, body := ask(book, "/api/events?limit=1"); status == http.StatusOK && body == "" {
		return nil, nil // Follow would wait for the first event
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var list []string
	enough := errors.New("that was all")
	err := book.Follow(ctx, 0, func(batch []events.Event, last uint64) error {
		for _, e := range batch {
			raw, err := json.Marshal(e)
			if err != nil {
				return err
			}
			list = append(list, string(raw))
		}
		if batch[len(batch)-1].Seq >= last {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return list, err
}

func readFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			files[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "lock")
	return files
}
