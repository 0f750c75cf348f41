package embed_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/events"
)

// awaitArchives waits until all sealed volumes but the newest one are archives.
func awaitArchives(t *testing.T, book *embed.Daybook) {
	t.Helper()
	var list struct {
		Volumes []struct{ Sealed, Archived bool }
	}
	for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ask(t, book, http.MethodGet, "/api/ledger/volumes", http.StatusOK, &list)
		n := len(list.Volumes) - 2
		if !slices.ContainsFunc(list.Volumes[:max(n, 0)], func(v struct{ Sealed, Archived bool }) bool { return !v.Archived }) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("volumes %+v", list.Volumes)
		}
	}
}

// archiveBlocks returns the files of the archives.
func archiveBlocks(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "ARCHIVE", "msgs", "*.blk"))
	if err != nil || len(list) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	return list
}

// fillVolumes runs scripts in n sealed volumes and the active one, and returns paths with answers.
func fillVolumes(t *testing.T, book *embed.Daybook, n int) (paths []string) {
	t.Helper()
	var heap string
	for range n {
		id := submit(t, book, embed.Script{Code: "console.log('started'); await new Promise(done => setTimeout(done, 30)); 1", Session: "long", IdempotencyKey: "key" + string(rune('0'+len(paths)))})
		paths = append(paths, "/api/executions/"+id, "/api/executions/"+id+"/output", "/api/executions/"+id+"/events")
		ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, nil)
		_, heap = completes(t, book, embed.Script{Code: "globalThis.n = (globalThis.n ?? 0) + 1; console.log(n); n", Heap: heap, Session: "counted", Tags: map[string]string{"round": "x"}})
		if _, err := book.Wait(within(t), id); err != nil {
			t.Fatal(err)
		}
	}
	awaitFinalized(t, book)
	return append(paths, "/api/executions", "/api/heaps", "/api/heaps/"+heap+"/lineage", "/api/sessions", "/api/sessions/counted/entries", "/api/sessions/long/entries", "/api/ledger/tile/0/000.p/10")
}

func answersOf(t *testing.T, book *embed.Daybook, paths []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range paths {
		status, text := answer(t, book, http.MethodGet, path, "")
		if all[path] = text; status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	return all
}

// A ledger whose volumes became archives has the same answers, exports and proofs as before, also
// after the projections are rebuilt from the archives, and after a volume is removed.
func TestArchivedVolumes(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), Storage: embed.StorageOptions{StreamVolumes: -1}}
	book := start(t, opts)
	paths := fillVolumes(t, book, 4)
	before, key := answersOf(t, book, paths), book.AuditKey()
	export := func() string {
		dir := filepath.Join(t.TempDir(), "export")
		if _, err := embed.Export(within(t), embed.ExportOptions{Server: getFrom(book), Dir: dir, From: 1, To: 30, Blobs: true}); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "events.ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	exported := export()
	closeBook(t, book)

	opts.Storage.StreamVolumes = 1
	book = start(t, opts)
	check := func(when string) {
		t.Helper()
		if diff := cmp.Diff(before, answersOf(t, book, paths)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
		if r, err := embed.Verify(within(t), embed.VerifyOptions{Server: getFrom(book), ServerURL: "here", Keys: []string{key}}); err != nil || !r.OK {
			t.Errorf("%s: the server: %v\n%s", when, err, r)
		}
	}
	awaitArchives(t, book)
	check("archived")
	if again := export(); again != exported {
		t.Error("the export of archived volumes differs from that of streams")
	}
	if list, _ := book.Damage(); len(list) > 0 {
		t.Errorf("damage %v", list)
	}
	closeBook(t, book)
	if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}}); err != nil || !r.OK || !r.Complete {
		t.Errorf("%v\n%s", err, r)
	}
	if err := rebuild(t, opts.DataDir); err != nil {
		t.Fatal(err)
	}
	book = start(t, opts)
	check("rebuilt")
	if again := run(t, book, embed.Script{Code: "console.log('started'); await new Promise(done => setTimeout(done, 30)); 1", Session: "long", IdempotencyKey: "key0"}); "/api/executions/"+again.ExecutionID != paths[0] {
		t.Errorf("an idempotency key of an archived volume gave execution %s", again.ExecutionID)
	}
	removeOldest(t, book, 1)
	removeOldest(t, book, 2)
	left := answersOf(t, book, paths[len(paths)-7:])
	closeBook(t, book)
	if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}}); err != nil || !r.OK || len(r.Removed) == 0 {
		t.Errorf("after the removals: %v\n%s", err, r)
	}
	if err := rebuild(t, opts.DataDir); err != nil {
		t.Fatal(err)
	}
	book = start(t, opts)
	if diff := cmp.Diff(left, answersOf(t, book, paths[len(paths)-7:])); diff != "" {
		t.Errorf("rebuilt after the removals: %s", diff)
	}
	for _, block := range archiveBlocks(t, opts.DataDir) {
		if raw, err := os.ReadFile(block); err != nil || bytes.Contains(raw, []byte("archive.0002.")) && !bytes.Contains(raw, []byte("archive.0003.")) {
			t.Errorf("%s holds only a removed volume: %v", block, err)
		}
	}
}

