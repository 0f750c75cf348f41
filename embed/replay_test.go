package embed_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/web/access"
)

// replayed is an answer of POST /api/executions/{id}/replay.
type replayed struct {
	Verdict, Reason string
	Difference      *struct{ Part, Recorded, Replayed string }
}

// A tenant replays its own runs, and cannot tell those of others from unknown ones. Each
// verdict is an event of the tenant.
func TestReplayOverREST(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, embed.Options{})
	ada, bob := g.token("acme", "ada", access.AllScopes), g.token("other", "bob", access.AllScopes)
	onlyRead, err := access.NewScopes(access.Read)
	if err != nil {
		t.Fatal(err)
	}
	reader := g.token("acme", "eve", onlyRead)
	g.await(reader)
	var run struct {
		ID string `json:"execution_id"`
	}
	g.decode(ada, http.MethodPost, "/api/exec?wait=60", `{"code":"console.log(Math.random()); Date.now()"}`, &run)
	path := "/api/executions/" + run.ID + "/replay"
	var got replayed
	g.decode(ada, http.MethodPost, path, "", &got)
	if got.Verdict != "identical" {
		t.Errorf("the verdict is %+v", got)
	}
	unknown := strings.Replace(path, run.ID, "019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3", 1)
	_, want := g.ask(bob, http.MethodPost, unknown, "")
	if status, answer := g.ask(bob, http.MethodPost, path, ""); status != http.StatusNotFound || strings.ReplaceAll(answer, run.ID, "019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3") != want {
		t.Errorf("another tenant is answered %d %s, want as for an unknown id: %s", status, answer, want)
	}
	if status, _ := g.ask(reader, http.MethodPost, path, ""); status != http.StatusForbidden {
		t.Errorf("a token that reads only is answered %d", status)
	}
	for token, n := range map[string]int{ada: 1, bob: 0} {
		_, list := g.ask(token, http.MethodGet, "/api/events?limit=1000&type="+string(events.TypeExecutionReplayed), "")
		if got := strings.Count(list, `"verdict":"identical"`); got != n {
			t.Errorf("%d verdicts, want %d: %s", got, n, list)
		}
	}
}

// Encrypted runs are replayed with their keys, from the data directory and from an export.
// After they are shredded, neither the record nor the recorded verdict has their content.
func TestReplayOfEncryptedRuns(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: filepath.Join(t.TempDir(), "data"), Content: embed.ContentOptions{Erasable: true}}
	book := start(t, opts)
	first := run(t, book, embed.Script{Code: `let secret = "m` + strings.Repeat("y", 70000) + `"; console.log("text"); secret.length`, Session: "s"})
	second := run(t, book, embed.Script{Code: `secret.length + 1`, Heap: *first.Heap, Session: "s"})
	verdict := func(id string) (r replayed) {
		t.Helper()
		if status, answer := postTo(t, book, "/api/executions/"+id+"/replay", ""); status != http.StatusOK || json.Unmarshal([]byte(answer), &r) != nil {
			t.Fatalf("%d %s", status, answer)
		}
		return r
	}
	for _, id := range []string{first.ExecutionID, second.ExecutionID} {
		if got := verdict(id); got.Verdict != "identical" {
			t.Errorf("the verdict is %+v", got)
		}
	}
	if _, err := book.Shred(within(t), events.DefaultTenant, retention.Named("s"), false, events.Actor{Principal: "tester", Transport: "embed"}); err != nil {
		t.Fatal(err)
	}
	if got := verdict(first.ExecutionID); got.Verdict != "not_replayed" || got.Reason != "content_shredded" {
		t.Errorf("after the shredding the verdict is %+v", got)
	}
}

// An export with encrypted content is replayed with the keys only.
func TestReplayOfAnEncryptedExport(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: filepath.Join(t.TempDir(), "data"), Content: embed.ContentOptions{Erasable: true}}
	book := start(t, opts)
	run(t, book, embed.Script{Code: `const n = Math.random(); console.log("text", n); n`, Session: "s"})
	key := book.AuditKey()
	closeBook(t, book)
	dir := filepath.Join(t.TempDir(), "export")
	if _, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir, Blobs: true}); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{filepath.Join(opts.DataDir, "keys"): "identical", "": "not_replayed no_keys", t.TempDir(): "not_replayed content_shredded"} {
		var got []string
		err := embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir, Keys: []string{key}, KeyDir: keys}, func(r embed.Replayed) error {
			got = append(got, strings.TrimSpace(string(r.Verdict)+" "+r.Reason))
			return nil
		})
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("with the keys in %q: %q, %v; want %s", keys, got, err, want)
		}
	}
	if err := embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir}, nil); !errors.Is(err, embed.ErrBadKey) {
		t.Errorf("without a trusted key: %v", err)
	}
	heap, err := filepath.Glob(filepath.Join(dir, "blobs", "heap-*"))
	if err != nil || len(heap) == 0 {
		t.Fatal("the export has no heap")
	}
	if err := os.Truncate(heap[0], 100); err != nil {
		t.Fatal(err)
	}
	unproven, _ := errors.AsType[*embed.VerdictError](embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir, Keys: []string{key}}, nil))
	if unproven == nil {
		t.Error("an export with a damaged heap is replayed")
	}
}
