package embed_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/audit"
	"daybook/embed"
)

// answer sends a request with a body and returns the status and the answer.
func answer(t *testing.T, book *embed.Daybook, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(within(t), method, "http://127.0.0.1"+path, bytes.NewReader([]byte(body)))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	book.Handler().ServeHTTP(w, r)
	raw, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(raw)
}

// getFrom returns a function that sends GET requests to a Daybook.
func getFrom(book *embed.Daybook) audit.Get {
	return func(ctx context.Context, path string, header ...string) (*http.Response, error) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1"+path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		book.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return nil, fmt.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
		return w.Result(), nil
	}
}

// requestRemoval asks for the removal of a volume, again as long as a runner has not yet reported the end
// of a run of it: that follows the end which a client sees.
func requestRemoval(t *testing.T, book *embed.Daybook, number int, sha string) (code int, text string) {
	t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		code, text = answer(t, book, http.MethodPost, fmt.Sprintf("/api/ledger/volumes/%d/remove", number), `{"export_sha256":"`+sha+`"}`)
		if code != http.StatusConflict || !strings.Contains(text, "runners hold") || time.Now().After(late) {
			return code, text
		}
	}
}

// removeOldest exports and removes a volume.
func removeOldest(t *testing.T, book *embed.Daybook, number int) (dir string) {
	t.Helper()
	var list struct{ Volumes []volume }
	ask(t, book, http.MethodGet, "/api/ledger/volumes", http.StatusOK, &list)
	v := list.Volumes[0]
	if v.Volume != number {
		t.Fatalf("the oldest volume is %+v, want %d", v, number)
	}
	dir = filepath.Join(t.TempDir(), "volume")
	if _, err := embed.Export(within(t), embed.ExportOptions{Server: getFrom(book), Dir: dir, From: v.First, To: v.Last}); err != nil {
		t.Fatal(err)
	}
	sha, err := embed.ExportHash(dir)
	if err != nil {
		t.Fatal(err)
	}
	if code, text := requestRemoval(t, book, number, sha); code != http.StatusOK {
		t.Fatalf("removing volume %d: %d %s", number, code, text)
	}
	return dir
}

