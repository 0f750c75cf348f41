package embed_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/events"
)

// awaitCopies waits until copies are recorded, and returns their events by hash.
func awaitCopies(t *testing.T, book *embed.Daybook, n int) map[string]*events.LedgerProjectionsCopied {
	t.Helper()
	found, count := map[string]*events.LedgerProjectionsCopied{}, 0 // copies of the same position may be equal
	err := book.Follow(within(t), 0, func(batch []events.Event, _ uint64) error {
		for _, e := range batch {
			if d, ok := e.Data.(*events.LedgerProjectionsCopied); ok {
				found[d.SHA256] = d
				count++
			}
		}
		if count >= n {
			return io.EOF
		}
		return nil
	})
	if err != io.EOF {
		t.Fatalf("%d copies are recorded, want %d: %v", count, n, err)
	}
	return found
}

// theCopy returns the path of the only projection copy of a data directory, and its hash.
func theCopy(t *testing.T, dir string) (path, sum string) {
	t.Helper()
	names := copiesIn(t, dir)
	if len(names) != 1 {
		t.Fatalf("there are the copies %v", names)
	}
	path = filepath.Join(dir, "projection-copies", names[0])
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, events.Hash(raw)
}

// awaitNoCopy waits until a projection copy is deleted.
func awaitNoCopy(t *testing.T, path string) {
	t.Helper()
	for ctx := within(t); ; {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s stays", path)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Each server that shares a ledger has copies of its own, records them and begins with them. It can
// begin with one of another server if that is recorded for its position. A removal of a volume by one
// server deletes the copies of the others too, when these have applied it.
func TestCopiesOfServersThatShareALedger(t *testing.T) {
	t.Parallel()
	url := outsideNATS(t)
	var opts [2]embed.Options
	var books [2]*embed.Daybook
	for i := range opts {
		opts[i] = embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: url}, Proof: embed.ProofOptions{Off: i > 0}, Storage: embed.StorageOptions{ProjectionCopies: 2}}
		books[i] = start(t, opts[i])
	}
	paths := fillVolumes(t, books[0], 1)
	recorded := awaitCopies(t, books[0], 2)
	last := completesAt(t, books[0])
	var before [2]map[string]string
	for i, book := range books {
		await(t, book, last)
		before[i] = answersOf(t, book, paths[:len(paths)-1]) // not the proofs, which are those of a server
		closeBook(t, book)
	}
	var files [2]string
	for i, o := range opts {
		path, sum := theCopy(t, o.DataDir)
		c := recorded[sum]
		if files[i] = path; c == nil || !strings.HasSuffix(path, fmt.Sprintf("%d.zst", c.Position)) {
			t.Fatalf("server %d has %s with the hash %s; recorded are %v", i, path, sum, recorded)
		}
		if r, err := embed.Rebuild(within(t), o); err != nil || r.From != c.Position {
			t.Errorf("server %d: %+v, want the copy at %d, error %v", i, r, c.Position, err)
		}
	}
	// Server 1 gets the copy of server 0.
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	files[1] = filepath.Join(filepath.Dir(files[1]), filepath.Base(files[0]))
	if err := os.Link(files[0], files[1]); err != nil {
		t.Fatal(err)
	}
	if r, err := embed.Rebuild(within(t), opts[1]); err != nil || r.From == 0 {
		t.Errorf("%+v, error %v", r, err)
	}
	for i, o := range opts {
		if r, err := embed.RebuildFromStart(within(t), o); err != nil || len(r.Compared) != 2 || r.Compared[0].Skipped+r.Compared[1].Skipped != "" || r.Compared[0].Different+r.Compared[1].Different > 0 {
			t.Errorf("server %d: %+v, error %v", i, r, err)
		}
	}
	books[0] = start(t, opts[0])
	if diff := cmp.Diff(before[0], answersOf(t, books[0], paths[:len(paths)-1])); diff != "" {
		t.Error(diff)
	}
	removeOldest(t, books[0], 1)
	awaitNoCopy(t, files[0])
	books[1] = start(t, opts[1])
	awaitNoCopy(t, files[1])
}

// completesAt runs a script and returns the position of the end of the run.
func completesAt(t *testing.T, book *embed.Daybook) (last uint64) {
	t.Helper()
	e := run(t, book, embed.Script{Code: "1"})
	for _, e := range history(t, book, e.ExecutionID) {
		last = max(last, e.Seq)
	}
	return last
}

// A server that lacks content keys of another server, or whose keys are lost, makes no copy: a rebuild
// that begins with it would lack content that the keys give once they are there.
func TestNoCopyWithoutKeys(t *testing.T) {
	t.Parallel()
	url := outsideNATS(t)
	opts := embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: url}, Content: embed.ContentOptions{Erasable: true}, Storage: embed.StorageOptions{ProjectionCopies: 2}}
	other := embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: url}, Storage: embed.StorageOptions{ProjectionCopies: 2}}
	log := new(journal)
	other.Logger, other.Runs.Elsewhere, other.Proof.Off = log.logger(), true, true // the other one signs
	book, beside := start(t, opts), start(t, other)
	fillVolumes(t, book, 1)
	awaitCopies(t, book, 1)
	for ctx := within(t); !strings.Contains(log.String(), "keys that do not exist here"); {
		select {
		case <-ctx.Done():
			t.Fatalf("the log does not say why no copy is made: %s", log)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if names := copiesIn(t, other.DataDir); len(names) != 0 {
		t.Errorf("there are the copies %v", names)
	}
	closeBook(t, beside)
}

// Copies that are not recorded, or damaged, neither stay nor keep the server from making another one.
func TestUnusableCopiesAreReplaced(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"not recorded": func(path string) error {
			return os.Rename(path, filepath.Join(filepath.Dir(path), "00000000000000100000.zst"))
		},
		"damaged": func(path string) error { return os.Truncate(path, 50) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := embed.Options{DataDir: t.TempDir(), Storage: embed.StorageOptions{ProjectionCopies: 2}}
			book := start(t, opts)
			fillVolumes(t, book, 1)
			awaitCopies(t, book, 1)
			completes(t, book, embed.Script{Code: "1"}) // a copy whose recording is canceled is deleted
			closeBook(t, book)
			path, _ := theCopy(t, opts.DataDir)
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			book = start(t, opts)
			recorded := awaitCopies(t, book, 2)
			completes(t, book, embed.Script{Code: "1"})
			closeBook(t, book)
			_, sum := theCopy(t, opts.DataDir)
			if c := recorded[sum]; c == nil {
				t.Errorf("the hash %s is not recorded", sum)
			} else if r, err := embed.Rebuild(within(t), opts); err != nil || r.From != c.Position {
				t.Errorf("%+v, error %v", r, err)
			}
		})
	}
}
