package embed_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/lifecycle/damage"
	"daybook/ledger"
)

// blobReport returns the damage report. A finding about the ledger fails the test.
func blobReport(t *testing.T, book *embed.Daybook) (lasting, ended []damage.Finding) {
	t.Helper()
	var report struct {
		Damaged, ReadOnly bool
		Findings          []damage.Finding
	}
	_, body := request(book, "GET", "/api/ledger/damage", "")
	if err := json.Unmarshal([]byte(body), &report); err != nil || report.ReadOnly {
		t.Fatalf("the report is %s, %v", body, err)
	}
	for _, f := range report.Findings {
		switch {
		case f.Radius != damage.OfBlob:
			t.Errorf("the radius of %s is %s", f, f.Radius)
		case f.Ended == nil:
			lasting = append(lasting, f)
		default:
			ended = append(ended, f)
		}
	}
	if report.Damaged != (len(lasting) > 0) {
		t.Errorf("damaged is %t: %s", report.Damaged, body)
	}
	return lasting, ended
}

// answers expects the status and parts of the answer to a request.
func answers(t *testing.T, book *embed.Daybook, method, path, body string, status int, want ...string) {
	t.Helper()
	got, answer := request(book, method, path, body)
	if got != status {
		t.Errorf("%s %s is answered %d, not %d: %.500s", method, path, got, status, answer)
	}
	for _, w := range want {
		if !strings.Contains(answer, w) {
			t.Errorf("%s %s is answered without %q: %.500s", method, path, w, answer)
		}
	}
}

// With a damaged heap, only the requests and runs that need it fail. A new run of the script
// that created the heap stores it again.
func TestDamagedHeapAffectsOnlyItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}}
	const code = manyNumbers + "var kept = 41"
	for _, content := range tier.Choose([]bool{true}, []bool{true, false}) { // damage the content of the heap, or its metadata
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		book := start(t, opts)
		s := inSession(t, book)
		head := *s.turn(manyNumbers + "let n = 1").Heap
		_, other := completes(t, book, embed.Script{Code: "var other = 7"})
		_, heap := completes(t, book, embed.Script{Code: code})
		closeBook(t, book)
		loseHeap(t, dir, heap, content)
		loseHeap(t, dir, head, !content)

		for range 2 { // the second start has the same findings
			book = start(t, opts)
			s.Daybook, s.base = book, book.URL()
			lasting, _ := blobReport(t, book)
			if len(lasting) != 2 || lasting[0].Blob == nil || lasting[1].Blob == nil {
				t.Fatalf("with the content of the heap damaged (%t) the findings are %+v", content, lasting)
			}
			if err := book.Ready(within(t)); err != nil {
				t.Errorf("not ready: %v", err)
			}
			answers(t, book, "GET", "/readyz", "", http.StatusOK)
			answers(t, book, "GET", "/metrics", "", http.StatusOK, "daybook_damaged_blobs 2", "daybook_damage 0")
			answers(t, book, "POST", "/api/exec", `{"code":"1","heap":"`+heap+`"}`, http.StatusConflict, heap, "is damaged", "run the script that made it again")
			answers(t, book, "GET", "/api/ledger/blobs/heaps/"+heap, "", http.StatusServiceUnavailable, heap, "is damaged", "--accept-damage")
			answers(t, book, "GET", "/api/heaps/"+heap+"/globals", "", http.StatusServiceUnavailable, heap, "is damaged", "--accept-damage")
			if r, err := embed.Verify(within(t), embed.VerifyOptions{Server: getFrom(book), ServerURL: "here"}); err != nil || r.OK || !strings.Contains(r.String(), heap) || !strings.Contains(r.String(), head) {
				t.Errorf("the verification of the server: %v\n%s", err, r)
			}
			answers(t, book, "POST", "/api/exec", `{"code":"1","heap":"`+strings.Repeat("0", 64)+`"}`, http.StatusAccepted, "fresh isolate")
			if e := s.turn("n"); e.Status != events.StatusFailed || deref(e.Reason) != ledger.ReasonSessionHeadLost || !strings.Contains(deref(e.Error), "reset the session") {
				t.Errorf("the turn from the damaged head: %s, %s", e.Status, deref(e.Error))
			}
			if result, _ := completes(t, book, embed.Script{Code: "other + 1", Heap: other}); result != "8" {
				t.Errorf("a run from another heap answers %s", result)
			}
			answers(t, book, "POST", "/api/heaps/collect", `{"older_than_secs":3600}`, http.StatusOK)
			closeBook(t, book)
		}
		report, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir})
		if err != nil || report.OK || !strings.Contains(report.String(), heap) {
			t.Errorf("the verification gives %v, %v", report, err)
		}

		book = start(t, opts)
		s.Daybook, s.base = book, book.URL()
		if _, again := completes(t, book, embed.Script{Code: code}); again != heap {
			t.Fatalf("the script left heap %s, not %s", again, heap)
		}
		if result, _ := completes(t, book, embed.Script{Code: "kept + 1", Heap: heap}); result != "42" {
			t.Errorf("a run from the heap that was stored again answers %s", result)
		}
		lasting, ended := blobReport(t, book)
		if len(lasting) != 1 || lasting[0].Blob.SHA256 != head || len(ended) != 1 || ended[0].Blob.SHA256 != heap || !strings.Contains(ended[0].Repair, "stored again") {
			t.Errorf("the findings are %+v and, ended, %+v", lasting, ended)
		}
		if a := s.open(); !a.StateLost {
			t.Errorf("the session is opened again: %+v", a)
		}
		if e := s.turn("typeof n"); deref(e.Result) != "undefined" {
			t.Errorf("after the break n is %s, %s", deref(e.Result), deref(e.Error))
		}
		closeBook(t, book)
	}
}

