package cli_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"daybook/embed"
)

// The runs of an export are replayed without the server, from heaps that the trusted key
// proves. Nothing of an export that is not proven is executed.
func TestReplayOfAnExport(t *testing.T) {
	t.Parallel()
	book, other := serve(t), serve(t)
	dir, bare := filepath.Join(t.TempDir(), "book"), filepath.Join(t.TempDir(), "bare")
	known := map[string]string{
		"url": book.URL(), "dir": dir, "empty": t.TempDir(), "bare": bare, "key": book.AuditKey(), "other": other.AuditKey(), "more": written(t, "more.ts", "c.n += 10; c.up()"), "long": written(t, "long.ts", "const text: string = '"+strings.Repeat("x", 70000)+"'; text.length"),
	}
	play(t, known, []step{
		{args: `run -e class·C{n=0;up(){return·++this.n}};const·c=new·C();console.log(Math.random());c.up() --session work` + at, stdout: "(?s:.*)1\n", stderr: "status: completed\nheap:   (?P<heap>" + hash + ")\n"},
		{args: `run --heap $heap -e c.up() --session work --json` + at, stdout: `\{"execution_id":"(?P<id>[^"]+)".*"result":"2".*\}\n`},
		{args: `run $long` + at, stdout: "70000\n", stderr: "status: completed\n.*"},
		{args: `run -e throw·new·Error("no")` + at, status: 1, stderr: ".*"},
		{args: `events export $dir --heaps` + at, stdout: "Exported .*"},
		{args: `events export $bare` + at, stdout: "Exported .*"},
		{args: `replay --from-export $dir --trust-key $key`, stdout: "4 runs: 4 identical\n"},
		{args: `replay --from-export $dir --trust-key $key --session work --parallel 1`, stdout: "2 runs: 2 identical\n"},
		{args: `replay $id --from-export $dir --trust-key $key`, stdout: "$id  identical \\(output, calls, status, javascript, result, heap\\) in .*\n"},
		{args: `replay $id --from-export $dir --trust-key $key --json`, stdout: `\{"execution_id":"$id","verdict":"identical",.*\}\n`},
		{args: `replay $id --from-export $dir --trust-key $key --step`, stdout: "TIME +STEP +WHAT +TEXT\n\\+0 ms +end +completed +2\n$id  identical .*\n"},
		{args: `replay $id --from-export $dir --trust-key $key --what-if $more`, status: 1, stdout: "$id  different in .*\nend\n- completed 2\n\\+ completed 12\noutput\n  0 equal lines\nglobals\n.*c .*\n.*c .*\n"},
		{args: `replay $id --from-export $dir --trust-key $other --what-if $more`, status: 6, stderr: "daybook: the export is not proven.*\n"},
		{args: `replay $id --from-export $dir --trust-key $key --heap-memory-ceiling 1`, status: 1, stdout: "$id  not replayed: the run had a heap limit of \\d+ MB, and at most 1 are allowed; raise --heap-memory-ceiling\n"},
		{args: `replay $id --from-export $dir --trust-key $key --heap-memory-ceiling 4097`, status: 2, stderr: "daybook: .*--heap-memory-ceiling is 4097.*\n.*"},
		{args: `replay --from-export $bare --trust-key $key`, status: 1, stdout: "$id  not replayed: the input heap $heap is not in the blob store; make the export with \"daybook events export --heaps\", which adds the blobs\n\\S+  not replayed: .*blobs/text-.*; make the export with .*\n4 runs: 2 identical, 2 not replayed\n"},
		{args: `replay --from-export $dir --trust-key $key --session wor`, status: 2, stderr: "daybook: no run of the export belongs to a session with the name or id \"wor\"; give the complete name or id, .*\n"},
		{args: `replay nosuch --from-export $dir --trust-key $key`, status: 2, stderr: "daybook: 0 executions of the export have an id that begins with \"nosuch\"\n"},
		{args: `replay --from-export $dir --trust-key $other`, status: 6, stderr: "daybook: the export is not proven, so nothing of it is executed: WRONG KEY .*\nNo checkpoint of the export is signed with the keys of --trust-key. Ask the operator of the ledger for its key, .*\n"},
		{args: `replay --from-export $empty --trust-key $key`, status: 2, stderr: "daybook: .*there is no export in $empty; name the directory that \"daybook events export\" made\n"},
		{args: `replay --from-export $dir --trust-key $empty`, status: 2, stderr: "daybook: --trust-key \"$empty\" is neither a verification key nor a file of them: .*; give a key of the form name\\+hash\\+base64, or a file that holds one, such as audit/vkey .*\n"},
		{args: `replay --from-export $dir --trust-key abc`, status: 2, stderr: "daybook: --trust-key .*\n"},
		{args: `replay --from-export $dir`, status: 2, stderr: "daybook: .*--from-export needs --trust-key: give .*audit/vkey in the data directory.*\n.*"},
		{args: `replay --from-export $dir.none --trust-key $key`, status: 2, stderr: "daybook: --from-export: .*no such file or directory; name the directory that \"daybook events export\" created\n"},
		{args: `replay --trust-key $key --all` + at, status: 2, stderr: "daybook: .*are for --from-export\n.*"},
	})
	path := filepath.Join(dir, "events.ndjson")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(raw, []byte("c.up()"), []byte("c.up( "), 1)
	if bytes.Equal(changed, raw) {
		t.Fatal("no event has the source")
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	play(t, known, []step{
		{args: `replay --from-export $dir --trust-key $key`, status: 1, stderr: "daybook: the export is not proven, so nothing of it is executed: NOT INTACT .*\n\"daybook verify --export $dir\" with the same key lists the findings.\n"},
	})
}

// A replay of many runs waits when the server limits its requests, and continues after a run that
// no longer exists.
func TestReplayOfManyRunsGoesOn(t *testing.T) {
	t.Parallel()
	book := serve(t)
	target, err := url.Parse(book.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	var replays atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := 0
		if strings.HasSuffix(r.URL.Path, "/replay") {
			status = map[int64]int{1: http.StatusTooManyRequests, 2: http.StatusNotFound}[replays.Add(1)]
		}
		if status == 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "0")
		w.Header().Set(embed.APIHeader, "1")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"about:blank","title":%q,"status":%d,"detail":"gone away","error":"gone away","code":%q}`, http.StatusText(status), status, map[int]string{404: "not_found", 429: "exhausted"}[status])
	}))
	defer front.Close()
	play(t, map[string]string{"url": front.URL}, []step{
		{args: `run -e 1` + at, stdout: "1\n", stderr: ".*"},
		{args: `run -e 2` + at, stdout: "2\n", stderr: ".*"},
		{args: `replay --all --parallel 1` + at, status: 1, stdout: "2 runs: 1 identical, 1 not replayed\n", stderr: "\\S+  not replayed: gone away\n"},
	})
	if n := replays.Load(); n != 3 {
		t.Errorf("%d requests for replays", n)
	}
}
