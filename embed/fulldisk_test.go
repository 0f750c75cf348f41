package embed_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"daybook/embed"
	"daybook/events"
)

// A server whose ledger cannot be written reports that and continues to answer reads. The test
// cannot fill the disk; it limits the size of the files of the process instead.
func TestADiskWithoutRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pid, stop := holderProcess(t, dir)
	raw, err := os.ReadFile(filepath.Join(dir, "url"))
	if err != nil {
		t.Fatal(err)
	}
	url := string(raw)
	status, body := post(t, url+"/api/exec", `{"code":"1+1"}`)
	var first struct {
		ID string `json:"execution_id"`
	}
	if err := json.Unmarshal([]byte(body), &first); err != nil || status != http.StatusAccepted {
		t.Fatalf("a run is answered %d: %s", status, body)
	}
	if _, body := get(t, url+"/api/executions/"+first.ID+"?wait=30"); !strings.Contains(body, `"completed"`) {
		t.Fatalf("the run is %s", body)
	}
	large := `{"code":"` + strings.Repeat(" ", 100_000) + `2"}` // is stored in the blob store

	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, &before); err != nil {
		t.Skipf("the size of another process's files cannot be limited: %v", err)
	}
	for _, code := range []string{`{"code":"2"}`, `{"code":"3"}`, large} {
		status, body := post(t, url+"/api/exec", code)
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "the ledger cannot be written") || !strings.Contains(body, "takes writes again automatically") {
			t.Errorf("a run that cannot be recorded is answered %d: %s", status, body)
		}
		if strings.Contains(body, dir) {
			t.Errorf("the answer contains the path of the files: %s", body)
		}
	}
	if status, body := get(t, url+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "the ledger cannot be written") {
		t.Errorf("/readyz answers %d: %s", status, body)
	}
	if status, body := get(t, url+"/api/executions/"+first.ID); status != http.StatusOK || !strings.Contains(body, `"result":"2"`) {
		t.Errorf("a recorded run is answered %d: %s", status, body)
	}

	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &before, nil); err != nil {
		t.Fatal(err)
	}
	// The server takes writes again without a restart. The refused runs were not recorded.
	status, body = 0, ""
	for deadline := time.Now().Add(30 * time.Second); status != http.StatusAccepted; time.Sleep(20 * time.Millisecond) {
		if status, body = post(t, url+"/api/exec", `{"code":"20+3"}`); time.Now().After(deadline) {
			t.Fatalf("with space again, a run is answered %d: %s", status, body)
		}
	}
	var second struct {
		ID string `json:"execution_id"`
	}
	if err := json.Unmarshal([]byte(body), &second); err != nil {
		t.Fatal(err)
	}
	if _, body := get(t, url+"/api/executions/"+second.ID+"?wait=30"); !strings.Contains(body, `"result":"23"`) {
		t.Errorf("with space again, the run is %s", body)
	}
	if status, body := get(t, url+"/readyz"); status != http.StatusOK {
		t.Errorf("with space again, /readyz answers %d: %s", status, body)
	}
	stop()
	book := start(t, embed.Options{DataDir: dir})
	if e, err := book.Wait(within(t), first.ID); err != nil || e.Status != events.StatusCompleted {
		t.Errorf("after a restart the first run is %s, %v", e.Status, err)
	}
	if result, _ := completes(t, book, embed.Script{Code: "2+2"}); result != "4" {
		t.Errorf("after a restart 2+2 is %s", result)
	}
}

func post(t *testing.T, url, body string) (status int, answer string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}
