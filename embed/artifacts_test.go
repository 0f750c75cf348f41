package embed_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/lifecycle/retention"
	"daybook/projections"
)

// artifactsOf lists the artifacts of an execution over REST.
func artifactsOf(t *testing.T, book *embed.Daybook, id string) []projections.Artifact {
	t.Helper()
	status, body := answerOf(t, book, http.MethodGet, "/api/executions/"+id+"/artifacts")
	var list struct{ Artifacts []projections.Artifact }
	if err := json.Unmarshal([]byte(body), &list); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return list.Artifacts
}

// artifactFrom reads an artifact over REST.
func artifactFrom(t *testing.T, book *embed.Daybook, id, rest string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/executions/"+id+"/artifacts/"+rest, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	book.Handler().ServeHTTP(w, r)
	return w
}

// Artifacts are listed and sent unchanged, under headers with which no browser runs them,
// and a replay creates them again.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{})
	e := run(t, book, embed.Script{Code: `
		console.log("one");
		artifact("page.html", "text/html; charset=utf-8", "<script>alert(1)</script>");
		artifact("../../etc/pass wd?#%", "application/octet-stream", new Uint8Array([0, 255, 10]));
		artifact("image.png", "image/png", "first");
		artifact("image.png", "image/png", "second");
		artifact("image.svg", "image/svg+xml", "<svg/>");
		artifact("..", "text/plain", "dots");
		artifact("empty", "x/y z", "");
		artifact("größe", "text/csv", "a,b");
		console.log("two")`})
	if e.Status != events.StatusCompleted || e.Artifacts != 8 || e.TotalLines != 2 {
		t.Fatalf("%s with %d artifacts: %s", e.Status, e.Artifacts, deref(e.Error))
	}
	list := artifactsOf(t, book, e.ExecutionID)
	if len(list) != 8 || list[0].Name != "page.html" || list[0].Line != 2 || list[0].SHA256 != events.Hash([]byte("<script>alert(1)</script>")) || !list[2].IsReplaced || list[3].IsReplaced || list[3].Number != 4 {
		t.Errorf("%+v", list)
	}
	for _, tt := range []struct{ path, content, contentType, disposition string }{
		{"page.html", "<script>alert(1)</script>", "text/html; charset=utf-8", "attachment; filename=page.html"},
		{"..%2F..%2Fetc%2Fpass%20wd%3F%23%25", "\x00\xff\n", "application/octet-stream", `attachment; filename=".._.._etc_pass wd?#%"`},
		{"image.png", "second", "image/png", "inline; filename=image.png"},
		{"image.png?number=3", "first", "image/png", "inline; filename=image.png"},
		{"image.svg", "<svg/>", "image/svg+xml", "attachment; filename=image.svg"},
		{"%2E%2E", "dots", "text/plain", "inline; filename=artifact"},
		{"empty", "", "application/octet-stream", "attachment; filename=empty"},
		{"gr%C3%B6%C3%9Fe", "a,b", "text/csv", "attachment; filename*=utf-8''gr%C3%B6%C3%9Fe"},
	} {
		w := artifactFrom(t, book, e.ExecutionID, tt.path)
		h := w.Header()
		if w.Code != http.StatusOK || w.Body.String() != tt.content || h.Get("Content-Type") != tt.contentType || h.Get("Content-Disposition") != tt.disposition {
			t.Errorf("%s: %d %q, %v", tt.path, w.Code, w.Body, h)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Security-Policy") != "default-src 'none'; sandbox" || h.Get("ETag") != `"`+events.Hash([]byte(tt.content))+`"` {
			t.Errorf("%s: %v", tt.path, h)
		}
	}
	if w := artifactFrom(t, book, e.ExecutionID, "image.png", "Range", "bytes=1-3"); w.Code != http.StatusPartialContent || w.Body.String() != "eco" {
		t.Errorf("a range: %d %q", w.Code, w.Body)
	}
	if w := artifactFrom(t, book, e.ExecutionID, "image.png", "If-None-Match", `"`+events.Hash([]byte("second"))+`"`); w.Code != http.StatusNotModified {
		t.Errorf("with its ETag: %d %q", w.Code, w.Body)
	}
	for path, want := range map[string]int{"image.gif": http.StatusNotFound, "image.png?number=1": http.StatusNotFound, "image.png?number=0": http.StatusBadRequest, "image.png?number=1001": http.StatusBadRequest} {
		if w := artifactFrom(t, book, e.ExecutionID, path); w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
	if r := replayIn(t, book, e.ExecutionID); r.Verdict != events.ReplayIdentical || len(r.Compared) < 2 || r.Compared[1] != events.ReplayArtifacts {
		t.Errorf("the replay: %+v", r)
	}
}

