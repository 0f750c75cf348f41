package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The monitor compares each checkpoint with those that it kept, and alerts by its exit status and a
// webhook when the server shows another history.
func TestMonitor(t *testing.T) {
	t.Parallel()
	book, other := serve(t), serve(t)
	alerts := make(chan map[string]any, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		raw, _ := io.ReadAll(in.Body)
		var got map[string]any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Error(err)
		}
		alerts <- got
	}))
	defer hook.Close()
	seen, theirs := filepath.Join(t.TempDir(), "seen"), filepath.Join(t.TempDir(), "theirs")
	known := map[string]string{"url": book.URL(), "key": book.AuditKey(), "other": other.AuditKey(), "seen": seen, "theirs": theirs, "hook": hook.URL}
	play(t, known, []step{
		{args: `monitor --server $url --log $seen --once`, status: 2, stderr: "daybook: --log: .*give the key of the ledger once, with --key\n"},
		{args: `run -e 1+1` + at, stdout: "2\n", stderr: ".*"},
		{args: `monitor --server $url --key $key --log $seen --once`, stdout: `\S+ INTACT \d+ events signed, \d+ sampled\n`},
		{args: `run -e 1+2` + at, stdout: "3\n", stderr: ".*"},
		{args: `monitor --server $url --log $seen --once --json`, stdout: `\{[^\n]*"verdict":"intact",[^\n]*"known_checkpoints":1,[^\n]*\}` + "\n"},
		{args: `monitor --server $url --log $seen --once --max-age 1ns --webhook $hook/a`, status: 8, stdout: `INTACT UP TO \d+ .*`},
		{args: `monitor --server $url --key $other --log $theirs --once --webhook $hook/b`, status: 6, stdout: "WRONG KEY .*"},
		{args: `monitor --server $url --log $seen --once --signers 2`, status: 2, stderr: "daybook: --signers: 2 signers are required, .*\n"},
		{args: `monitor --server http://127.0.0.1:1 --log $seen --once --webhook $hook/c`, status: 5, stderr: "daybook: .*"},
		{args: `monitor --server $url --log $seen --max-age=-1h --once`, status: 2, stderr: "daybook: .*--max-age not negative\n.*"},
		{args: `monitor --server $url --log $seen --webhook ftp://x --once`, status: 2, stderr: "daybook: .*--webhook.*"},
	})
	for _, want := range []string{"intact_up_to", "wrong_key", "no_answer"} {
		if got := <-alerts; got["verdict"] != want || got["source"] == "" {
			t.Errorf("the alert is %v, want %s", got, want)
		}
	}
	raw, err := os.ReadFile(filepath.Join(seen, "checkpoints"))
	if err != nil || strings.Count(string(raw), "\u2014 ") < 2 {
		t.Errorf("kept %s, %v", raw, err)
	}
	if _, err := os.Stat(filepath.Join(theirs, "checkpoints")); !os.IsNotExist(err) {
		t.Errorf("a checkpoint of a wrong key is kept: %v", err)
	}
}
