package retention_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/lifecycle/keyring"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// vault is a house whose sessions have content keys.
type vault struct {
	*house
	dir  string
	keys *keyring.Ring
}

func openVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{dir: t.TempDir()}
	var err error
	if v.keys, err = keyring.Open(v.dir); err != nil {
		t.Fatal(err)
	}
	v.house = openWith(t, jetstream.Options{BlobGracePeriod: -1, Keys: v.keys})
	v.ledger = ledger.New(v.store, ledger.Options{Keys: v.keys, EncryptContent: true, Logger: storetest.Logger(t)})
	return v
}

func (v *vault) shredder(keys retention.Keys) *retention.Shredder {
	return retention.NewShredder(retention.ShredOptions{Store: v.store, Recorder: v.ledger, Keys: keys})
}

// asks submits a run in the session and returns its id.
func (v *vault) asks(session, heap string) string {
	v.t.Helper()
	r, err := v.ledger.Submit(v.t.Context(), ledger.Submission{Tenant: tenant, Code: "secret", Session: session, Heap: heap, Actor: actor})
	if err != nil {
		v.t.Fatal(err)
	}
	return r.ExecutionID
}

// leaves runs a script in the session and returns the heap that it left.
func (v *vault) leaves(session, from, content string) string {
	v.t.Helper()
	v.n++
	return v.ended(tenant, 0, events.ExecutionRequested{ExecutionID: v.asks(session, from), Session: session, SessionID: events.SessionID(tenant, session)}, content)
}

// losesItsEnd runs a script in the session. The event of the end, which names the heap, is lost: only the session's
// entry does.
func (v *vault) losesItsEnd(session, content string) (heap string) {
	v.t.Helper()
	v.n++
	id := v.asks(session, "")
	e, err := v.store.Read(v.t.Context(), 0, 1<<20)
	if err != nil {
		v.t.Fatal(err)
	}
	var key string
	for _, one := range e {
		if d, ok := one.Data.(*events.ExecutionRequested); ok && d.ExecutionID == id {
			key = events.ContentKeyID(d)
		}
	}
	if heap, err = v.store.PutEncryptedHeap(v.t.Context(), tenant, []byte(content), "e", key); err != nil {
		v.t.Fatal(err)
	}
	v.append(tenant, 0, &events.SessionEntryRecorded{SessionID: events.SessionID(tenant, session), Session: session, Index: int64(v.n), ExecutionID: id, Status: events.StatusCompleted, OutputHeap: heap, TerminalSeq: 1})
	v.append(tenant, 0, events.NewEnding(events.StatusFailed, events.Ending{ExecutionID: id, Reason: "history_lost"}))
	return heap
}

// A heap that no end of a run names, because the end is lost, is not answered from memory after shredding, and a run
// outside of the session that used it is a reason to refuse.
func TestShredReachesAHeapWhoseEndIsLost(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	heap := v.losesItsEnd("s", "secret")
	if got, _, err := v.store.Heap(t.Context(), tenant, heap); err != nil || string(got) != "secret" {
		t.Fatalf("before: %q, %v", got, err)
	}
	v.ran(tenant, 0, events.ExecutionRequested{Heap: heap}, "")
	s := v.shredder(v.keys)
	if _, err := s.Shred(t.Context(), tenant, retention.Named("s"), false, actor); err == nil || !strings.Contains(err.Error(), "outside of it") {
		t.Errorf("used outside of the session: %v", err)
	}
	if _, err := s.Shred(t.Context(), tenant, retention.Named("s"), true, actor); err != nil {
		t.Fatal(err)
	}
	if got, _, err := v.store.Heap(t.Context(), tenant, heap); err == nil {
		t.Errorf("after shredding: %q", got)
	}
}

// keyFiles counts the keys on disk.
func (v *vault) keyFiles() int {
	v.t.Helper()
	list, err := os.ReadDir(v.dir)
	if err != nil {
		v.t.Fatal(err)
	}
	return len(list)
}

