package embed_test

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/lifecycle/retention"
)

// copiesIn returns the names of the projection copies of a data directory.
func copiesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "projection-copies", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		names = append(names, filepath.Base(path))
	}
	return names
}

// awaitCopy waits until a projection copy is recorded, and returns its event.
func awaitCopy(t *testing.T, book *embed.Daybook) (c *events.LedgerProjectionsCopied) {
	t.Helper()
	done := make(chan struct{})
	err := book.Follow(within(t), 0, func(batch []events.Event, _ uint64) error {
		for _, e := range batch {
			if d, ok := e.Data.(*events.LedgerProjectionsCopied); ok && c == nil {
				c = d
				close(done)
				return http.ErrAbortHandler // ends Follow
			}
		}
		return nil
	})
	select {
	case <-done:
	default:
		t.Fatal(err)
	}
	return c
}

// After a volume was sealed, the projections are copied and the hash is recorded. A start without
// projections begins with the copy, and "from the first event" finds both equal, until one is changed.
func TestProjectionCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := embed.Options{DataDir: dir, Storage: embed.StorageOptions{ProjectionCopies: 2}}
	book := start(t, opts)
	paths := fillVolumes(t, book, 1)
	c := awaitCopy(t, book)
	if names := copiesIn(t, dir); len(names) != 1 || c.Volume != 1 || len(c.SHA256) != 64 || c.Schema == 0 {
		t.Fatalf("%+v, copies %v", c, names)
	}
	completes(t, book, embed.Script{Code: "console.log('after the copy'); 2"})
	before := answersOf(t, book, paths)
	closeBook(t, book)

	projectionsFile := filepath.Join(dir, "projections.db")
	if err := os.Remove(projectionsFile); err != nil {
		t.Fatal(err)
	}
	r, err := embed.Rebuild(within(t), opts)
	if err != nil || r.From != c.Position || r.Events <= r.From {
		t.Fatalf("%+v, error %v", r, err)
	}
	if err := os.Remove(projectionsFile); err != nil {
		t.Fatal(err)
	}
	book = start(t, opts)
	if diff := cmp.Diff(before, answersOf(t, book, paths)); diff != "" {
		t.Errorf("rebuilt from the copy: %s", diff)
	}
	closeBook(t, book)

	equal := func(want bool) {
		t.Helper()
		r, err := embed.RebuildFromStart(within(t), opts)
		if err != nil || r.From != 0 || len(r.Compared) != 2 {
			t.Fatalf("%+v, error %v", r, err)
		}
		for _, d := range r.Compared {
			if d.Skipped != "" || d.Rows == 0 || (d.Different == 0) != (want || strings.HasSuffix(d.File, ".zst")) {
				t.Errorf("compared %+v", d)
			}
		}
	}
	equal(true)
	if err := inFile(projectionsFile, "UPDATE executions SET status = 'failed'"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(projectionsFile+".sum", []byte("daybook-projections-sum-v1\nopen\n"), 0o600); err != nil { // as after a crash
		t.Fatal(err)
	}
	equal(false)
	equal(true)

	// A changed copy is not used.
	path := filepath.Join(dir, "projection-copies", copiesIn(t, dir)[0])
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/3] ^= 4
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := embed.Rebuild(within(t), opts); err != nil || r.From != 0 {
		t.Errorf("%+v, error %v", r, err)
	}
}

// Shredded content is in no copy: the copies that may have it are deleted before the shred is
// applied, also if an interrupted rebuild has left content.
func TestShredDeletesProjectionCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := embed.Options{DataDir: dir, Content: embed.ContentOptions{Erasable: true}, Storage: embed.StorageOptions{ProjectionCopies: 2}}
	book := start(t, opts)
	completes(t, book, embed.Script{Code: "'Dreiundvierzig'", Session: "private"})
	ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, nil)
	c := awaitCopy(t, book)
	if names := copiesIn(t, dir); len(names) != 1 {
		t.Fatalf("%+v, copies %v", c, names)
	}
	closeBook(t, book)
	for _, name := range []string{"projections.db.new", "projections.db.compared", "projection-copies/incomplete"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("Dreiundvierzig"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	book = start(t, opts)
	done, err := book.Shred(within(t), events.DefaultTenant, retention.Named("private"), false, eraser)
	if err != nil {
		t.Fatal(err)
	}
	await(t, book, done.Seq)
	for _, name := range copiesIn(t, dir) {
		// The next copy is made soon. It has the position of the shred or a later one.
		position, err := strconv.ParseUint(strings.TrimSuffix(name, ".zst"), 10, 64)
		if name != "incomplete" && (err != nil || position < done.Seq) {
			t.Errorf("after the shred there is the copy %s", name)
		}
	}
	if found := filesWith(t, dir, "Dreiundvierzig"); len(found) != 0 {
		t.Errorf("after the shred the content is in %v", found)
	}
	closeBook(t, book)
	if r, err := embed.RebuildFromStart(within(t), opts); err != nil || len(r.Compared) == 0 || r.Compared[0].Different != 0 || r.Compared[0].Skipped != "" {
		t.Errorf("%+v, error %v", r, err)
	}
}

// A server that makes no copies uses those that there are.
func TestWithoutProjectionCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := embed.Options{DataDir: dir, Storage: embed.StorageOptions{ProjectionCopies: -1}}
	book := start(t, opts)
	fillVolumes(t, book, 1)
	closeBook(t, book)
	if names := copiesIn(t, dir); len(names) != 0 {
		t.Fatalf("copies %v", names)
	}
	opts.Storage.ProjectionCopies = 2 // the sealed volume is due
	book = start(t, opts)
	c := awaitCopy(t, book)
	closeBook(t, book)
	opts.Storage.ProjectionCopies = -1
	if r, err := embed.Rebuild(within(t), opts); err != nil || r.From != c.Position {
		t.Errorf("%+v, error %v", r, err)
	}
	db, err := sql.Open("sqlite3", filepath.Join(dir, "projections.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var applied uint64
	if err := db.QueryRowContext(within(t), "SELECT applied FROM position").Scan(&applied); err != nil || applied < c.Position {
		t.Errorf("applied %d, error %v", applied, err)
	}
}

// Only the user of the server can read the files of the projections, also in a directory that others can
// open, and those of an earlier version.
func TestProjectionsArePrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"new", "of an earlier version"} {
		book := start(t, embed.Options{DataDir: dir})
		completes(t, book, embed.Script{Code: "1"})
		for _, name := range []string{"projections.db", "projections.db-wal", "projections.db-shm"} {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s, %s: %v, %v", when, name, info.Mode(), err)
			}
		}
		closeBook(t, book)
		if err := os.Chmod(filepath.Join(dir, "projections.db"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