// A run creates up to 1,000 artifacts, also if it fails, and all of them are recorded before
// its end.
func TestManyArtifacts(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Runs: embed.RunOptions{Stateless: true}})
	e := run(t, book, embed.Script{Code: `for (let i = 1; i <= 1001; i++) artifact("n" + i, "text/plain", "v" + i % 7)`, ExecutionTimeoutSecs: 120})
	if e.Status != events.StatusFailed || !strings.HasPrefix(deref(e.Error), "RangeError: artifact: a run creates at most 1000 artifacts") || e.Artifacts != 1000 {
		t.Fatalf("%s with %d artifacts: %s", e.Status, e.Artifacts, deref(e.Error))
	}
	if list := artifactsOf(t, book, e.ExecutionID); len(list) != 1000 || list[999].Name != "n1000" || list[999].SHA256 != events.Hash([]byte("v6")) {
		t.Errorf("%d artifacts", len(list))
	}
	all := history(t, book, e.ExecutionID)
	if last := all[len(all)-1]; last.Type != events.TypeExecutionFailed {
		t.Errorf("the last event is %s", last.Type)
	}
	if r := replayIn(t, book, e.ExecutionID); r.Verdict != events.ReplayIdentical {
		t.Errorf("the replay: %+v", r)
	}
}

// The artifacts of a shredded session are nowhere: neither their bytes nor their names.
func TestShreddedArtifacts(t *testing.T) {
	t.Parallel()
	const secret = "Siebenundsiebzig-Geheimnisse"
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir, Content: embed.ContentOptions{Erasable: true}})
	e := run(t, book, embed.Script{Code: `artifact("` + secret + `.txt", "text/x-` + secret + `", "` + secret + `")`, Session: "private"})
	list := artifactsOf(t, book, e.ExecutionID)
	if len(list) != 1 || list[0].Name != secret+".txt" || list[0].SHA256 == events.Hash([]byte(secret)) {
		t.Fatalf("%+v", list)
	}
	if w := artifactFrom(t, book, e.ExecutionID, secret+".txt"); w.Body.String() != secret {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if r := replayIn(t, book, e.ExecutionID); r.Verdict != events.ReplayIdentical {
		t.Errorf("the replay: %+v", r)
	}
	if found := filesWith(t, filepath.Join(dir, "jetstream"), secret); len(found) != 0 {
		t.Errorf("in the ledger before: %q", found)
	}
	done, err := book.Shred(within(t), events.DefaultTenant, retention.Named("private"), false, eraser)
	if err != nil {
		t.Fatal(err)
	}
	await(t, book, done.Last)
	key := book.AuditKey()
	for _, path := range []string{"", "/" + secret + ".txt"} {
		if status, body := answerOf(t, book, http.MethodGet, "/api/executions/"+e.ExecutionID+"/artifacts"+path); status != http.StatusGone || strings.Contains(strings.ReplaceAll(body, path, ""), secret) {
			t.Errorf("%q after the shred: %d %s", path, status, body)
		}
	}
	closeBook(t, book)
	if found := filesWith(t, dir, secret); len(found) != 0 {
		t.Errorf("after the shred: %q", found)
	}
	if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir, Keys: []string{key}}); err != nil || !r.OK {
		t.Errorf("%v\n%s", err, r)
	}
}

