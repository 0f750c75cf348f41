package embed_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/lifecycle/retention"
	"daybook/projections"
)

var eraser = events.Actor{Principal: "tester", Transport: "embed"}

// filesWith lists the files below a directory that contain a text.
func filesWith(t *testing.T, dir, text string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // it was deleted meanwhile
			return nil
		}
		if bytes.Contains(raw, []byte(text)) {
			rel, _ := filepath.Rel(dir, path)
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// answerOf sends a request to the REST interface.
func answerOf(t *testing.T, book *embed.Daybook, method, path string) (status int, body string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, nil)
	w := httptest.NewRecorder()
	book.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// The content of a session is readable until it is shredded. After that it is nowhere in the
// data directory, and the ledger, its proofs and a rebuild are intact.
func TestShred(t *testing.T) {
	t.Parallel()
	const secret = "Zweiundvierzig-Geheimnisse"
	dir := t.TempDir()
	opts := embed.Options{DataDir: dir, Content: embed.ContentOptions{Erasable: true}}
	book := start(t, opts)
	first := run(t, book, embed.Script{
		Code: "globalThis.kept = '" + secret + "'; Object.defineProperty(globalThis, kept, { get() {} }); console.log('line', kept); kept", Session: "private", Tags: map[string]string{"about": secret},
	})
	_, public := completes(t, book, embed.Script{Code: "globalThis.n = 1; n", Session: "public"})
	second := run(t, book, embed.Script{Code: "throw new Error(kept)", Heap: deref(first.Heap), Session: "private"})
	long := run(t, book, embed.Script{Code: "/*" + secret + strings.Repeat(" long", 20_000) + "*/ '" + secret + "'.repeat(9000)", Session: "private"})
	if deref(first.Result) != secret || !strings.Contains(deref(second.Error), secret) || len(deref(long.Result)) < 9000*len(secret) || !strings.Contains(long.Code, secret) {
		t.Fatalf("%+v, %+v, %d bytes", first.Result, second.Error, len(deref(long.Result)))
	}
	if !slices.ContainsFunc(second.Warnings, func(w string) bool { return strings.Contains(w, "on globalThis: 1 name;") }) {
		t.Errorf("a heap with an accessor warns %q", second.Warnings)
	}
	page, err := book.Output(within(t), first.ExecutionID, projections.OutputQuery{})
	if err != nil || page.Data != "line "+secret+"\n" {
		t.Fatalf("%q, %v", page.Data, err)
	}
	if _, body := answerOf(t, book, "GET", "/api/heaps/"+deref(first.Heap)+"/tags"); !strings.Contains(body, secret) {
		t.Errorf("tags: %s", body)
	}
	if found := filesWith(t, filepath.Join(dir, "jetstream"), secret); len(found) != 0 {
		t.Errorf("in the ledger before: %q", found)
	}
	if found := filesWith(t, dir, secret); len(found) == 0 {
		t.Error("the content is not readable before, so the rest of the test shows nothing")
	}

	globals := "/api/heaps/" + deref(first.Heap) + "/globals"
	if status, body := answerOf(t, book, http.MethodGet, globals); status != http.StatusOK || strings.Count(body, secret) != 2 {
		t.Errorf("the globals before: %d %s", status, body)
	}
	done, err := book.Shred(within(t), events.DefaultTenant, retention.Named("private"), false, eraser)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := answerOf(t, book, http.MethodGet, globals); status != http.StatusGone || strings.Contains(body, secret) {
		t.Errorf("the globals after: %d %s", status, body)
	}
	if done.Executions != 3 || done.Heaps != 3 || done.Kept != 0 {
		t.Errorf("%+v", done)
	}
	type answers struct {
		Detail  projections.ExecutionDetail
		Output  string
		Entries string
		Tags    string
		Heap    string
		Other   string
	}
	read := func(book *embed.Daybook) (a answers) {
		t.Helper()
		e, err := book.Wait(within(t), first.ExecutionID)
		if err != nil {
			t.Fatal(err)
		}
		a.Detail = e
		get := func(path string, want int) string {
			t.Helper()
			status, body := answerOf(t, book, "GET", path)
			if status != want || strings.Contains(body, secret) {
				t.Errorf("%s: %d %.300s", path, status, body)
			}
			return body
		}
		a.Output = get("/api/executions/"+first.ExecutionID+"/output", http.StatusGone)
		for _, text := range []string{"code", "result", "error"} {
			if got := get("/api/executions/"+first.ExecutionID+"/texts/"+text, http.StatusGone); !strings.Contains(got, "shredded") {
				t.Errorf("%s: %s", text, got)
			}
		}
		a.Entries = get("/api/sessions/private/entries", http.StatusOK)
		a.Tags = get("/api/heaps/"+deref(first.Heap)+"/tags?history=1", http.StatusOK)
		a.Heap = get("/api/heaps/"+deref(first.Heap), http.StatusGone)
		a.Other = get("/api/heaps/"+public, http.StatusOK)
		get("/api/executions/"+first.ExecutionID+"/events", http.StatusOK)
		get("/api/events", http.StatusOK)
		return a
	}
	await(t, book, done.Last)
	got := read(book)
	if s := got.Detail.Shredded; s == nil || s.Seq != done.Seq || got.Detail.Code != "" || got.Detail.Result != nil || got.Detail.Status != events.StatusCompleted {
		t.Errorf("%+v", got.Detail)
	}
	if !strings.Contains(got.Output, "shredded") {
		t.Errorf("output: %s", got.Output)
	}
	if found := filesWith(t, dir, secret); len(found) != 0 {
		t.Errorf("after it was shredded the secret is in %q", found)
	}
	if _, err := book.Submit(within(t), embed.Script{Code: "kept", Heap: deref(first.Heap)}); !errors.Is(err, events.ErrRemoved) {
		t.Errorf("a run from its heap: %v", err)
	}
	if e := run(t, book, embed.Script{Code: "'new'", Session: "private"}); deref(e.Result) != "new" {
		t.Errorf("the session continues: %+v", e)
	}
	if _, err := book.Shred(within(t), events.DefaultTenant, retention.Named("unknown"), false, eraser); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("an unknown session: %v", err)
	}
	closeBook(t, book)

	book = start(t, opts)
	again := read(book)
	again.Detail.Seq, got.Detail.Seq = 0, 0
	if diff := cmp.Diff(got.Detail, again.Detail); diff != "" || got.Tags != again.Tags || again.Output != got.Output {
		t.Errorf("after a restart: %s", diff)
	}
	before := again
	closeBook(t, book)
	if _, err := embed.Rebuild(within(t), opts); err != nil {
		t.Fatal(err)
	}
	book = start(t, opts)
	rebuilt := read(book)
	rebuilt.Detail.Seq = 0
	if diff := cmp.Diff(before, rebuilt); diff != "" {
		t.Errorf("after a rebuild: %s", diff)
	}
	plain, err := book.Shred(within(t), events.DefaultTenant, retention.Named("public"), false, eraser)
	if err != nil || plain.Executions != 1 {
		t.Errorf("%+v, %v", plain, err)
	}
	closeBook(t, book)
	report, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir})
	if err != nil || report.Verdict != embed.Unauthenticated {
		t.Errorf("verify: %s, %v", report, err)
	}
}

// await waits until an event is applied.
func await(t *testing.T, book *embed.Daybook, seq uint64) {
	t.Helper()
	for late := time.Now().Add(patience); ; {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://127.0.0.1/api/sessions", nil)
		r.Header.Set("Daybook-Min-Sequence", strconv.FormatUint(seq, 10))
		book.Handler().ServeHTTP(w, r)
		if w.Code == http.StatusOK {
			return
		}
		if w.Code != http.StatusServiceUnavailable || time.Now().After(late) { // a read waits for some seconds only
			t.Fatalf("wait for event %d: %d %s", seq, w.Code, w.Body)
		}
	}
}