// shreds returns the events that record a shredded session.
func (v *vault) shreds() (list []*events.SessionShredded) {
	v.t.Helper()
	err := v.store.EachMatching(v.t.Context(), events.ShredSubjects(), func(e events.Event) error {
		list = append(list, e.Data.(*events.SessionShredded))
		return nil
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return list
}

// A session is not shredded without force while that would destroy more than the session, or less.
func TestShredRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(v *vault)
		want string // in the refusal; empty for a session without runs
		// forced is true if force allows the shredding.
		forced bool
	}{
		{"a session without runs", func(v *vault) { v.leaves("other", "", "x") }, "", false},
		{"a waiting run", func(v *vault) { v.leaves("s", "", "x"); v.asks("s", "") }, "under way", false},
		{"a run without a recorded session entry", func(v *vault) {
			v.append(tenant, 0, events.NewEnding(events.StatusCompleted, events.Ending{ExecutionID: v.asks("s", "")}))
		}, "under way", false},
		{"runs recorded without a key", func(v *vault) { v.ran(tenant, 0, events.ExecutionRequested{Session: "s"}, "x") }, "1 runs", false},
		{"a heap that another session started from", func(v *vault) { v.asks("other", v.leaves("s", "", "x")) }, "outside of it", true},
		{"a heap that a run without a session started from", func(v *vault) {
			v.ran(tenant, 0, events.ExecutionRequested{Heap: v.leaves("s", "", "x")}, "")
		}, "outside of it", true},
		{"a heap from which another session was forked", func(v *vault) {
			v.append(tenant, 0, &events.SessionOpened{SessionID: strings.Repeat("ab", 32), Kind: events.SessionACP, Head: v.leaves("s", "", "x")})
		}, "outside of it", true},
		{"a heap to which another session was reset", func(v *vault) {
			v.append(tenant, 0, &events.SessionReset{SessionID: strings.Repeat("ab", 32), Kind: events.SessionLogical, Heap: v.leaves("s", "", "x")})
		}, "outside of it", true},
		{"a heap from which a turn of another session starts", func(v *vault) {
			v.append(tenant, 0, &events.SessionTurnQueued{SessionID: strings.Repeat("ab", 32), Number: 1, ExecutionID: events.NewID(time.Now()), Reset: true, Heap: v.leaves("s", "", "x")})
		}, "outside of it", true},
		{"a heap that another run also left", func(v *vault) {
			v.leaves("s", "", "x")
			v.ran(tenant, 0, events.ExecutionRequested{}, "x")
		}, "outside of it", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := openVault(t)
			c.make(v)
			files := v.keyFiles()
			s := v.shredder(v.keys)
			_, err := s.Shred(t.Context(), tenant, retention.Named("s"), false, actor)
			var refused *retention.RefusedError
			if c.want == "" && !errors.Is(err, events.ErrNotFound) || c.want != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Message, c.want)) {
				t.Errorf("%v", err)
			}
			if len(v.shreds()) != 0 || v.keyFiles() != files || len(v.collections()) != 0 {
				t.Errorf("a refused shredding recorded %d shreddings and %d collections, and left %d of %d keys", len(v.shreds()), len(v.collections()), v.keyFiles(), files)
			}
			done, err := s.Shred(t.Context(), tenant, retention.Named("s"), true, actor)
			if (err == nil) != c.forced {
				t.Errorf("forced: %v", err)
			}
			if c.forced && (done.Executions != 1 || done.Heaps != 1 || len(v.shreds()) != 1 || len(v.collections()) != 1) {
				t.Errorf("forced: %+v", done)
			}
		})
	}
}

// Runs that are shredded already are neither runs without a key nor runs outside of the
// session.
func TestShredAgain(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	v.leaves("s", "", "x")
	s := v.shredder(v.keys)
	if done, err := s.Shred(t.Context(), tenant, retention.Named("s"), false, actor); err != nil || done.Executions != 1 || done.Kept != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	_, err := s.Shred(t.Context(), tenant, retention.Named("s"), false, actor)
	var refused *retention.RefusedError
	if !errors.As(err, &refused) || !strings.HasSuffix(refused.Message, "already shredded") {
		t.Errorf("a session without other runs: %v", err)
	}
	v.leaves("s", "", "x") // a heap that the shredded run left too
	if done, err := s.Shred(t.Context(), tenant, retention.Named("s"), false, actor); err != nil || done.Executions != 1 || done.Heaps != 1 || done.Kept != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	v.ran(tenant, 0, events.ExecutionRequested{Session: "s"}, "y")
	if _, err := s.Shred(t.Context(), tenant, retention.Named("s"), false, actor); !errors.As(err, &refused) || !strings.Contains(refused.Message, "already shredded, except that of 1 runs") {
		t.Errorf("a session with a run without a key: %v", err)
	}
}

// A key that is missing is not taken for a destroyed one.
func TestShredWithoutKey(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	v.leaves("s", "", "x")
	other, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.shredder(other).Shred(t.Context(), tenant, retention.Named("s"), false, actor)
	var refused *retention.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "keys of 1 runs") || len(v.shreds()) != 0 {
		t.Errorf("%v, %d events", err, len(v.shreds()))
	}
}

