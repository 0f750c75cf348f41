package embed_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// record fills a ledger with runs of several kinds and returns their ids.
func record(t *testing.T, book *embed.Daybook) (ids []string, heap string) {
	t.Helper()
	for _, s := range []embed.Script{
		{Code: `let kept = {n: 41}; console.log("first")`, Session: "before", Tags: map[string]string{"at": "start"}},
		{Code: `throw new Error("on record")`},
		{Code: `console.log("a\nb"); "x".repeat(600_000)`}, // a result that is too large for its event
	} {
		e := run(t, book, s)
		ids = append(ids, e.ExecutionID)
		if heap == "" {
			heap = deref(e.Heap)
		}
	}
	return ids, heap
}

// seen returns all answers about executions.
func seen(t *testing.T, book *embed.Daybook, ids []string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, id := range ids {
		e, err := book.Wait(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		page, err := book.Output(within(t), id, projections.OutputQuery{LineOffset: 1, LineLimit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		all[id], all[id+" output"], all[id+" history"] = e, page, history(t, book, id)
	}
	return all
}

func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	ids, heap := record(t, book)
	before := seen(t, book, ids)
	for range 2 {
		closeBook(t, book)
		book = start(t, embed.Options{DataDir: dir})
		if diff := cmp.Diff(before, seen(t, book, ids)); diff != "" {
			t.Fatalf("after a restart (-before +after):\n%s", diff)
		}
	}
	if result, _ := completes(t, book, embed.Script{Code: `kept.n + 1`, Heap: heap}); result != "42" {
		t.Errorf("the heap resumed to %s", result)
	}
}

func TestProjectionsDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	ids, _ := record(t, book)
	before := seen(t, book, ids)
	closeBook(t, book)
	for name, harm := range map[string]func(path string) error{
		"deleted":              os.Remove,
		"of another schema":    func(path string) error { return inFile(path, "PRAGMA user_version=1") },
		"rebuilt":              func(string) error { return rebuild(t, dir) },
		"rebuilt after a loss": func(path string) error { return errors.Join(os.Remove(path), rebuild(t, dir)) },
	} {
		if err := harm(filepath.Join(dir, "projections.db")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		book = start(t, embed.Options{DataDir: dir})
		if diff := cmp.Diff(before, seen(t, book, ids)); diff != "" {
			t.Errorf("projections %s (-before +after):\n%s", name, diff)
		}
		closeBook(t, book)
	}
}

// rebuild rebuilds the projections of a directory.
func rebuild(t *testing.T, dir string) error {
	r, err := embed.Rebuild(within(t), embed.Options{DataDir: dir, NATS: embed.NATSOptions{NoSync: true}})
	if err == nil && r.Events < 9 { // 3 requested, 3 started, 3 ended at least
		t.Errorf("rebuilt from %d events", r.Events)
	}
	return err
}

func inFile(path, statement string) error {
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		return err
	}
	_, err = db.Exec(statement)
	return errors.Join(err, db.Close())
}

func TestRebuildNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mistyped")
	_, err := embed.Rebuild(within(t), embed.Options{DataDir: dir})
	wantError(t, err, "no ledger in "+dir)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was created: %v", err)
	}
}

// A ledger that lost its end must not take events: positions would be assigned twice.
func TestLedgerShorterThanProjections(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	record(t, book)
	closeBook(t, book)
	if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	_, err := embed.Start(within(t), embed.Options{DataDir: dir, NATS: embed.NATSOptions{NoSync: true}})
	if !errors.Is(err, events.ErrDamaged) {
		t.Fatalf("a lost ledger: %v", err)
	}
	wantError(t, err, "LEDGER-0001, positions 1 to", "are missing", "restore the data directory")
	if _, err := os.Stat(filepath.Join(dir, "jetstream")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another ledger was started: %v", err)
	}
}

// If the projections fail during the start, the start returns their error.
func TestProjectorFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	file := filepath.Join(dir, "projections.db")
	if err := inFile(file, `CREATE TRIGGER refuse BEFORE INSERT ON executions BEGIN SELECT RAISE(ABORT, 'refused by a test'); END`); err != nil {
		t.Fatal(err)
	}
	// If they fail later, waiting for a run ends with the reason.
	_, err := book.Run(within(t), embed.Script{Code: "1"})
	wantError(t, err, "refused by a test")
	if err := book.Ready(within(t)); err == nil {
		t.Error("it is ready")
	}
	<-book.Done()
	wantError(t, book.Err(), "refused by a test")
	closeBook(t, book)
	_, err = embed.Start(within(t), embed.Options{DataDir: dir, NATS: embed.NATSOptions{NoSync: true}})
	wantError(t, err, "open the projections", "refused by a test")
}