// A changed byte of an artifact is found. Requests for other artifacts of the run, and
// everything else, are not affected. An export has the artifacts.
func TestDamagedArtifact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	e := run(t, book, embed.Script{Code: `artifact("good", "a/b", "good"); artifact("bad", "a/b", crypto.getRandomValues(new Uint8Array(16384)))`})
	key := book.AuditKey()
	bad := artifactsOf(t, book, e.ExecutionID)[1].SHA256
	closeBook(t, book)

	export := filepath.Join(t.TempDir(), "export")
	if done, err := embed.Export(within(t), embed.ExportOptions{DataDir: dir, Dir: export, Blobs: true}); err != nil || done.Blobs < 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	if r, err := embed.Verify(within(t), embed.VerifyOptions{Export: export, Keys: []string{key}}); err != nil || !r.OK {
		t.Errorf("the export: %v\n%s", err, r)
	}
	changeArtifact(t, dir, bad)
	if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir}); err != nil || r.OK || !strings.Contains(r.String(), bad) {
		t.Errorf("the verification: %v\n%s", err, r)
	}

	book = start(t, embed.Options{DataDir: dir})
	if w := artifactFrom(t, book, e.ExecutionID, "bad"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "is damaged") {
		t.Errorf("the damaged artifact: %d %s", w.Code, w.Body)
	}
	if w := artifactFrom(t, book, e.ExecutionID, "good"); w.Code != http.StatusOK || w.Body.String() != "good" {
		t.Errorf("the other artifact: %d %s", w.Code, w.Body)
	}
	if len(artifactsOf(t, book, e.ExecutionID)) != 2 {
		t.Error("the list lacks an artifact")
	}
	if lasting, _ := blobReport(t, book); len(lasting) != 1 || lasting[0].Blob == nil || lasting[0].Blob.SHA256 != bad {
		t.Errorf("the findings are %+v", lasting)
	}
	if result, _ := completes(t, book, embed.Script{Code: "1 + 1"}); result != "2" {
		t.Errorf("another run answers %s", result)
	}
}

// changeArtifact changes a byte of the bytes of an artifact in the files of a closed Daybook.
func changeArtifact(t *testing.T, dir, hash string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "OBJ_BLOBS", "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	name := []byte(base64.URLEncoding.EncodeToString([]byte("text/" + events.DefaultTenant + "/" + hash)))
	for _, path := range blocks {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.LastIndex(raw, name); at >= 0 {
			chunk := append([]byte("$O.BLOBS.C."), blobID.FindSubmatch(raw[at:])[1]...)
			flipByte(t, path, bytes.Index(raw, chunk)+len(chunk)+200)
			return
		}
	}
	t.Fatal("the artifact is not in the blob store")
}

// The logs of a named and of a logical session have the number of artifacts of each run.
func TestArtifactsInSessionLog(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	var opened struct {
		SessionID string `json:"session_id"`
	}
	if status, raw := call(t, http.MethodPost, book.URL()+"/api/logical-sessions", map[string]any{"intent": "draw", "seeds": []string{"builtin"}}, &opened); status != http.StatusOK {
		t.Fatalf("%d %s", status, raw)
	}
	for session, script := range map[string]embed.Script{"drawn": {Session: "drawn"}, opened.SessionID: {LogicalSession: opened.SessionID}} {
		for _, code := range []string{`artifact("a", "text/plain", "1"); artifact("b", "text/plain", "2"); 1`, "2"} {
			script.Code = code
			run(t, book, script)
		}
		for fields, want := range map[string]string{"artifacts": `"entries":[{"artifacts":2},{}]`, "index,artifacts": `"entries":[{"index":0,"artifacts":2},{"index":1}]`, "index": `"entries":[{"index":0},{"index":1}]`} {
			if status, body := answerOf(t, book, http.MethodGet, "/api/sessions/"+session+"/entries?fields="+fields); status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s, %s: %d %s", session, fields, status, body)
			}
		}
	}
}