// If a key of a session is missing, its other runs are shredded only by force.
func TestShredWithoutOneKey(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	v.leaves("s", "", "x")
	ids, err := v.keys.Retire(tenant, events.SessionID(tenant, "s"))
	if err != nil || len(ids) != 1 {
		t.Fatalf("%q, %v", ids, err)
	}
	if err := v.keys.Destroy(ids[0]); err != nil {
		t.Fatal(err)
	}
	v.leaves("s", "", "y")
	s := v.shredder(v.keys)
	_, err = s.Shred(t.Context(), tenant, retention.Named("s"), false, actor)
	var refused *retention.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "keys of 1 runs") || len(v.shreds()) != 0 {
		t.Errorf("%v, %d events", err, len(v.shreds()))
	}
	if done, err := s.Shred(t.Context(), tenant, retention.Named("s"), true, actor); err != nil || done.Executions != 1 || done.Heaps != 1 || done.Kept != 0 {
		t.Errorf("forced: %+v, %v", done, err)
	}
}

// crashing are keys whose process dies before it destroys the first one.
type crashing struct{ retention.Keys }

func (crashing) Destroy(string) error { return errDied }

// After a crash between the event and the destruction of the key, the next process
// destroys the key.
func TestFinish(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	first := v.leaves("s", "", "x")
	last := v.leaves("s", first, "y")
	other := v.leaves("other", "", "z")
	if _, err := v.shredder(crashing{v.keys}).Shred(t.Context(), tenant, retention.Named("s"), false, actor); !errors.Is(err, errDied) || !strings.Contains(err.Error(), "restart the server") {
		t.Fatalf("%v", err)
	}
	if len(v.shreds()) != 1 || v.keyFiles() != 2 {
		t.Fatalf("%d events, %d keys: the event is to come before the destruction", len(v.shreds()), v.keyFiles())
	}

	keys, err := keyring.Open(v.dir)
	if err != nil {
		t.Fatal(err)
	}
	doomed := v.shreds()[0].KeyIDs
	if _, there := keys.ContentKey(doomed[0]); len(doomed) != 1 || !there {
		t.Fatalf("keys %q", doomed)
	}
	for range 2 { // the second pass has nothing to do
		if err := v.shredder(keys).Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, there := keys.ContentKey(doomed[0]); there || v.keyFiles() != 1 || len(v.shreds()) != 1 {
			t.Errorf("%d events, %d keys", len(v.shreds()), v.keyFiles())
		}
	}
	var collected []string
	for _, e := range v.collections() {
		collected = append(collected, e.About())
	}
	slices.Sort(collected)
	want := []string{first, last}
	slices.Sort(want)
	if !slices.Equal(collected, want) {
		t.Errorf("collected %q, want %q and not %s", collected, want, other)
	}
}

// unrecorded is a ledger whose process dies before the collection of heaps is recorded.
type unrecorded struct{ *ledger.Ledger }

func (unrecorded) CollectHeaps(context.Context, string, []events.HeapCollected, func(string, uint64)) error {
	return errDied
}

// After a crash before the collection of the heaps is recorded, the next process records it.
func TestFinishCollects(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	v.leaves("s", "", "x")
	s := retention.NewShredder(retention.ShredOptions{Store: v.store, Recorder: unrecorded{v.ledger}, Keys: v.keys})
	if _, err := s.Shred(t.Context(), tenant, retention.Named("s"), false, actor); !errors.Is(err, errDied) {
		t.Fatalf("%v", err)
	}
	if v.keyFiles() != 1 || len(v.collections()) != 0 {
		t.Fatal("the key must outlive what is still to be done by it")
	}
	if err := v.shredder(v.keys).Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v.keyFiles() != 0 || len(v.collections()) != 1 || len(v.shreds()) != 1 {
		t.Errorf("%d keys, %d collections, %d events", v.keyFiles(), len(v.collections()), len(v.shreds()))
	}
}

// busy is a store of a server that always has some run: when the end of the ledger is read, next is called.
type busy struct {
	retention.ShredStore
	next func()
}

func (b busy) LastSeq(ctx context.Context) (uint64, error) {
	b.next()
	return b.ShredStore.LastSeq(ctx)
}