// TestRemoval removes two volumes in a row. Kept events are answered as before, the others are
// removed, everything verifies, and rebuilt projections give the same answers.
func TestRemoval(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	book := start(t, opts)
	gone := run(t, book, embed.Script{Code: "console.log('gone'); for (;;);", Session: "counted", ExecutionTimeoutSecs: 1}).ExecutionID
	code := "globalThis.n = (globalThis.n ?? 0) + 1; console.log(n); n"
	var heap string
	for range 4 {
		_, heap = completes(t, book, embed.Script{Code: code, Heap: heap, Session: "counted", Tags: map[string]string{"keep": "yes"}})
	}
	awaitFinalized(t, book)
	var v volume
	ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, &v)
	if code, text := requestRemoval(t, book, 1, strings.Repeat("a", 64)); code != http.StatusConflict || !strings.Contains(text, "the file of events of its export has the SHA-256") {
		t.Errorf("without an export: %d %s", code, text)
	}
	export := removeOldest(t, book, 1)
	for _, path := range []string{"/api/executions/" + gone, "/api/executions/" + gone + "/events", "/api/resolve?kind=execution&id=" + gone} {
		if code, text := answer(t, book, http.MethodGet, path, ""); code != http.StatusGone || !strings.Contains(text, "removed with volume 1 of the ledger") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	for path, body := range map[string]string{"/cancel": "", "/replay": "", "/what-if": `{"code":"1"}`} {
		if code, text := answer(t, book, http.MethodPost, "/api/executions/"+gone+path, body); code != http.StatusGone || !strings.Contains(text, "removed with volume 1 of the ledger") {
			t.Errorf("%s of a removed execution: %d %s", path, code, text)
		}
	}
	if code, text := answer(t, book, http.MethodGet, "/api/events?after=3", ""); code != http.StatusGone {
		t.Errorf("events of a removed volume: %d %s", code, text)
	}
	if code, text := answer(t, book, http.MethodGet, "/api/events", ""); code != http.StatusOK || !strings.Contains(text, "volume_removed") {
		t.Errorf("events from the first that remains: %d %s", code, text)
	}
	result, heap := completes(t, book, embed.Script{Code: code, Heap: heap, Session: "counted"})
	if result != "5" {
		t.Errorf("a run from a heap of the removed volume gives %s", result)
	}
	paths := []string{"/api/executions", "/api/heaps", "/api/heaps/" + heap + "/lineage", "/api/sessions", "/api/sessions/counted/entries", "/api/ledger/volumes"}
	answers := func(book *embed.Daybook) map[string]any {
		all := map[string]any{}
		for _, path := range paths {
			var a any
			ask(t, book, http.MethodGet, path, http.StatusOK, &a)
			all[path] = a
		}
		return all
	}
	key := book.AuditKey()
	check := func() {
		t.Helper()
		// The remaining events can be exported and verified. An export of removed ones is refused.
		left := filepath.Join(t.TempDir(), "left")
		if _, err := embed.Export(within(t), embed.ExportOptions{Server: getFrom(book), Dir: left}); err != nil {
			t.Fatal(err)
		}
		if r, err := embed.Verify(within(t), embed.VerifyOptions{Export: left, Keys: []string{key}}); err != nil || !r.OK {
			t.Errorf("an export of the remaining events: %v\n%s", err, r)
		}
		if _, err := embed.Export(within(t), embed.ExportOptions{Server: getFrom(book), Dir: filepath.Join(t.TempDir(), "all"), From: 1}); err == nil || !strings.Contains(err.Error(), "were removed: export from") {
			t.Errorf("an export from the beginning: %v", err)
		}
		if r, err := embed.Verify(within(t), embed.VerifyOptions{Server: getFrom(book), ServerURL: "here", Keys: []string{key}}); err != nil || !r.OK || len(r.Removed) == 0 {
			t.Errorf("the server: %v\n%s", err, r)
		}
		awaitFinalized(t, book)
		before := answers(book)
		closeBook(t, book)
		if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}}); err != nil || !r.OK || len(r.Removed) == 0 {
			t.Errorf("the directory: %v\n%s", err, r)
		}
		book = start(t, opts)
		if diff := cmp.Diff(before, answers(book)); diff != "" {
			t.Errorf("after a start (-before +after):\n%s", diff)
		}
		closeBook(t, book)
		if err := rebuild(t, opts.DataDir); err != nil {
			t.Fatal(err)
		}
		book = start(t, opts)
		if diff := cmp.Diff(before, answers(book)); diff != "" {
			t.Errorf("after the projections were rebuilt (-before +after):\n%s", diff)
		}
	}
	check()
	if r, err := embed.Verify(within(t), embed.VerifyOptions{Export: export, Keys: []string{key}}); err != nil || !r.OK {
		t.Errorf("the export: %v\n%s", err, r)
	}
	ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, &v)
	removeOldest(t, book, 2)
	check()
	if result, _ := completes(t, book, embed.Script{Code: code, Heap: heap, Session: "counted"}); result != "6" {
		t.Errorf("a run from a heap of two removed volumes gives %s", result)
	}
}

// An export of a server that broke off is resumed after a volume was removed, unless it lacks
// events of the volume.
func TestAnExportIsResumedAfterARemoval(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{})
	completes(t, book, embed.Script{Code: "1"})
	ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, nil)
	completes(t, book, embed.Script{Code: "2"})
	// breaking returns the beginning of an export only.
	breaking := func(keep func(length int) int) audit.Get {
		return func(ctx context.Context, path string, header ...string) (*http.Response, error) {
			resp, err := getFrom(book)(ctx, path, header...)
			if err != nil || !strings.HasPrefix(path, "/api/ledger/export") {
				return resp, err
			}
			raw, err := io.ReadAll(resp.Body)
			resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(raw[:keep(len(raw))]), iotest.ErrReader(io.ErrUnexpectedEOF)))
			return resp, err
		}
	}
	early, late := filepath.Join(t.TempDir(), "early"), filepath.Join(t.TempDir(), "late")
	for dir, keep := range map[string]func(int) int{early: func(int) int { return 3000 }, late: func(length int) int { return length - 10 }} {
		if _, err := embed.Export(within(t), embed.ExportOptions{Server: breaking(keep), Dir: dir}); err == nil {
			t.Fatal("an export that broke off is finished")
		}
	}
	removeOldest(t, book, 1)
	if _, err := embed.Export(within(t), embed.ExportOptions{Server: getFrom(book), Dir: early, Resume: true}); err == nil || !strings.Contains(err.Error(), "removed with volume 1") {
		t.Errorf("an export that lacks events of the volume: %v", err)
	}
	if _, err := embed.Export(within(t), embed.ExportOptions{Server: getFrom(book), Dir: late, Resume: true}); err != nil {
		t.Fatal(err)
	}
	if r, err := embed.Verify(within(t), embed.VerifyOptions{Export: late, Keys: []string{book.AuditKey()}}); err != nil || !r.OK || r.First != 1 {
		t.Errorf("%v\n%s", err, r)
	}
}
