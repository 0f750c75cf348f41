package embed_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
)

// ask sends a request to the HTTP interface of a Daybook and decodes the answer.
func ask(t *testing.T, book *embed.Daybook, method, path string, status int, into any) {
	t.Helper()
	r := httptest.NewRequestWithContext(within(t), method, "http://127.0.0.1"+path, nil)
	w := httptest.NewRecorder()
	book.Handler().ServeHTTP(w, r)
	raw, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if w.Code != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, w.Code, raw, status)
	}
	if into != nil {
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, raw)
		}
	}
}

type volume struct {
	Volume      int
	First, Last uint64
	Sealed      bool
}

// Requests across volumes are answered as if there were one volume, before and after the
// projections are rebuilt, and everything verifies.
func TestRunsOverManyVolumes(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	book := start(t, opts)
	ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusConflict, nil)
	var heap string
	var ids []string
	idempotent := embed.Script{Code: "1", IdempotencyKey: "once"}
	first := run(t, book, idempotent)
	const rounds = 4
	for round := range rounds {
		// A run that is in progress continues in the next volume.
		id := submit(t, book, embed.Script{Code: "console.log('begun'); await new Promise(done => setTimeout(done, 50)); 1", Session: "long"})
		var sealed volume
		ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, &sealed)
		if sealed.Volume != round+1 || !sealed.Sealed {
			t.Errorf("sealed %+v", sealed)
		}
		code := "globalThis.n = (globalThis.n ?? 0) + 1; console.log(n); n"
		result, next := completes(t, book, embed.Script{Code: code, Heap: heap, Session: "counted", Tags: map[string]string{"round": "x"}})
		if want := string(rune('1' + round)); result != want {
			t.Errorf("round %d gives %s", round, result)
		}
		heap = next
		if e, err := book.Wait(within(t), id); err != nil || e.Status != "completed" {
			t.Errorf("the run that was in progress: %+v, %v", e, err)
		}
		ids = append(ids, id)
	}
	if again := run(t, book, idempotent); again.ExecutionID != first.ExecutionID {
		t.Errorf("an idempotency key of the first volume gave execution %s, not %s", again.ExecutionID, first.ExecutionID)
	}
	var list struct{ Volumes []volume }
	ask(t, book, http.MethodGet, "/api/ledger/volumes", http.StatusOK, &list)
	if len(list.Volumes) != rounds+1 || list.Volumes[rounds].Sealed {
		t.Errorf("volumes %+v", list.Volumes)
	}
	for i, v := range list.Volumes[1:] {
		if v.First != list.Volumes[i].Last+1 {
			t.Errorf("volume %d begins at %d, the volume before it ends at %d", v.Volume, v.First, list.Volumes[i].Last)
		}
	}
	paths := []string{"/api/executions", "/api/heaps", "/api/heaps/" + heap + "/lineage", "/api/sessions", "/api/sessions/counted/entries", "/api/sessions/long/entries"}
	for _, id := range ids {
		paths = append(paths, "/api/executions/"+id, "/api/executions/"+id+"/output")
	}
	answers := func(book *embed.Daybook) map[string]any {
		all := map[string]any{}
		for _, path := range paths {
			var answer any
			ask(t, book, http.MethodGet, path, http.StatusOK, &answer)
			all[path] = answer
		}
		return all
	}
	awaitFinalized(t, book)
	before := answers(book)
	key := book.AuditKey()
	closeBook(t, book)

	r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}})
	if err != nil || !r.OK || !r.Complete || r.Ended != r.Executions {
		t.Errorf("%v\n%s", err, r)
	}
	dir := filepath.Join(t.TempDir(), "export")
	exported, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir, From: list.Volumes[1].First, To: list.Volumes[2].Last, Blobs: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err = embed.Verify(within(t), embed.VerifyOptions{Export: dir, Keys: []string{key}})
	if err != nil || !r.OK || exported.Events != list.Volumes[2].Last-list.Volumes[1].First+1 {
		t.Errorf("%d events, %v\n%s", exported.Events, err, r)
	}

	if err := rebuild(t, opts.DataDir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, answers(start(t, opts))); diff != "" {
		t.Errorf("after the projections were rebuilt (-before +after):\n%s", diff)
	}
}