// A run that does not end while the server drains continues at the next start, with the same
// seed and clock.
func TestDrainHandsBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{DrainWait: -1}})
	id := submit(t, book, embed.Script{ExecutionTimeoutSecs: 60, Code: `
		const {random, began} = {random: Math.random(), began: Date.now()}
		console.log(random, began)
		await new Promise(r => setTimeout(r, 60_000))`})
	awaitEvent(t, book, id, events.TypeExecutionOutput)
	closeBook(t, book)
	book = start(t, embed.Options{DataDir: dir})
	// Each attempt prints the line once.
	awaitStarts(t, book, id, 2)
	if err := book.Cancel(within(t), id); err != nil {
		t.Fatal(err)
	}
	var starts []*events.ExecutionStarted
	var lines []string
	handedBack := 0
	for _, e := range history(t, book, id) {
		switch d := e.Data.(type) {
		case *events.ExecutionStarted:
			starts = append(starts, d)
		case *events.ExecutionOutput:
			for _, l := range d.Content.Value().Lines {
				lines = append(lines, l.Text)
			}
		case *events.ExecutionHandedBack:
			handedBack++
		}
	}
	if len(starts) != 2 || handedBack != 1 || len(lines) != 2 {
		t.Fatalf("%d starts, %d handed back, lines %q", len(starts), handedBack, lines)
	}
	if starts[0].Attempt != 1 || starts[1].Attempt != 1 || starts[0].Seed != starts[1].Seed || starts[0].Runner == starts[1].Runner {
		t.Errorf("starts are %+v and %+v", starts[0], starts[1])
	}
	if lines[0] != lines[1] {
		t.Errorf("the values in the script changed from %q to %q", lines[0], lines[1])
	}
}

// awaitStarts waits until a run has written output since its nth start.
func awaitStarts(t *testing.T, book *embed.Daybook, id string, n int) {
	t.Helper()
	err := book.Follow(within(t), 0, func(batch []events.Event, _ uint64) error {
		for _, e := range batch {
			if e.About() != id {
				continue
			}
			switch e.Type {
			case events.TypeExecutionStarted:
				n--
			case events.TypeExecutionOutput:
				if n == 0 {
					return errors.ErrUnsupported
				}
			}
		}
		return nil
	})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
}

// While the server drains, running scripts may finish, and no new run is accepted.
func TestDrainFinishes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{DrainWait: patience}})
	id := submit(t, book, embed.Script{Code: `console.log("in"); await new Promise(r => setTimeout(r, 1000)); "finished"`})
	awaitEvent(t, book, id, events.TypeExecutionOutput)
	closed := make(chan error, 1)
	go func() { closed <- book.Close() }()
	// Runs that are accepted before Close refuses them are left to the next start.
	var refused error
	for refused == nil {
		_, refused = book.Submit(within(t), embed.Script{Code: "2"})
	}
	if ledger.CodeOf(refused) != ledger.CodeUnavailable {
		t.Errorf("a new run while draining: %v", refused)
	}
	if err := book.Ready(within(t)); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("while draining Ready returns %v", err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	book = start(t, embed.Options{DataDir: dir})
	if e, err := book.Wait(within(t), id); err != nil || deref(e.Result) != "finished" || e.Attempt != 1 {
		t.Errorf("the run is %s %s, attempt %d: %v", e.Status, deref(e.Result), e.Attempt, err)
	}
}

// Waiting for a run ends when the Daybook is closed.
func TestWaitEndsWithClose(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Runs: embed.RunOptions{Elsewhere: true}})
	id := submit(t, book, embed.Script{Code: "1"})
	waited := make(chan error, 1)
	go func() {
		_, err := book.Wait(within(t), id)
		waited <- err
	}()
	closeBook(t, book)
	if err := <-waited; err == nil {
		t.Error("waiting ended without an error")
	}
}
