package projections_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

// fileSays reports whether a file contains a text. A missing file contains none.
func fileSays(t *testing.T, path, text string) bool {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Contains(raw, []byte(text))
}

// openFile opens projections until the test ends, and returns their path.
func openFile(t *testing.T) (s *projections.Store, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "p.db")
	s, err := projections.Open(t.Context(), projections.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, path
}

// wantErased requires that a text is in no file of projections.
func wantErased(t *testing.T, path, text string) {
	t.Helper()
	if fileSays(t, path, text) || fileSays(t, path+"-wal", text) {
		t.Errorf("%q is on disk", text)
	}
}

// sealedTags returns tags that are encrypted under the key k in the ledger and can be decrypted.
func sealedTags(heap, about string) *events.HeapTagged {
	tags := events.Plain(events.TagContent{Tags: map[string]string{"about": about}})
	tags.Sealed = &events.EncryptedContent{KeyID: "k"}
	return &events.HeapTagged{Heap: heap, Content: tags, Edit: events.EditDelete}
}

// sealedRun returns a run that is encrypted in the ledger and whose source can be
// decrypted.
func sealedRun(n int, session, key, code string) *events.ExecutionRequested {
	content := events.Plain(events.RequestedContent{Source: events.Body{Text: code}})
	content.Sealed = &events.EncryptedContent{KeyID: key}
	return &events.ExecutionRequested{ExecutionID: id(n), Session: session, SessionID: events.SessionID(tenant, session), Content: content}
}

// An event that is encrypted under a destroyed key and recorded after the shredding is
// applied without its content, although the content could be decrypted when it was read.
func TestEventsAfterTheShredding(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-that-comes-late"
	s, path := openFile(t)
	b := newMemoryLedger()
	b.add(sealedRun(1, "s", "k", "1"), &events.SessionShredded{SessionID: events.SessionID(tenant, "s"), Session: "s", KeyIDs: []string{"k"}})
	b.add(sealedRun(2, "s", "k", secret), sealedTags(events.Hash([]byte("heap")), secret))
	if err := s.Apply(t.Context(), b.all()); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Execution(t.Context(), tenant, id(2)); err != nil || e.Code != "" || e.Shredded == nil {
		t.Errorf("%+v, %v", e, err)
	}
	wantErased(t, path, secret)
}

// Tags of any edit that is encrypted under a destroyed key are erased, in the history and as
// current tags.
func TestTagsOfAShreddedSession(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-in-tags"
	s, path := openFile(t)
	b := newMemoryLedger()
	heap := events.Hash([]byte("heap"))
	b.add(sealedRun(1, "s", "k", "1"), sealedTags(heap, secret))
	if err := s.Apply(t.Context(), b.all()); err != nil {
		t.Fatal(err)
	}
	if !fileSays(t, path+"-wal", secret) {
		t.Fatal("the tags cannot be read before they are shredded, so the test checks nothing")
	}
	b.add(&events.SessionShredded{SessionID: events.SessionID(tenant, "s"), Session: "s", KeyIDs: []string{"k"}})
	if err := s.Apply(t.Context(), b.all()[2:]); err != nil {
		t.Fatal(err)
	}
	if got, err := s.HeapTags(t.Context(), tenant, heap); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	wantErased(t, path, secret)
}