// Damage of an archive makes the server read-only. Accepting it loses the events of the frame that
// is damaged, and nothing if the index is.
func TestAcceptDamageOfArchives(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		part string
		lost bool
	}{
		"a frame":      {"archive.0002.frame.", true},
		"the index":    {"archive.0002.index.", false},
		"the filter":   {"archive.0001.filter.", false},
		"the manifest": {"archive.0001.manifest", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := embed.Options{DataDir: t.TempDir()}
			book := start(t, opts)
			paths := fillVolumes(t, book, 4)
			awaitArchives(t, book)
			before, key := answersOf(t, book, paths), book.AuditKey()
			closeBook(t, book)
			found := false
			for _, block := range archiveBlocks(t, opts.DataDir) {
				raw, err := os.ReadFile(block)
				if err != nil {
					t.Fatal(err)
				}
				// A claim names the manifest in a header.
				at := bytes.Index(bytes.ReplaceAll(raw, []byte(": archive."), []byte(": ARCHIVE.")), []byte(test.part))
				if at >= 0 && !found {
					found = true
					flipByte(t, block, at+len(test.part)+120)
				}
			}
			if !found {
				t.Fatal("the part is not there")
			}
			book = start(t, opts)
			if status, body := request(book, http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable {
				t.Errorf("without the flag, /readyz answers %d: %s", status, body)
			}
			closeBook(t, book)
			r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}})
			if err != nil || r.OK {
				t.Errorf("verification of a damaged archive: %v\n%s", err, r)
			}

			accepting := opts
			accepting.Storage.AcceptDamage = true
			book = start(t, accepting)
			for range 2 {
				if err := book.Ready(within(t)); err != nil {
					t.Fatal(err)
				}
				completes(t, book, embed.Script{Code: "40 + 2"})
				if _, heap := completes(t, book, embed.Script{Code: "40 + 2", Session: "counted"}); heap == "" {
					t.Error("no heap")
				}
				if !test.lost {
					for path, want := range before {
						if _, got := answer(t, book, http.MethodGet, path, ""); strings.HasPrefix(path, "/api/executions/") && got != want {
							t.Errorf("%s: %s, want %s", path, got, want)
						}
					}
				}
				if r, err := embed.Verify(within(t), embed.VerifyOptions{Server: getFrom(book), ServerURL: "here", Keys: []string{key}}); err != nil || !r.OK || (len(r.Lost) > 0) != test.lost {
					t.Errorf("the server: %v\n%s", err, r)
				}
				closeBook(t, book)
				r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}})
				if err != nil || !r.OK || (len(r.Lost) > 0) != test.lost {
					t.Errorf("the directory: %v\n%s", err, r)
				}
				for _, l := range r.Lost {
					if !l.Proven {
						t.Errorf("the hashes of %+v are not known", l)
					}
				}
				book = start(t, opts)
			}
			// The archive is the same to all readers, and damage of it has ended.
			all := allEvents(t, book)
			for i, e := range all[1:] {
				if e.Seq <= all[i].Seq || !test.lost && e.Seq != all[i].Seq+1 {
					t.Errorf("position %d follows %d", e.Seq, all[i].Seq)
				}
			}
			if last := all[len(all)-1]; last.Seq == 0 || last.Type == events.TypeLedgerVolumeSealed {
				t.Errorf("the last event is %+v", last)
			}
			if list, _ := book.Damage(); len(list) > 0 {
				t.Errorf("damage %v", list)
			}
		})
	}
}

// A start believes the record of the stop about archives, also that an opening in one records a loss. It
// reads the archives if a file of them has changed or is missing.
func TestStartTrustsCheckedArchives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// With syncs: without them, nothing is recorded.
	start := func(opts embed.Options) *embed.Daybook {
		t.Helper()
		opts.DataDir, opts.Runs.DrainWait = dir, -1
		book, err := embed.Start(within(t), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeBook(t, book) })
		return book
	}
	sound := func(book *embed.Daybook) {
		t.Helper()
		if err := book.Ready(within(t)); err != nil {
			t.Error(err)
		}
		if list, _ := book.Damage(); len(list) > 0 {
			t.Errorf("damage %v", list)
		}
	}
	book := start(embed.Options{})
	run(t, book, embed.Script{Code: "console.log('find' + ' me'); 2"})
	closeBook(t, book)
	block := blockOf(dir, "1")
	raw, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	flipByte(t, block, bytes.Index(raw, []byte("find me")))
	book = start(embed.Options{Storage: embed.StorageOptions{AcceptDamage: true}})
	sound(book)
	fillVolumes(t, book, 3)
	var list struct {
		Volumes []struct{ Archived bool }
	}
	for late := time.Now().Add(patience); len(list.Volumes) < 3 || !list.Volumes[1].Archived || !list.Volumes[2].Archived; time.Sleep(5 * time.Millisecond) {
		ask(t, book, http.MethodGet, "/api/ledger/volumes", http.StatusOK, &list)
		if time.Now().After(late) {
			t.Fatalf("volumes %+v", list.Volumes)
		}
	}
	if list.Volumes[0].Archived {
		t.Error("a volume with a lost event is archived")
	}
	closeBook(t, book)
	for range 2 {
		book = start(embed.Options{})
		sound(book)
		completes(t, book, embed.Script{Code: "3"})
		closeBook(t, book)
	}
	checked, err := os.ReadFile(filepath.Join(dir, "checked-files"))
	if err != nil || !bytes.Contains(checked, []byte(`"archives":[{"volume":2,`)) {
		t.Errorf("%s, error %v", checked, err)
	}
	if err := os.Remove(archiveBlocks(t, dir)[0]); err != nil {
		t.Fatal(err)
	}
	book = start(embed.Options{Runs: embed.RunOptions{Elsewhere: true}})
	if found, _ := book.Damage(); len(found) == 0 {
		t.Error("a missing file of archives is no damage")
	}
}
