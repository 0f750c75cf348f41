package contextstore_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// fakeKeys holds the keys that exist.
type fakeKeys struct {
	mu  sync.Mutex
	ids []string
}

func (k *fakeKeys) ContentKey(id string) ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return make([]byte, 32), slices.Contains(k.ids, id)
}

func (k *fakeKeys) destroy(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ids = slices.DeleteFunc(k.ids, func(have string) bool { return have == id })
}

// While no key can be made, for example because the disk of the keys is full, a limited number of
// notes waits.
func TestNotesWithoutAKey(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	full := errors.New("the disk is full")
	s := b.store(func(o *contextstore.Options) {
		o.Encrypt = func(string, string) (string, func(), error) { return "", nil, full }
	})
	var err error
	for n := range 200 {
		err = s.Note(t.Context(), named(1), contextstore.Call{Tool: "search", Arguments: map[string]any{"n": n}, CalledAt: began})
	}
	if !errors.Is(err, full) {
		t.Errorf("the notes are recorded without a key: %v", err)
	}
	if n := s.Stats().Bytes; n > 32<<10 {
		t.Errorf("%d bytes wait", n)
	}
}

// An edit repeats the values before it, so it is recorded under their key although newer
// content has another one: destroying that key destroys the values. If they are destroyed
// while the edit is made, the edit does not repeat them.
func TestEditsKeepTheKeyOfTheValues(t *testing.T) {
	t.Parallel()
	keys := &fakeKeys{ids: []string{"first", "second"}}
	b := &testLedger{t: t, log: storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{Keys: keys}), clock: &clock{now: began}}
	b.views = follow(t, b.log, filepath.Join(t.TempDir(), "projections.db"))
	current := "first"
	encrypt := func(_, earlier string) (string, func(), error) {
		if earlier != "" {
			return earlier, func() {}, nil
		}
		return current, func() {}, nil
	}
	s := b.store(func(o *contextstore.Options) {
		o.Encrypt = func(tenant, earlier string) (string, func(), error) { return encrypt(tenant, earlier) }
	})
	k := contextstore.Key{Tenant: events.DefaultTenant, Kind: events.ContextSession, ID: "s"}
	set := func(name, wantKey string, want ...string) {
		t.Helper()
		c, _, err := s.Set(t.Context(), k, contextstore.Patch{Custom: map[string]json.RawMessage{name: json.RawMessage("1")}}, client)
		if err != nil {
			t.Fatal(err)
		}
		last, err := b.log.Last(t.Context(), events.ContextSubject(events.DefaultTenant, events.ContextKey(events.DefaultTenant, k.Kind, k.ID)))
		if err != nil {
			t.Fatal(err)
		}
		d := last.Data.(*events.ContextUpdated)
		if got := events.ContentKeyID(d); got != wantKey || len(d.Content.Value().Custom) != len(want) || len(c.Custom) != len(want) {
			t.Errorf("the edit of %s is under key %q with %v; the context has %v", name, got, d.Content.Value().Custom, c.Custom)
		}
		for _, name := range want {
			if d.Content.Value().Custom[name] == nil {
				t.Errorf("%s is missing in %v", name, d.Content.Value().Custom)
			}
		}
	}
	set("a", "first", "a")
	current = "second"
	set("b", "first", "a", "b")
	next := encrypt
	encrypt = func(tenant, earlier string) (string, func(), error) {
		encrypt = next
		keys.destroy(earlier)
		seq, err := b.log.Append(t.Context(), events.New(events.DefaultTenant, began, &events.SessionShredded{SessionID: events.NoSessionID(events.DefaultTenant), Kind: events.SessionNone, KeyIDs: []string{earlier}}), -1)
		if err != nil {
			t.Error(err)
		}
		b.wait(seq)
		return "", nil, events.ErrShredded
	}
	set("c", "second", "c")
}
