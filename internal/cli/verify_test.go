package cli_test

import (
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

// A wrong key is not damage: it has its own verdict and exit status. A mistyped key is a mistake in
// the command line.
func TestVerifyDistinguishesAWrongKeyFromDamage(t *testing.T) {
	t.Parallel()
	book, other := serve(t), serve(t)
	dir := filepath.Join(t.TempDir(), "book")
	key := book.AuditKey()
	dangling := filepath.Join(t.TempDir(), "seen")
	if err := os.Symlink("nowhere", dangling); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{
		"url": book.URL(), "dir": dir, "dangling": dangling, "key": key, "other": other.AuditKey(),
		"mistyped": strings.Replace(key, "+", "+0", 1), "data": other.DataDir(),
	}
	play(t, known, []step{
		{args: `verify --server $url`, status: 7, stdout: "UNAUTHENTICATED  $url\n  events +none: the ledger is empty, so there is nothing to prove yet\n.*"}, // as for its directory
		{args: `verify --server $url --key $key --json`, stdout: `\{\s*"ok": true,\s*"verdict": "intact",.*"key_pinned": true,\s*"events": 0,.*`},
		{args: `events export $dir` + at, status: 2, stderr: "daybook: .*: the ledger has no events yet, so there is no checkpoint; run a script first\n"},
		{args: `run -e 1+1` + at, stdout: "2\n", stderr: ".*"},
		{args: `run -e 1+1 --server ` + other.URL(), stdout: "2\n", stderr: ".*"},
		{args: `events export $dir` + at, stdout: "Exported .*"},
		{args: `verify --export $dir --key $key`, stdout: "INTACT  $dir\n.*"},
		{args: `verify --export $dir --key $other`, status: 6, stdout: "WRONG KEY  $dir\n.*events +\\d+, positions 1 to .*! no checkpoint is signed with the keys given; the newest key beside the data is $key\nEverything else holds\\. .*"},
		{args: `verify --export $dir --key $other --json`, status: 6, stdout: `\{\s*"ok": false,\s*"verdict": "wrong_key",.*`},
		{args: `verify --export $dir --key $key --signers 1`, stdout: "INTACT  $dir\n.*"},
		{args: `verify --export $dir --key $key --signers 2`, status: 2, stderr: "daybook: --signers: 2 signers are required, and the trusted keys of .* are those of 1: $key; give a key of each signer, .*\n"},
		{args: `verify --export $dir --key $key --key $other --signers 2`, status: 2, stderr: "daybook: --signers: .* are those of 1: $key; .*\n"},
		{args: `verify --export $dir --key $key --signers 0`, status: 2, stderr: "daybook: .*--signers must be at least 1\n.*"},
		{args: `verify --export $dir --key $key --max-age=-1h`, status: 2, stderr: "daybook: .*--max-age must not be negative\n.*"},
		{args: `verify --export $dir --key $key --tenant x`, status: 2, stderr: "daybook: --tenant: an export says itself .*leave the tenant out\n"},
		{args: `verify --export $dir --key $key --log $dangling`, status: 2, stderr: "daybook: --log: .* a symbolic link to nowhere, which does not exist; create that directory, or name another one\n"},
		{args: `verify --export $dir --key $mistyped`, status: 2, stderr: "daybook: --key: not a verification key: .*\n"},
		{args: `verify --key $other --server $url`, status: 6, stdout: "WRONG KEY  $url\n.*"},
	})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	play(t, known, []step{
		{args: `verify --data-dir $data --key $key`, status: 6, stdout: "WRONG KEY  $data\n.*beside the data is $other\n.*"},
		{args: `verify --data-dir $data --tenant x`, status: 2, stderr: "daybook: --tenant: .*leave the tenant out.*--server.*\n"},
		{args: `verify --data-dir $data`, status: 7, stdout: "UNAUTHENTICATED  $data\n.*Give the key .* --key\\.\n"},
		{args: `events export $dir --data-dir $data`, status: 2, stderr: "daybook: export to $dir: it is not empty; name a directory that does not exist\n"},
		{args: `events export $data/mark --data-dir $data`, status: 2, stderr: "daybook: export to .*: not a directory\n"},
		{args: `events export $dir --resume --data-dir $data`, status: 2, stderr: "daybook: export to $dir: there is no unfinished export to continue\n"},
	})
	if err := os.RemoveAll(filepath.Join(other.DataDir(), "jetstream")); err != nil {
		t.Fatal(err)
	}
	play(t, known, []step{
		{args: `verify --data-dir $data`, status: 1, stdout: "NOT INTACT  $data\n.*recorded events are missing.*"}, // the proofs show it
	})
}

// A server whose proofs are missing reports that, and what to do.
func TestVerifyAServerWithoutProofs(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	book := keeping(t, opts)
	play(t, map[string]string{"url": book.URL()}, []step{{args: `run -e 1` + at, stdout: "1\n", stderr: ".*"}})
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(opts.DataDir, "audit")); err != nil {
		t.Fatal(err)
	}
	book = keeping(t, opts)
	play(t, map[string]string{"url": book.URL()}, []step{
		{args: `verify --server $url`, status: 5, stderr: "daybook: .*the proofs in .*audit are missing, but the ledger holds checkpoints signed as .*; restore the data directory from a backup that has its newest events, or .*\n"},
	})
}

