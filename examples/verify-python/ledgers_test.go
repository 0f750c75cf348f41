package verifypython_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/internal/translog"
	"daybook/proof"
)

// exports creates a small ledger, and exports of the whole ledger and of one session.
func exports(t *testing.T) (all, session, vkey string, signer note.Signer) {
	t.Helper()
	store := storetest.Start(t)
	append1 := func(d events.Data, after int64) uint64 {
		seq, err := store.Append(t.Context(), events.New(events.DefaultTenant, time.Now(), d), after)
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	var beta string // an execution of the exported session
	for i := range 8 {
		// The second volume follows the first, and the third follows a gap.
		switch i {
		case 2:
			if _, err := store.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked}); err != nil {
				t.Fatal(err)
			}
		case 5:
			last, err := store.LastSeq(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.OpenVolume(t.Context(), last+4, "three were lost", events.Actor{Principal: "operator"}); err != nil {
				t.Fatal(err)
			}
		}
		id, name := events.NewID(time.Now()), []string{"alpha", "beta \u00e9\u2028"}[i%2]
		if i == 1 {
			beta = id
		}
		source := events.Body{Text: fmt.Sprintf("console.log(%q)", "line "+strconv.Itoa(i)+" \u2028 \U0001F600 <&>")}
		if i == 3 {
			source = *putText(t, store, events.DefaultTenant, strings.Repeat("// long\n", 100))
		}
		var globals *events.Body
		if i == 5 {
			globals = putText(t, store, events.DefaultTenant, `{"a":"`+strings.Repeat("long ", 100)+`"}`)
		}
		append1(&events.ExecutionRequested{
			ExecutionID: id, Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: source, Globals: globals}),
			Session: name, SessionID: events.SessionID(events.DefaultTenant, name),
		}, 0)
		start := &events.ExecutionStarted{ExecutionID: id, Attempt: 1, FirstLine: 1}
		if i == 4 {
			start.Callable = putText(t, store, events.DefaultTenant, `{"long":["`+strings.Repeat("callable ", 100)+`"]}`)
		}
		last := append1(start, 0)
		if i == 4 {
			append1(&events.HostCalled{ExecutionID: id, Attempt: 1, Number: 1, Server: "long", Tool: "echo", Content: events.Plain(events.HostCalledContent{
				Arguments: putText(t, store, events.DefaultTenant, `{"a":"`+strings.Repeat("argument ", 100)+`"}`),
			})}, -1)
			last = append1(&events.HostReturned{ExecutionID: id, Attempt: 1, Number: 1, Outcome: events.HostOK, Content: events.Plain(events.HostReturnedContent{
				Result: putText(t, store, events.DefaultTenant, `"`+strings.Repeat("result ", 100)+`"`),
			})}, -1)
		}
		text := fmt.Sprintf("line %d", i)
		append1(&events.ExecutionOutput{
			ExecutionID: id, Attempt: 1, FirstLine: 1,
			Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: text, TimeMillis: 1}}}),
		}, -1)
		heap := []byte("the heap of run " + strconv.Itoa(i/2)) // equal heaps are stored once
		hash, err := store.PutHeap(t.Context(), events.DefaultTenant, heap, "engine")
		if err != nil {
			t.Fatal(err)
		}
		ended := append1(events.NewEnding(events.StatusCompleted, events.Ending{
			ExecutionID: id, Attempt: 1, Content: events.Plain(events.EndingContent{Result: &events.Body{Text: "1"}}),
			Heap:   &events.HeapRecord{SHA256: hash, Size: int64(len(heap)), EngineID: "engine"},
			Output: &events.OutputTotals{Lines: 1, Bytes: int64(len(text)) + 1, SHA256: events.Hash([]byte(text + "\n"))},
		}), int64(last))
		append1(&events.SessionEntryRecorded{
			SessionID: events.SessionID(events.DefaultTenant, name), Session: name, Index: int64(i / 2), ExecutionID: id, Status: events.StatusCompleted, TerminalSeq: ended,
		}, -1)
	}
	migrated, err := store.PutHeap(t.Context(), events.DefaultTenant, []byte("a migrated heap"), "new engine")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []events.HeapMigrated{{}, {LastExecutionID: beta}, {LastExecutionID: events.NewID(time.Now()), RunID: beta}} {
		m.Heap, m.Verdict, m.NewHeap, m.Executions = events.Hash([]byte("the heap of run 0")), events.MigrationDone, migrated, 1
		append1(&m, -1)
	}
	audits := t.TempDir()
	log := follow(t, store, audits)
	src := audit.Local{Log: log, Stream: store, Blobs: store, SessionOf: func(context.Context, string, uint64, string) ([]string, error) { return nil, nil }}
	// The first checkpoint is an event, which the second covers.
	for range 2 {
		sign(t, store, log)
	}
	all, session = filepath.Join(t.TempDir(), "all"), filepath.Join(t.TempDir(), "session")
	if _, err := audit.Export(t.Context(), src, audit.ExportOptions{Dir: all, Blobs: true}); err != nil {
		t.Fatal(err)
	}
	part := audit.ExportOptions{Dir: session, Blobs: true, Selection: proof.ExportSelection{Session: "beta \u00e9\u2028", Since: time.Now().Add(-time.Hour)}}
	if _, err := audit.Export(t.Context(), src, part); err != nil {
		t.Fatal(err)
	}
	skey, err := os.ReadFile(filepath.Join(audits, "key"))
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = note.NewSigner(strings.TrimSpace(string(skey))); err != nil {
		t.Fatal(err)
	}
	return all, session, log.VKey(), signer
}