// The server sends the beginning of a large heap before it finds the damage, and closes the
// connection. The verification of the server reports the heap, as for a smaller one.
func TestVerifyServerWithALargeDamagedHeap(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}}
	book := start(t, opts)
	_, heap := completes(t, book, embed.Script{Code: "var kept = []; while (kept.length < 400_000) kept.push(Math.random())"})
	closeBook(t, book)
	loseChunk(t, opts.DataDir, heap)

	book = start(t, opts)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(ctx context.Context, path string, header ...string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, book.URL()+path, nil)
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(r)
		if err == nil && resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			err = errors.New(resp.Status)
		}
		return resp, err
	}
	resp, err := get(within(t), "/api/ledger/blobs/heaps/"+heap)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); n == 0 || err == nil {
		t.Errorf("%d bytes of the heap were sent, %v", n, err)
	}
	r, err := embed.Verify(within(t), embed.VerifyOptions{Server: get, ServerURL: "here"})
	if err != nil || r.OK || !strings.Contains(r.String(), heap) {
		t.Errorf("the verification of the server: %v\n%s", err, r)
	}
}

// loseChunk damages the last chunk of a heap in the files of a closed Daybook.
func loseChunk(t *testing.T, dir, heap string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "OBJ_BLOBS", "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	var chunk []byte
	name := []byte(base64.URLEncoding.EncodeToString([]byte("heap/" + events.DefaultTenant + "/" + heap)))
	for _, path := range blocks {
		if all[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		if at := bytes.LastIndex(all[path], name); at >= 0 {
			chunk = append([]byte("$O.BLOBS.C."), blobID.FindSubmatch(all[path][at:])[1]...)
		}
	}
	slices.Reverse(blocks)
	for _, path := range blocks {
		if at := bytes.LastIndex(all[path], chunk); chunk != nil && at >= 0 {
			flipByte(t, path, at+len(chunk)+200)
			return
		}
	}
	t.Fatal("the heap is not in the blob store")
}

// A read-only start keeps the findings about blobs: its report lists them, and so does the
// report of a later start.
func TestDamagedLedgerKeepsFindingsOfBlobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := embed.Options{DataDir: dir}
	book := start(t, opts)
	_, heap := completes(t, book, embed.Script{Code: manyNumbers + "var kept = 41"})
	_, other := completes(t, book, embed.Script{Code: manyNumbers + "var other = 7"})
	closeBook(t, book)
	loseHeap(t, dir, heap, true)
	closeBook(t, start(t, opts)) // removes the damaged record from the store
	loseHeap(t, dir, other, true)
	flipByte(t, filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "LEDGER-0001", "msgs", "1.blk"), 300)
	file := filepath.Join(dir, "damaged-blobs.json")
	for range 2 {
		book = start(t, opts)
		named := false
		list, _ := book.Damage()
		for _, f := range list {
			named = named || f.Blob != nil && f.Blob.SHA256 == heap && f.Ended == nil
		}
		if !named {
			t.Errorf("the findings of a read-only start are %+v", list)
		}
		request(book, "GET", "/api/ledger/blobs/heaps/"+other, "") // finds damage of the other heap
		closeBook(t, book)
		if raw, err := os.ReadFile(file); err != nil || !strings.Contains(string(raw), heap) {
			t.Errorf("the kept findings: %s, %v", raw, err)
		}
	}
}