// The environment names the server to verify, as for other commands. A flag takes precedence.
func TestVerifyAsksTheServerOfTheEnvironment(t *testing.T) { // not parallel: it sets a variable
	book := serve(t)
	known := map[string]string{"url": book.URL(), "data": book.DataDir(), "dir": filepath.Join(t.TempDir(), "book")}
	play(t, known, []step{
		{args: `run -e 1` + at, stdout: "1\n", stderr: ".*"},
		{args: `events export $dir` + at, stdout: "Exported .*"},
	})
	t.Setenv("DAYBOOK_SERVER", "http://127.0.0.1:1")
	play(t, known, []step{
		{args: `verify`, status: 5, stderr: "daybook: .*no server answers at http://127.0.0.1:1: .*\n"},
		{args: `verify --export $dir`, status: 7, stdout: "UNAUTHENTICATED  $dir\n.*"},
		{args: `verify --data-dir $data`, status: 7, stdout: "UNAUTHENTICATED  the process that owns $data\n.*"},
		{args: `verify` + at, status: 7, stdout: "UNAUTHENTICATED  $url\n.*"},
		{args: `verify --export $dir` + at, status: 2, stderr: ".*give --server or --export, not both\n.*"},
		{args: `exec list --data-dir $data`, stdout: "EXECUTION .*completed.*"},
		{args: `exec list`, status: 5, stderr: "daybook: no server answers at http://127.0.0.1:1: .*\n"},
	})
}

// A server that ends before it has sent a heap says nothing about the heap.
func TestVerifyWithoutAnswerAboutAHeap(t *testing.T) {
	t.Parallel()
	book := serve(t)
	target, err := url.Parse(book.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	play(t, map[string]string{"url": book.URL(), "proxy": server.URL}, []step{
		{args: `run -e globalThis.a=1` + at, stdout: "1\n", stderr: ".*"},
		{args: `verify --server $proxy`, status: 5, stderr: "daybook: .*the server closed the connection before it answered\n"},
		{args: `verify --server $proxy --skip-blobs`, status: 7, stdout: "UNAUTHENTICATED  $proxy\n.*"},
	})
}

// A server that is busy, over a limit or shutting down says nothing about a heap. One that does
// not have the heap, or lists it as damaged, does.
func TestVerifyOfAServerWithoutAHeap(t *testing.T) {
	t.Parallel()
	book := serve(t)
	target, err := url.Parse(book.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	play(t, map[string]string{"url": book.URL()}, []step{{args: `run -e globalThis.a=1` + at, stdout: "1\n", stderr: ".*"}})
	var damaged atomic.Value
	for _, test := range []struct {
		code    string
		status  int
		damaged bool // the damage report has the heap
		want    step
	}{
		{"exhausted", http.StatusTooManyRequests, false, step{status: 5, stderr: "daybook: verify $proxy: read the heap [0-9a-f]{64}: no heap now\n"}},
		{"unavailable", http.StatusServiceUnavailable, false, step{status: 5, stderr: "daybook: verify $proxy: read the heap [0-9a-f]{64}: no heap now\n"}},
		{"unavailable", http.StatusServiceUnavailable, true, step{status: 1, stdout: "NOT INTACT  $proxy\n.*the heap [0-9a-f]{64} cannot be read: stored data is damaged: it lacks 3 bytes.*"}},
		{"not_found", http.StatusNotFound, false, step{status: 1, stdout: "NOT INTACT  $proxy\n.*the heap [0-9a-f]{64} cannot be read: no heap now.*"}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, heap, isHeap := strings.Cut(r.URL.Path, "/blobs/heaps/")
			switch {
			case isHeap:
				if test.damaged {
					damaged.Store(heap)
				}
				w.Header().Set("Daybook-Api", "1")
				w.WriteHeader(test.status)
				fmt.Fprintf(w, `{"error":"no heap now","code":%q}`, test.code)
			case test.damaged && r.URL.Path == "/api/ledger/damage":
				w.Header().Set("Daybook-Api", "1")
				fmt.Fprintf(w, `{"findings":[{"blob":{"tenant":"default","kind":"heap","sha256":%q},"what":"it lacks 3 bytes"}]}`, damaged.Load())
			default:
				proxy.ServeHTTP(w, r)
			}
		}))
		test.want.args = `verify --server $proxy`
		play(t, map[string]string{"proxy": server.URL}, []step{test.want})
		server.Close()
	}
}

// A device without an end in place of a file is a mistake in the command line.
func TestEndlessFiles(t *testing.T) {
	t.Parallel()
	key := vkeyFor(t, "daybook/x")
	for _, args := range [][]string{
		{"verify", "--data-dir", t.TempDir(), "--key", key, "--checkpoint", "/dev/zero"},
		{"verify", "--data-dir", t.TempDir(), "--key", "/dev/zero"},
		{"verify", "--data-dir", t.TempDir(), "--key", key, "--witness-policy", "/dev/zero"},
		{"events", "export", filepath.Join(t.TempDir(), "export"), "--data-dir", t.TempDir(), "--checkpoint", "/dev/zero"},
	} {
		if a := daybook("", args...); a.status != 2 || !strings.Contains(a.err, "/dev/zero is longer than 1048576 bytes") {
			t.Errorf("%q: status %d, %s", args, a.status, a.err)
		}
	}
}
