package cmemory_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"daybook/internal/resources/cmemory"
)

// Memory that SQLite freed returns to the operating system.
func TestGiveBack(t *testing.T) {
	db, err := sql.Open("sqlite3", filepath.Join(t.TempDir(), "x.db")+"?_cache_size=-131072&_journal_mode=WAL&_synchronous=OFF")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	// Between the freed pages, some memory stays in use.
	for _, q := range []string{"CREATE TABLE t (x BLOB)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) INSERT INTO t SELECT zeroblob(4000) FROM n", "CREATE TEMP TABLE last AS SELECT 1"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec("PRAGMA shrink_memory"); err != nil {
		t.Fatal(err)
	}
	before := anonymous(t)
	cmemory.GiveBack()
	after := anonymous(t)
	t.Logf("%d MiB before, %d MiB after", before>>20, after>>20)
	// A part of the 16 MiB is returned earlier. The race detector uses memory of its
	// own.
	if before-after < 4<<20 {
		t.Errorf("%d MiB are in use, %d before: of 16 MiB that were freed little is given back", after>>20, before>>20)
	}
}

// anonymous returns the resident anonymous memory of this process, in bytes.
func anonymous(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("this system does not tell the memory of a process")
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Skip("this system does not tell the anonymous memory of a process")
	return 0
}