// Values that a client sets while what it set before is being shredded are under another key and
// stay, although notes of the same context are shredded. Values under the destroyed key are erased,
// and notes under another one stay.
func TestContextsKeepWhatIsUnderAnotherKey(t *testing.T) {
	t.Parallel()
	const secret, kept = "a-secret-of-before", "a-value-of-after"
	s, path := openFile(t)
	ref := func(n int) events.ContextRef {
		return events.ContextRef{Key: events.ContextKey(tenant, events.ContextTransport, id(n)), SessionID: sessionID(n), Kind: events.ContextTransport}
	}
	note := func(n int, key, summary string) *events.ContextNoted {
		return &events.ContextNoted{ContextRef: ref(n), Content: sealedUnder(key, events.NotedContent{Calls: []events.NotedCall{{Tool: "search", ArgumentsSHA256: summary, ResultSummary: summary}}})}
	}
	values := func(n int, key, value string) *events.ContextUpdated {
		return &events.ContextUpdated{ContextRef: ref(n), Content: sealedUnder(key, events.ContextContent{Custom: map[string]json.RawMessage{"v": json.RawMessage(`"` + value + `"`)}})}
	}
	b := newMemoryLedger()
	b.add(
		note(1, "k", secret), values(1, "next", kept),
		values(2, "k", secret), note(2, "next", kept),
		&events.SessionShredded{SessionID: events.NoSessionID(tenant), Kind: events.SessionNone, KeyIDs: []string{"k"}},
	)
	for _, batch := range [][]events.Event{b.all()[:4], b.all()[4:]} { // the contexts are stored, and read again
		if err := s.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	first, err := s.Context(t.Context(), tenant, ref(1).Key)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(first.Context.Custom["v"]); got != `"`+kept+`"` || len(first.Context.RecentToolCalls) != 0 {
		t.Errorf("the value set during the shredding is %s, with %d notes of before", got, len(first.Context.RecentToolCalls))
	}
	second, err := s.Context(t.Context(), tenant, ref(2).Key)
	if err != nil {
		t.Fatal(err)
	}
	if len(second.Context.Custom) != 0 || len(second.Context.RecentToolCalls) != 1 || second.Context.RecentToolCalls[0].ResultSummary != kept {
		t.Errorf("values of before and a note of after: %+v", second.Context)
	}
	wantErased(t, path, secret)
	if lost, err := s.FindLostKeys(t.Context(), nil); err != nil || lost == nil || lost.Keys != 1 || lost.Others != 2 {
		t.Errorf("both contexts have content under the other key: %+v, %v", lost, err)
	}
}

// A query that is open while content is erased keeps the content in the log, until the
// next event or Close.
func TestErasedContentLeavesTheLog(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-to-be-erased"
	for _, c := range []struct {
		name string
		then func(t *testing.T, s *projections.Store, b *memoryLedger)
	}{
		{"with the next event", func(t *testing.T, s *projections.Store, b *memoryLedger) {
			b.add(requested(2))
			if err := s.Apply(t.Context(), b.all()[s.Applied():]); err != nil {
				t.Fatal(err)
			}
		}},
		{"at the end", func(t *testing.T, s *projections.Store, _ *memoryLedger) {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, path := openFile(t)
			b := newMemoryLedger()
			b.add(sealedRun(1, "s", "k", secret))
			if err := s.Apply(t.Context(), b.all()); err != nil {
				t.Fatal(err)
			}
			free := holdRead(t, path)
			b.add(&events.SessionShredded{SessionID: events.SessionID(tenant, "s"), Session: "s", KeyIDs: []string{"k"}})
			if err := s.Apply(t.Context(), b.all()[1:]); err != nil {
				t.Fatal(err)
			}
			e, err := s.Execution(t.Context(), tenant, id(1))
			if err != nil || e.Code != "" || e.Shredded == nil {
				t.Errorf("%+v, %v", e, err)
			}
			for _, name := range []string{projections.TextCode, projections.TextResult, projections.TextError} {
				if text, err := s.ExecutionText(t.Context(), tenant, id(1), name); text != "" || !errors.Is(err, events.ErrRemoved) {
					t.Errorf("the %s: %q, %v", name, text, err)
				}
			}
			if !fileSays(t, path+"-wal", secret) {
				t.Fatal("the log is empty although a query reads it, so the test checks nothing")
			}
			free()
			c.then(t, s, b)
			wantErased(t, path, secret)
		})
	}
}

// holdRead starts to read a file as another process might, until free is called.
func holdRead(t *testing.T, path string) (free func()) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM executions").Scan(&n); err != nil || n != 1 {
		t.Fatalf("%d executions, %v", n, err)
	}
	return func() {
		if err := errors.Join(tx.Rollback(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// If a process dies before it emptied the log, the next Open does it.
func TestTheNextOpenEmptiesTheLog(t *testing.T) {
	t.Parallel()
	s, path := openFile(t)
	b := newMemoryLedger()
	b.add(requested(1))
	if err := s.Apply(t.Context(), b.all()); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "p.db")
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(path + suffix)
		if err != nil || len(raw) == 0 && suffix != "" {
			t.Fatalf("%d bytes, %v", len(raw), err)
		}
		if err := os.WriteFile(copied+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := projections.Open(t.Context(), projections.Options{Path: copied})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Applied() != 1 {
		t.Errorf("applied %d", s.Applied())
	}
	if info, err := os.Stat(copied + "-wal"); err == nil && info.Size() > 16<<10 {
		t.Errorf("the log has %d bytes", info.Size())
	}
}

// A conversation context drops everything about a run that was shredded. A rebuild
// without the content key gives the same context.
func TestContextsForgetErasedRuns(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-in-a-context"
	ref := func(n int) *events.ContextRef {
		return &events.ContextRef{Key: events.Hash([]byte{byte(n)}), SessionID: events.Hash([]byte{byte(n), 1}), Kind: events.ContextSession}
	}
	var told []projections.ContextState
	for _, readable := range []bool{true, false} {
		b := newMemoryLedger()
		sealed := func(n int, session, key string, in *events.ContextRef) {
			r := sealedRun(n, session, key, "'"+secret+"'")
			r.Context = in
			end := events.Ending{ExecutionID: id(n), Content: events.Plain(events.EndingContent{Result: &events.Body{Text: secret}})}
			end.Content.Sealed = &events.EncryptedContent{KeyID: key}
			if !readable {
				r.Content.Plain, end.Content.Plain = nil, nil
			}
			b.add(r, events.NewEnding(events.StatusCompleted, end))
		}
		b.add(&events.ContextUpdated{ContextRef: *ref(1), Content: events.Plain(events.ContextContent{UserPreferences: events.UserPreferences{Language: "en"}})})
		for n := range 20 { // the oldest calls are in a summary
			sealed(n+1, "s", "key-s", ref(1))
		}
		sealed(21, "other", "key-other", ref(2))
		b.add(requested(22, func(r *events.ExecutionRequested) { r.Context = ref(3) }))
		s, path := openFile(t)
		if err := s.Apply(t.Context(), b.all()); err != nil {
			t.Fatal(err)
		}
		if readable && !fileSays(t, path+"-wal", secret) {
			t.Fatal("the content cannot be read before it is shredded, so the test checks nothing")
		}
		before, err := s.Context(t.Context(), tenant, ref(3).Key)
		if err != nil {
			t.Fatal(err)
		}
		n := len(b.all())
		b.add(&events.SessionShredded{SessionID: events.SessionID(tenant, "s"), Session: "s", KeyIDs: []string{"key-s"}})
		b.add(&events.SessionShredded{SessionID: events.SessionID(tenant, "other"), Session: "other", KeyIDs: []string{"key-other"}})
		if err := s.Apply(t.Context(), b.all()[n:]); err != nil {
			t.Fatal(err)
		}
		wantErased(t, path, secret)
		for i := range 3 {
			c, err := s.Context(t.Context(), tenant, ref(i+1).Key)
			if err != nil {
				t.Fatal(err)
			}
			if i == 2 && !cmp.Equal(before, c) {
				t.Errorf("another context changed: %s", cmp.Diff(before, c))
			}
			if i < 2 && len(c.Context.RecentToolCalls)+len(c.PriorCalls)+len(c.Context.SummaryBeforeWindow) != 0 {
				t.Errorf("context %d: %+v", i+1, c)
			}
			told = append(told, c)
		}
	}
	if got := told[0].Context.UserPreferences.Language; got != "en" {
		t.Errorf("the values of the client are %q", got)
	}
	if diff := cmp.Diff(told[:3], told[3:]); diff != "" {
		t.Errorf("without the keys: %s", diff)
	}
}
