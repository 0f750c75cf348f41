package embed_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/embed"
	"daybook/internal/lifecycle/damage"
)

func blockOf(dir, n string) string {
	return filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "LEDGER-0001", "msgs", n+".blk")
}

func flipByte(t *testing.T, path string, at int) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 4
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return raw
}

func request(book *embed.Daybook, method, path, body string) (int, string) {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	book.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// With a damaged ledger the server reports the missing positions, answers the reads that it
// can, refuses writes, and does not change the damaged files.
func TestDamagedLedgerIsReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	e := run(t, book, embed.Script{Code: "console.log('kept'); 1", Session: "s"})
	closeBook(t, book)
	damaged := flipByte(t, blockOf(dir, "1"), 400)

	book = start(t, embed.Options{DataDir: dir})
	for _, test := range []struct {
		method, path, body string
		status             int
		want               []string
	}{
		{"GET", "/healthz", "", 200, nil},
		{"GET", "/readyz", "", 503, []string{"LEDGER-0001, position 1", "checksum"}},
		{"POST", "/api/exec", `{"code":"1"}`, 503, []string{"the ledger cannot be written", "position", "restore the data directory from a backup"}},
		{"PUT", "/api/heaps/" + *e.Heap + "/tags", `{"tags":{"a":"b"}}`, 503, []string{"position", "restore the data directory from a backup"}},
		{"GET", "/api/executions/" + e.ExecutionID, "", 200, []string{`"completed"`}},
		{"GET", "/api/executions/" + e.ExecutionID + "/output", "", 200, []string{"kept"}},
		{"GET", "/api/executions/" + e.ExecutionID + "/events", "", 503, []string{"cannot be answered", "position"}},
		{"GET", "/metrics", "", 200, []string{"daybook_damage "}},
		{"GET", "/api/webhooks", "", 503, nil},
	} {
		status, body := request(book, test.method, test.path, test.body)
		if status != test.status {
			t.Errorf("%s %s is answered %d: %s", test.method, test.path, status, body)
		}
		for _, want := range test.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s %s is answered without %q: %.500s", test.method, test.path, want, body)
			}
		}
		if strings.Contains(body, dir) {
			t.Errorf("%s %s contains the path of the files: %s", test.method, test.path, body)
		}
	}
	_, body := request(book, "GET", "/api/ledger/damage", "")
	var report struct {
		Damaged  bool
		Findings []damage.Finding
		Advice   string
	}
	if err := json.Unmarshal([]byte(body), &report); err != nil || !report.Damaged || len(report.Findings) == 0 || report.Advice == "" || report.Findings[0].By != damage.FoundAtStart {
		t.Errorf("the report is %s, %v", body, err)
	}
	closeBook(t, book)
	if now, err := os.ReadFile(blockOf(dir, "1")); err != nil || string(now) != string(damaged) {
		t.Errorf("the damaged block was changed, %v", err)
	}
	// With the block repaired, the server works again.
	flipByte(t, blockOf(dir, "1"), 400)
	book = start(t, embed.Options{DataDir: dir})
	completes(t, book, embed.Script{Code: "2"})
	if status, body := request(book, "GET", "/readyz", ""); status != http.StatusOK {
		t.Errorf("with the block as it was /readyz answers %d: %s", status, body)
	}
}

// The scrub finds damage that the startup check skipped, and the server becomes read-only.
func TestScrubFindsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	completes(t, book, embed.Script{Code: "for (let i = 0; i < 160; i++) console.log('x'.repeat(60_000)); 1"}) // two blocks
	closeBook(t, book)
	flipByte(t, blockOf(dir, "1"), 2_000_000)

	book = start(t, embed.Options{DataDir: dir, Storage: embed.StorageOptions{CheckBytes: 1 << 20}, Runs: embed.RunOptions{Elsewhere: true}})
	ctx := within(t)
	for {
		list, _ := book.Damage()
		if len(list) > 0 {
			if list[0].By == damage.FoundAtStart { // another reader may find it before the scrub
				t.Errorf("the finding is %+v", list[0])
			}
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal("the scrub finds nothing")
		case <-time.After(10 * time.Millisecond):
		}
	}
	_, err := book.Submit(ctx, embed.Script{Code: "1"})
	wantError(t, err, "the ledger cannot be written", "position")
	wantError(t, book.Ready(ctx), "position")
}
