package embed_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
)

var errEnough = errors.New("enough")

// allEvents reads all events of the ledger.
func allEvents(t *testing.T, book *embed.Daybook) []events.Event {
	t.Helper()
	var list []events.Event
	err := book.Follow(within(t), 0, func(batch []events.Event, last uint64) error {
		list = append(list, batch...)
		if batch[len(batch)-1].Seq >= last {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	return list
}

// The first event of a new volume names the lost positions. Reads, runs, proofs and the next
// start work after it.
func TestAcceptDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	completes(t, book, embed.Script{Code: "globalThis.a = 1; 'x'.repeat(70_000)", Session: "s"})
	victim := run(t, book, embed.Script{Code: "console.log('find' + ' me'); 2", Session: "s"})
	completes(t, book, embed.Script{Code: "3", Session: "s"})
	closeBook(t, book)
	book = start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
	before := allEvents(t, book)
	closeBook(t, book)
	block := blockOf(dir, "1")
	raw, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(raw), "find me")
	if at < 0 {
		t.Fatal("the output is not there")
	}
	flipped := flipByte(t, block, at)

	// Without the flag the server is read-only, and its errors name the remedies.
	book = start(t, embed.Options{DataDir: dir})
	_, err = book.Submit(within(t), embed.Script{Code: "1"})
	wantError(t, err, "--accept-damage", "from a backup")
	closeBook(t, book)

	book = start(t, embed.Options{DataDir: dir, Storage: embed.StorageOptions{AcceptDamage: true}})
	if err := book.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	after := allEvents(t, book)
	var opened *events.LedgerVolumeOpened
	for _, e := range after {
		if d, ok := e.Data.(*events.LedgerVolumeOpened); ok {
			opened = d
			if e.Seq <= before[len(before)-1].Seq {
				t.Errorf("position %d is used again", e.Seq)
			}
		}
	}
	if opened == nil || opened.Volume != 2 || opened.Reason != events.VolumeDamaged || len(opened.Lost) != 1 || len(opened.Lost[0].Hashes) != 1 || opened.Signed == nil {
		t.Fatalf("the opening is %+v", opened)
	}
	hole := opened.Lost[0].From
	for _, e := range before {
		i := slices.IndexFunc(after, func(a events.Event) bool { return a.Seq == e.Seq })
		if (e.Seq == hole) != (i < 0) || i >= 0 && after[i].ID != e.ID {
			t.Errorf("event %d: found at %d", e.Seq, i)
		}
	}
	kept, err := os.ReadFile(filepath.Join(dir, opened.Kept, "jetstream", "$G", "streams", "LEDGER-0001", "msgs", "1.blk"))
	if err != nil || string(kept) != string(flipped) {
		t.Errorf("the damaged block is not kept as it was found: %v", err)
	}
	if code, text := answer(t, book, http.MethodPost, "/api/ledger/checkpoint", ""); code != http.StatusOK { // the tree is computed again
		t.Errorf("a checkpoint: %d %s", code, text)
	}
	// A bundle of entries has what the leaves are the hashes of, so there is none with the lost event.
	if code, text := answer(t, book, http.MethodGet, fmt.Sprintf("/api/ledger/tile/entries/000.p/%d", hole-1), ""); code != http.StatusOK {
		t.Errorf("the entries before the loss: %d %s", code, text)
	}
	if code, text := answer(t, book, http.MethodGet, fmt.Sprintf("/api/ledger/tile/entries/000.p/%d", hole), ""); code != http.StatusGone || !strings.Contains(text, fmt.Sprintf("position %d are lost", hole)) {
		t.Errorf("the entries with the lost one: %d %s", code, text)
	}
	completes(t, book, embed.Script{Code: "4", Session: "s"})
	if got, err := book.Wait(within(t), victim.ExecutionID); err != nil || got.Status != events.StatusCompleted {
		t.Errorf("the run that lost its output: %s, %v", got.Status, err)
	}
	closeBook(t, book)

	// The next start needs no flag.
	book = start(t, embed.Options{DataDir: dir})
	if err := book.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	completes(t, book, embed.Script{Code: "5"})
	closeBook(t, book)
	r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir})
	if err != nil || r.Verdict != embed.Unauthenticated || len(r.Lost) != 1 || r.Lost[0].From != hole || !r.Lost[0].Proven || r.Affected == 0 || r.Incomparable != 0 ||
		!strings.Contains(r.LostEffects[0].What, "lost in the hole named by event") {
		t.Fatalf("%v\n%s", err, r)
	}

	// Without damage the flag has no effect.
	book = start(t, embed.Options{DataDir: dir, Storage: embed.StorageOptions{AcceptDamage: true}, Runs: embed.RunOptions{Elsewhere: true}})
	if n := len(allEvents(t, book)); n <= len(after) {
		t.Errorf("%d events", n)
	}
	if list, err := filepath.Glob(filepath.Join(dir, "damaged-*")); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// Damage is accepted in a ledger with a removed volume. The reset of the tree keeps the leaves of
// the removed events, which cannot be computed again.
func TestAcceptDamageAfterARemoval(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	completes(t, book, embed.Script{Code: "1", Session: "s"})
	var v volume
	ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, &v)
	completes(t, book, embed.Script{Code: "console.log('find' + ' me'); 2"})
	completes(t, book, embed.Script{Code: "3"})
	removeOldest(t, book, 1)
	key := book.AuditKey()
	closeBook(t, book)

	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "LEDGER-0002", "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := false
	for _, path := range blocks {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if at := strings.Index(string(raw), "find me"); at >= 0 {
			flipByte(t, path, at)
			damaged = true
		}
	}
	if !damaged {
		t.Fatal("the output is not there")
	}
	book = start(t, embed.Options{DataDir: dir, Storage: embed.StorageOptions{AcceptDamage: true}})
	for range 2 {
		completes(t, book, embed.Script{Code: "40 + 2"})
		if r, err := embed.Verify(within(t), embed.VerifyOptions{Server: getFrom(book), ServerURL: "here", Keys: []string{key}}); err != nil || !r.OK || len(r.Removed) == 0 {
			t.Errorf("the server: %v\n%s", err, r)
		}
		closeBook(t, book)
		if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir, Keys: []string{key}}); err != nil || !r.OK || len(r.Removed) == 0 {
			t.Errorf("the directory: %v\n%s", err, r)
		}
		book = start(t, embed.Options{DataDir: dir}) // the flag is needed once
	}
}
