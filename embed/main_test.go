package embed_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/embed"
	"daybook/events"
	"daybook/projections"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("DAYBOOK_TEST_HOLD"); dir != "" {
		hold(dir)
		return
	}
	goleak.VerifyTestMain(m,
		// nats.go may start this goroutine for a stored object only after the
		// object is stored; it then never learns that it is to end.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// patience is the maximum time that a test waits for a condition.
const patience = 2 * time.Minute

// within returns a context that ends after patience.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	t.Cleanup(stop)
	return ctx
}

// start runs a Daybook until the test ends, without syncs: they protect only against a power
// cut.
func start(t testing.TB, opts embed.Options) *embed.Daybook {
	t.Helper()
	if opts.DataDir == "" {
		opts.DataDir = t.TempDir()
	}
	opts.NATS.NoSync = true
	if opts.Storage.ProjectionCopies == 0 {
		opts.Storage.ProjectionCopies = -1 // a copy would be recorded at any time after a seal
	}
	if opts.Runs.DrainWait == 0 {
		opts.Runs.DrainWait = -1
	}
	book, err := embed.Start(within(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBook(t, book) })
	return book
}

func closeBook(t testing.TB, book *embed.Daybook) {
	t.Helper()
	if err := book.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// run runs a script and waits for its end, with any status.
func run(t testing.TB, book *embed.Daybook, s embed.Script) projections.ExecutionDetail {
	t.Helper()
	e, err := book.Run(within(t), s)
	if err != nil {
		t.Fatalf("run %.60q: %v", s.Code, err)
	}
	return e
}

// completes runs a script that must complete, and returns its result and heap.
func completes(t testing.TB, book *embed.Daybook, s embed.Script) (result, heap string) {
	t.Helper()
	e := run(t, book, s)
	if e.Status != events.StatusCompleted {
		t.Fatalf("%.60q is %s: %s", s.Code, e.Status, deref(e.Error))
	}
	return deref(e.Result), deref(e.Heap)
}

func submit(t testing.TB, book *embed.Daybook, s embed.Script) string {
	t.Helper()
	id, err := book.Submit(within(t), s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func history(t testing.TB, book *embed.Daybook, id string) []events.Event {
	t.Helper()
	list, err := book.History(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func types(list []events.Event) []events.Type {
	out := make([]events.Type, len(list))
	for i, e := range list {
		out[i] = e.Type
	}
	return out
}

// awaitEvent follows the ledger until an execution has an event of a type.
func awaitEvent(t testing.TB, book *embed.Daybook, id string, typ events.Type) {
	t.Helper()
	err := book.Follow(within(t), 0, func(batch []events.Event, _ uint64) error {
		for _, e := range batch {
			if e.About() == id && e.Type == typ {
				return io.EOF
			}
		}
		return nil
	})
	if err != io.EOF {
		t.Fatalf("wait for %s of %s: %v", typ, id, err)
	}
}

// awaitFinalized waits until all runs have ended, and the projections have the session entries and the
// tags that follow the ends. A client may learn of an end before they are recorded.
func awaitFinalized(t *testing.T, book *embed.Daybook) {
	t.Helper()
	type expected struct{ id, what string }
	requests, missing, last := map[string]*events.ExecutionRequested{}, map[expected]bool{}, uint64(0)
	err := book.Follow(within(t), 0, func(batch []events.Event, end uint64) error {
		for _, e := range batch {
			last = e.Seq
			switch d := e.Data.(type) {
			case *events.ExecutionRequested:
				requests[d.ExecutionID], missing[expected{d.ExecutionID, "end"}] = d, true
			case *events.SessionEntryRecorded:
				delete(missing, expected{d.ExecutionID, "entry"})
			case *events.HeapTagged:
				delete(missing, expected{d.ExecutionID, "tags"})
			}
			ending, r := events.EndingOf(e.Data), requests[e.About()]
			if ending == nil || r == nil { // not an end, or one of a run that was requested in a removed volume
				continue
			}
			delete(missing, expected{r.ExecutionID, "end"})
			if r.Session != "" {
				missing[expected{r.ExecutionID, "entry"}] = true
			}
			if e.Type == events.TypeExecutionCompleted && ending.Heap != nil && r.Content.Value().Tags != nil {
				missing[expected{r.ExecutionID, "tags"}] = true
			}
		}
		if last >= end && len(missing) == 0 {
			return io.EOF
		}
		return nil
	})
	if err != io.EOF {
		t.Fatalf("runs are not finalized, %v are missing: %v", missing, err)
	}
	await(t, book, last)
}

func deref(s *string) string {
	if s == nil {
		return "<null>"
	}
	return *s
}

// busyPort returns an address with a listener.
func busyPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// wantError requires an error that contains all words.
func wantError(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error is %q, without %q", err, w)
		}
	}
}

// hold owns a data directory until standard input ends. It writes its address to the file url
// in that directory.
func hold(dir string) {
	book, err := embed.Start(context.Background(), embed.Options{DataDir: dir, NATS: embed.NATSOptions{NoSync: true}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, MCP: embed.MCPOptions{SessionID: "holder"}, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	if err := os.WriteFile(filepath.Join(dir, "url"), []byte(book.URL()), 0o600); err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := book.Close(); err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}
