package embed_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"daybook/embed"
)

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// A process that is killed while it creates or seals a stream leaves a stream configuration
// without its checksum. The next start logs the repair and continues.
func TestKilledWhileWritingStreamConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	streams := filepath.Join(dir, "jetstream", "jetstream", "$G", "streams")
	open := func(want string) *embed.Daybook {
		t.Helper()
		log := &lines{}
		book := start(t, embed.Options{DataDir: dir, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if got := strings.Count(log.String(), "completed a change of a stream configuration"); got != 1 || !strings.Contains(log.String(), want) {
			t.Errorf("the log names %d repairs, want one with %q:\n%s", got, want, log)
		}
		if list, _ := book.Damage(); len(list) > 0 {
			t.Errorf("damage is reported: %+v", list)
		}
		return book
	}
	if err := os.MkdirAll(filepath.Join(streams, "LEDGER-0001", "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(streams, "LEDGER-0001", "meta.inf"), []byte(`{"name":"LEDGER-0001"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	book := open("it was removed")
	_, heap := completes(t, book, embed.Script{Code: "var kept = 41"})
	closeBook(t, book)

	flipped := filepath.Join(streams, "LEDGER-0001", "meta.inf")
	raw, err := os.ReadFile(flipped)
	if err == nil {
		err = os.WriteFile(flipped, bytes.Replace(raw, []byte(`"sealed":false`), []byte(`"sealed":true`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	book = open("the one before was restored")
	if result, _ := completes(t, book, embed.Script{Code: "kept + 1", Heap: heap}); result != "42" {
		t.Errorf("the run answers %s", result)
	}
}
