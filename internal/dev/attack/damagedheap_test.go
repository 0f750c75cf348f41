package attack_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Three flipped bytes in the blob of a heap affect only the runs that need this heap. The
// server is ready and serves other runs and tenants, and a run of the script that created
// the heap stores it again.
func TestDamagedHeap(t *testing.T) {
	attack(t, "TestDamagedHeapAffectsOnlyItself in embed")
	runInParallel(t)
	s := newServer(t)
	owner, other := s.token("owner", "read,run"), s.token("other", "read,run")
	s.start()
	// Its heap is too large for its content to be stored in its metadata.
	const code = "var numbers = []; for (let i = 0, x = 1; i < 5000; i++) numbers.push(x = x * 48271 % 2147483647); var kept = 41"
	heap := s.run(owner, code, nil)["heap"].(string)
	s.end(syscall.SIGTERM)
	flipHeap(t, s.dir, "owner", heap)
	s.start()

	s.probe(other, choose(5, 100))
	s.probe(owner, choose(5, 100))
	refused := s.call(owner, http.MethodPost, "/api/exec", map[string]any{"code": "kept", "heap": heap}, http.StatusConflict)
	if text := refused["detail"].(string); !strings.Contains(text, "is damaged") || !strings.Contains(text, heap) {
		t.Errorf("a run from the damaged heap is refused with %q", text)
	}
	if report := s.call(owner, http.MethodGet, "/api/ledger/damage", nil, http.StatusOK); report["damaged"] != true || report["read_only"] != false || len(findingsOf(report, heap)) != 1 {
		t.Errorf("the owner of the heap gets the report %v", report)
	}
	if report := s.call(other, http.MethodGet, "/api/ledger/damage", nil, http.StatusOK); report["read_only"] != false || len(findingsOf(report, heap)) != 0 {
		t.Errorf("another tenant gets the report %v", report)
	}
	if again := s.run(owner, code, nil)["heap"]; again != heap {
		t.Fatalf("the script left heap %v", again)
	}
	if e := s.run(owner, "kept + 1", map[string]any{"heap": heap}); e["result"] != "42" {
		t.Errorf("from the heap that was stored again: %v", e)
	}
	report := s.call(owner, http.MethodGet, "/api/ledger/damage", nil, http.StatusOK)
	if list := findingsOf(report, heap); report["damaged"] != false || len(list) != 1 || list[0]["ended"] == nil {
		t.Errorf("in the end the report is %v", report)
	}
}

// findingsOf returns the findings of a report about a heap.
func findingsOf(report map[string]any, heap string) (list []map[string]any) {
	for _, f := range report["findings"].([]any) {
		f := f.(map[string]any)
		if blob, ok := f["blob"].(map[string]any); ok && blob["sha256"] == heap {
			list = append(list, f)
		}
	}
	return list
}

var blobID = regexp.MustCompile(`"nuid":"([^"]+)"`)

// flipHeap changes three bytes of the content of a heap in the files of a server
// that does not run.
func flipHeap(t *testing.T, dir, tenant, heap string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "OBJ_BLOBS", "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	name := []byte(base64.URLEncoding.EncodeToString([]byte("heap/" + tenant + "/" + heap)))
	for _, path := range blocks {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.LastIndex(raw, name)
		if at < 0 {
			continue
		}
		content := bytes.Index(raw, append([]byte("$O.BLOBS.C."), blobID.FindSubmatch(raw[at:])[1]...))
		if content < 0 {
			t.Fatal("the content is in another file")
		}
		for i := range 3 {
			raw[content+200+10*i] ^= 4
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("the heap is not in the blob store")
}