// Shred waits for the runs that are open when it begins, not for those that start meanwhile.
func TestShredOnABusyServer(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	open := []string{v.asks("", ""), v.asks("", "")}
	opts := retention.ShredOptions{Recorder: v.ledger, Keys: v.keys, Wait: time.Hour, Store: busy{v.store, func() {
		if len(open) > 5 {
			return
		}
		open = append(open, v.asks("", "")) // before the oldest one ends
		v.append(tenant, 0, events.NewEnding(events.StatusCompleted, events.Ending{ExecutionID: open[0]}))
		open = open[1:]
	}}}
	done, err := retention.NewShredder(opts).Shred(t.Context(), tenant, retention.Target{Kind: events.SessionNone}, false, actor)
	if err != nil || done.Executions != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, id := range open {
		if got := v.source(id); got != "secret" {
			t.Errorf("the source of an open run is %q", got)
		}
	}
	_, err = v.shredder(v.keys).Shred(t.Context(), tenant, retention.Target{Kind: events.SessionNone}, false, actor)
	if refused := (*retention.RefusedError)(nil); !errors.As(err, &refused) {
		t.Errorf("open runs are shredded without waiting: %v", err)
	}
	// A caller that gives up stops the waiting.
	ctx, stop := context.WithCancel(t.Context())
	opts.Store = busy{v.store, stop}
	if _, err := retention.NewShredder(opts).Shred(ctx, tenant, retention.Target{Kind: events.SessionNone}, false, actor); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// A run that is requested while a session is shredded gets a new key, which stays.
func TestRunDuringShred(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	v.leaves("s", "", "x")
	id := ""
	s := retention.NewShredder(retention.ShredOptions{Store: v.store, Recorder: late{v.ledger, func() { id = v.asks("s", "") }}, Keys: v.keys})
	if done, err := s.Shred(t.Context(), tenant, retention.Named("s"), false, actor); err != nil || done.Executions != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	list, err := v.ledger.History(t.Context(), tenant, id)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d events, %v", len(list), err)
	}
	if got := list[0].Data.(*events.ExecutionRequested).Content.Value().Source.Text; got != "secret" {
		t.Errorf("its source is %q", got)
	}
}

// late lets a test act directly before the event is appended.
type late struct {
	*ledger.Ledger
	do func()
}

func (l late) RecordShred(ctx context.Context, of string, d *events.SessionShredded) (events.Event, error) {
	l.do()
	return l.Ledger.RecordShred(ctx, of, d)
}

// Prompts of an ACP session without runs, and runs and tags without a session, are shredded.
// The content of other sessions stays.
func TestShredOtherContent(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	ctx := t.Context()
	session, _, err := v.ledger.OpenAgentSession(ctx, ledger.AgentOpening{Tenant: tenant, Workspace: events.AgentWorkspace{Cwd: "/secret"}, Config: events.AgentConfig{Mode: events.AgentModeAsk}, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.ledger.Prompt(ctx, ledger.AgentPrompt{Tenant: tenant, Session: session, Blocks: `[{"type":"text","text":"/secret"}]`, Actor: actor}); err != nil {
		t.Fatal(err)
	}
	kept := v.asks("named", "")
	s := v.shredder(v.keys)
	done, err := s.Shred(ctx, tenant, retention.Target{Kind: events.SessionACP, SessionID: session}, false, actor)
	if err != nil || done.Executions != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	nothing := retention.Target{Kind: events.SessionNone}
	if _, err := s.Shred(ctx, tenant, nothing, false, actor); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("no content without a session: %v", err)
	}
	id := v.asks("", "")
	var refused *retention.RefusedError
	if _, err := s.Shred(ctx, tenant, nothing, false, actor); !errors.As(err, &refused) || !strings.Contains(refused.Message, id) {
		t.Errorf("a run that has not ended: %v", err)
	}
	heap := v.ended(tenant, 0, events.ExecutionRequested{ExecutionID: id}, "left")
	if _, err := v.ledger.SetTags(ctx, tenant, heap, map[string]string{"about": "secret"}, actor); err != nil {
		t.Fatal(err)
	}
	if done, err = s.Shred(ctx, tenant, nothing, false, actor); err != nil || done.Executions != 1 || done.Heaps != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if list := v.shreds(); len(list) != 2 || list[0].Kind != events.SessionACP || list[0].SessionID != session || list[1].Kind != events.SessionNone {
		t.Errorf("%+v", list)
	}
	if v.source(id) != "" || v.source(kept) != "secret" {
		t.Errorf("the run without a session reads %q, that of another session %q", v.source(id), v.source(kept))
	}
	if got, err := v.store.Last(ctx, events.AgentSubject(tenant, session)); err != nil || got.Data.(*events.AgentPrompted).Content.Plain != nil {
		t.Errorf("the prompt is readable: %+v, %v", got.Data, err)
	}
}
