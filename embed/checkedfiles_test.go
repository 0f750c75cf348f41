package embed_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/embed"
	"daybook/internal/lifecycle/damage"
)

// A start does not read files that have not changed since the stop before. A bit that changed in one without
// a change of its time is found by the scrub. A start reads all files if the record of the stop is damaged.
func TestStartTrustsWhatTheStopChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// With syncs: without them, nothing is recorded.
	start := func(t *testing.T, opts embed.Options) *embed.Daybook {
		t.Helper()
		opts.DataDir, opts.Runs.DrainWait = dir, -1
		book, err := embed.Start(within(t), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeBook(t, book) })
		return book
	}
	book := start(t, embed.Options{})
	for n := range 300 { // more than a tile of the tree, whose newest part a start reads
		if status, body := request(book, "PUT", "/api/heaps/"+strings.Repeat("ab", 32)+"/tags", fmt.Sprintf(`{"tags":{"n":"%d"}}`, n)); status != http.StatusOK {
			t.Fatalf("edit %d of the tags is answered %d: %s", n, status, body)
		}
	}
	closeBook(t, book)
	path := blockOf(dir, "1")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	flipByte(t, path, 20_000)
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}

	book = start(t, embed.Options{Proof: embed.ProofOptions{ScrubEvents: -1}, Runs: embed.RunOptions{Elsewhere: true}})
	if list, _ := book.Damage(); len(list) > 0 {
		t.Errorf("the start reads a file that has not changed: %+v", list)
	}
	closeBook(t, book)

	book = start(t, embed.Options{Runs: embed.RunOptions{Elsewhere: true}})
	ctx := within(t)
	for list, _ := book.Damage(); len(list) == 0; list, _ = book.Damage() {
		select {
		case <-ctx.Done():
			t.Fatal("the scrub finds nothing")
		case <-time.After(10 * time.Millisecond):
		}
	}
	closeBook(t, book)

	flipByte(t, filepath.Join(dir, "checked-files"), 100)
	book = start(t, embed.Options{Proof: embed.ProofOptions{ScrubEvents: -1}, Runs: embed.RunOptions{Elsewhere: true}})
	if list, _ := book.Damage(); len(list) == 0 || list[0].By != damage.FoundAtStart {
		t.Errorf("without a record the start finds %+v", list)
	}
}

// A start finds a loss that was accepted also if it reads no file, because none has changed.
func TestAcceptedLossInCheckedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(opts embed.Options) *embed.Daybook { // with syncs: without them, nothing is recorded
		t.Helper()
		opts.DataDir, opts.Runs.Elsewhere, opts.Proof.ScrubEvents = dir, true, -1
		book, err := embed.Start(within(t), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeBook(t, book) })
		return book
	}
	book := start(embed.Options{})
	for range 2 {
		if status, body := request(book, "PUT", "/api/heaps/"+strings.Repeat("ab", 32)+"/tags", `{"tags":{"a":"b"}}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
	}
	closeBook(t, book)
	raw, err := os.ReadFile(blockOf(dir, "1"))
	if err != nil {
		t.Fatal(err)
	}
	flipByte(t, blockOf(dir, "1"), bytes.LastIndex(raw, []byte(strings.Repeat("ab", 32)))) // in the second edit
	closeBook(t, start(embed.Options{Storage: embed.StorageOptions{AcceptDamage: true}}))
	for range 2 {
		book := start(embed.Options{})
		if list, _ := book.Damage(); len(list) > 0 {
			t.Errorf("a loss that was accepted is found again: %+v", list)
		}
		closeBook(t, book)
	}
}