// With any damage of the files of the blob store, the server starts and takes runs. No run
// starts from a fresh isolate instead of a lost heap.
func TestDamagedBlobStore(t *testing.T) {
	t.Parallel()
	store := filepath.Join("jetstream", "jetstream", "$G", "streams", "OBJ_BLOBS")
	for name, harm := range map[string]func(t *testing.T, dir string){
		"the stream is missing":    func(t *testing.T, dir string) { removeAll(t, filepath.Join(dir, store)) },
		"its blocks are missing":   func(t *testing.T, dir string) { removeAll(t, filepath.Join(dir, store, "msgs")) },
		"its end is missing":       func(t *testing.T, dir string) { cut(t, filepath.Join(dir, store, "msgs", "1.blk"), 700) },
		"its description is wrong": func(t *testing.T, dir string) { flipByte(t, filepath.Join(dir, store, "meta.inf"), 50) },
		"its description is wrong, and the copy is missing": func(t *testing.T, dir string) {
			flipByte(t, filepath.Join(dir, store, "meta.inf"), 50)
			removeAll(t, filepath.Join(dir, "descriptions"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			book := start(t, embed.Options{DataDir: dir})
			_, heap := completes(t, book, embed.Script{Code: manyNumbers + "var kept = 41"})
			closeBook(t, book)
			harm(t, dir)
			book = start(t, embed.Options{DataDir: dir})
			lasting, ended := blobReport(t, book)
			if len(lasting)+len(ended) == 0 {
				t.Error("nothing is reported")
			}
			completes(t, book, embed.Script{Code: "1"})
			lost := len(lasting) > 0
			if status, body := request(book, "POST", "/api/exec", `{"code":"kept","heap":"`+heap+`"}`); lost != (status == http.StatusConflict) || !lost && status != http.StatusAccepted {
				t.Errorf("with %+v a run from the heap is answered %d: %s", lasting, status, body)
			}
			completes(t, book, embed.Script{Code: manyNumbers + "var kept = 41"})
			if result, _ := completes(t, book, embed.Script{Code: "kept", Heap: heap}); result != "41" {
				t.Errorf("a run from the heap that was stored again answers %s", result)
			}
			if lasting, _ := blobReport(t, book); len(lasting) > 0 {
				t.Errorf("in the end the findings are %+v", lasting)
			}
			closeBook(t, book)
			if report, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir}); err != nil || report.Verdict != embed.Unauthenticated {
				t.Errorf("in the end the verification gives %v, %v", report, err)
			}
		})
	}
}

func removeAll(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// cut removes bytes from the end of a file.
func cut(t *testing.T, path string, n int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-n)
	}
	if err != nil {
		t.Fatal(err)
	}
}