// putText stores a text and returns the body that references it.
func putText(t *testing.T, store *jetstream.Store, tenant, text string) *events.Body {
	t.Helper()
	hash, err := store.PutText(t.Context(), tenant, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &events.Body{Blob: &events.BlobRef{SHA256: hash, Size: int64(len(text)), Preview: text[:8]}}
}

// follow opens a log in a directory. The log follows a ledger until the test ends.
func follow(t *testing.T, store *jetstream.Store, dir string) *translog.Log {
	t.Helper()
	log, err := translog.Open(translog.Options{Dir: dir, Every: time.Hour, NoSync: true, Removed: store.Removed, Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := log.Run(ctx, store, store); err != nil && ctx.Err() == nil {
			t.Errorf("follow the ledger: %v", err)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	return log
}

// sign signs a checkpoint that covers all events.
func sign(t *testing.T, store *jetstream.Store, log *translog.Log) {
	t.Helper()
	last, err := store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Checkpoint(t.Context(), last); err != nil {
		t.Fatal(err)
	}
}

// exportAfterRemoval removes the first volume of a ledger and exports the rest with its
// blobs. It returns the name of the file with the kept events, and the key of the ledger.
func exportAfterRemoval(t *testing.T) (dir, kept, vkey string) {
	t.Helper()
	store := storetest.Start(t)
	log := follow(t, store, t.TempDir())
	src := audit.Local{Log: log, Stream: store, Blobs: store}
	request := func() uint64 {
		t.Helper()
		seq, err := store.Append(t.Context(), events.New(events.DefaultTenant, time.Now(), &events.ExecutionRequested{
			ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool,
			Content: events.Plain(events.RequestedContent{Source: *putText(t, store, events.DefaultTenant, strings.Repeat("// long\n", 100))}),
		}), 0)
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	keep := request()
	v, err := store.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Close: log.SignClosing})
	if err != nil {
		t.Fatal(err)
	}
	request()
	sign(t, store, log)
	root, err := log.PersistHashes(t.Context(), v.Last)
	if err != nil {
		t.Fatal(err)
	}
	export, err := src.VolumeExport(t.Context(), v.First, v.Last)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Remove(t.Context(), stream.RemoveOptions{Volume: v.Number, Keep: []uint64{keep}, RootHash: root, Export: export, Actor: events.Actor{Principal: "operator"}, OnPlanned: log.AnnounceRemoval}); err != nil {
		t.Fatal(err)
	}
	sign(t, store, log)
	dir = filepath.Join(t.TempDir(), "left")
	if _, err := audit.Export(t.Context(), src, audit.ExportOptions{Dir: dir, Blobs: true}); err != nil {
		t.Fatal(err)
	}
	return dir, "text-" + store.Removed().Kept.SHA256, log.VKey()
}
