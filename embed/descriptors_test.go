package embed_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that may open no more files reports that and no damage. Once it may open files
// again, it works without a restart and has all acknowledged events.
func TestWithoutDescriptors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pid, stop := holderProcess(t, dir)
	raw, err := os.ReadFile(filepath.Join(dir, "url"))
	if err != nil {
		t.Fatal(err)
	}
	url := string(raw)
	submit := func() (status int, id, body string) {
		status, body = post(t, url+"/api/exec", `{"code":"console.log(1); 20+3"}`) // over the open connection
		var answer struct {
			ID string `json:"execution_id"`
		}
		_ = json.Unmarshal([]byte(body), &answer)
		return status, answer.ID, body
	}
	status, first, body := submit()
	if status != http.StatusAccepted {
		t.Fatalf("a run is answered %d: %s", status, body)
	}
	get(t, url+"/api/executions/"+first+"?wait=30")

	var before unix.Rlimit
	err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before)
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 4, Max: before.Max}, nil)
	}
	if err != nil {
		t.Skipf("the descriptors of another process cannot be limited: %v", err)
	}
	acknowledged := []string{first}
	for range 5 {
		// An append to the same file needs no new descriptor.
		if status, id, _ := submit(); status == http.StatusAccepted {
			acknowledged = append(acknowledged, id)
		}
		get(t, url+"/api/executions?limit=5")
		get(t, url+"/api/events?limit=1000")
		if _, body := get(t, url+"/readyz"); strings.Contains(body, "damage") {
			t.Errorf("/readyz answers %s", body)
		}
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		status, id, body := submit()
		if status == http.StatusAccepted {
			acknowledged = append(acknowledged, id)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with descriptors again, a run is answered %d: %s", status, body)
		}
	}
	for _, id := range acknowledged {
		if _, body := get(t, url+"/api/executions/"+id+"?wait=30"); !strings.Contains(body, `"result":"23"`) {
			t.Errorf("an acknowledged run is %s", body)
		}
	}
	if status, body := get(t, url+"/readyz"); status != http.StatusOK {
		t.Errorf("with descriptors again, /readyz answers %d: %s", status, body)
	}
	// Everything is signed soon, and a clean stop leaves no event unsigned.
	_, body = get(t, url+"/api/events?limit=100000")
	events := strings.Count(strings.TrimSpace(body), "\n") + 1
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, checkpoint := get(t, url+"/api/ledger/checkpoint")
		lines := strings.SplitN(checkpoint, "\n", 3)
		if len(lines) == 3 {
			if size, err := strconv.Atoi(lines[1]); err == nil && size+2 > events {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Errorf("with descriptors again, %d events have the checkpoint %s", events, checkpoint)
			break
		}
	}
	if status, body := get(t, url+"/api/ledger/damage"); status != http.StatusOK || !strings.Contains(body, `"damaged":false`) {
		t.Errorf("damage is answered %d: %s", status, body)
	}
	stop()
}
