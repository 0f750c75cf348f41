package contextstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/ledger"
	"daybook/projections"
)

func custom(name, value string) contextstore.Patch {
	return contextstore.Patch{Custom: map[string]json.RawMessage{name: json.RawMessage(value)}}
}

// Ids are 64 hex characters from crypto/rand, and each context has a different one.
func TestIDsAreRandom(t *testing.T) {
	t.Parallel()
	const many = 1_000_000
	seen := make(map[string]struct{}, many)
	for range many {
		seen[events.NewSessionID()] = struct{}{}
	}
	if len(seen) != many {
		t.Errorf("%d contexts have %d different ids", many, len(seen))
	}
	for id := range seen {
		if !events.ValidHash(id) {
			t.Fatalf("id %q", id)
		}
	}
	b := openTestLedger(t)
	a, other := get(t, b.store(), named(1)), get(t, b.store(), named(2))
	if !events.ValidHash(a.SessionID) || a.SessionID == other.SessionID {
		t.Errorf("ids %q and %q", a.SessionID, other.SessionID)
	}
}

// The id of a session name's context is not derived from the name: two ledgers give
// different ids.
func TestIDsAreNotDerived(t *testing.T) {
	t.Parallel()
	one, two := openTestLedger(t), openTestLedger(t)
	a, b := get(t, one.store(), named(1)), get(t, two.store(), named(1))
	if a.SessionID == b.SessionID {
		t.Errorf("the same name has id %s in two ledgers", a.SessionID)
	}
	k := contextstore.Key{Tenant: events.DefaultTenant, Kind: events.ContextLogical, ID: events.NewSessionID()}
	if got := get(t, one.store(), k).SessionID; got != k.ID {
		t.Errorf("a session's own random id %s became %s", k.ID, got)
	}
}

// For any session name, its key and subject are plain and have one form. Kinds and
// tenants never share a key.
func TestKeysAreNamespaced(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, tenant := range []string{"default", "acme"} {
		for _, kind := range []events.ContextKind{events.ContextLogical, events.ContextSession, events.ContextTransport} {
			for _, name := range []string{"a", "a.b", "*", ">", "a\x00b", "", strings.Repeat("x", 10_000), "../..", "$JS.API"} {
				key := contextstore.Key{Tenant: tenant, Kind: kind, ID: name}.String()
				who := fmt.Sprintf("%s %s %.20q", tenant, kind, name)
				if !events.ValidHash(key) {
					t.Errorf("%s: key %q", who, key)
				}
				if before, taken := seen[key]; taken {
					t.Errorf("%s and %s share a key", who, before)
				}
				seen[key] = who
				if got, want := events.ContextSubject(tenant, key), tenant+".context."+key; got != want {
					t.Errorf("subject %s, want %s", got, want)
				}
			}
		}
	}
}

// views replaces the read side.
type views struct {
	contextstore.Views
	context func(key string) (projections.ContextState, error)
}

func (v views) Context(_ context.Context, _, key string) (projections.ContextState, error) {
	return v.context(key)
}

// A context that is stored under the key of another context is never served. It is logged
// as an error, and the answer does not reveal its owner.
func TestMismatchIsRefused(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	theirs := set(t, b.store(), named(2), "word", `"canary"`)
	var log bytes.Buffer
	s := b.store(func(o *contextstore.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Views = views{b.views, func(string) (projections.ContextState, error) {
			return b.views.Context(t.Context(), events.DefaultTenant, named(2).String())
		}}
	})
	for name, try := range map[string]func() error{
		"get": func() error { _, err := s.Get(t.Context(), named(1), "get_context"); return err },
		"set": func() error { _, _, err := s.Set(t.Context(), named(1), custom("a", "1"), client); return err },
	} {
		err := try()
		if err == nil || ledger.CodeOf(err) != ledger.CodeInternal || strings.Contains(err.Error(), theirs.SessionID) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(log.String(), "level=ERROR") || strings.Contains(log.String(), "canary") {
		t.Errorf("the log: %s", log.String())
	}
	if got := get(t, b.store(), named(2)); string(got.Custom["word"]) != `"canary"` || len(got.Custom) != 1 {
		t.Errorf("the context of the other session is %v", got.Custom)
	}
}

// A call without a session is refused, and the message names the remedy.
func TestNoSession(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	if _, err := b.store().Get(t.Context(), contextstore.Key{Tenant: events.DefaultTenant}, "get_context"); !errors.Is(err, contextstore.ErrNone) {
		t.Error(err)
	}
}

// With many concurrent sessions in a small cache, no value of one session appears in
// another.
func TestSessionsNeverMix(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store(func(o *contextstore.Options) { o.MaxSessions = 3 })
	ids := make([]string, 12)
	var wg sync.WaitGroup
	for n := range ids {
		wg.Go(func() {
			k := named(n)
			for i := range 15 {
				if _, _, err := s.Set(t.Context(), k, custom(fmt.Sprint("key", i), fmt.Sprintf(`"of %d"`, n)), client); err != nil {
					t.Errorf("session %d: %v", n, err)
					return
				}
				if err := s.Note(t.Context(), k, contextstore.Call{Tool: fmt.Sprint("tool", n), CalledAt: began}); err != nil {
					t.Errorf("session %d: %v", n, err)
				}
				c, err := s.Get(t.Context(), k, "get_context")
				if err != nil {
					t.Errorf("session %d: %v", n, err)
					return
				}
				if ids[n] == "" {
					ids[n] = c.SessionID
				}
				if c.SessionID != ids[n] || len(c.Custom) != i+1 {
					t.Errorf("session %d is %s with %d values, was %s", n, c.SessionID, len(c.Custom), ids[n])
				}
				for name, v := range c.Custom {
					if string(v) != fmt.Sprintf(`"of %d"`, n) {
						t.Errorf("session %d has %s: %s", n, name, v)
					}
				}
				for _, call := range c.RecentToolCalls {
					if call.Tool != fmt.Sprint("tool", n) {
						t.Errorf("session %d has a call of %s", n, call.Tool)
					}
				}
			}
		})
	}
	wg.Wait()
}

// A fresh context has the documented members, all empty.
func TestFreshContext(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	c := get(t, b.store(), named(1))
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"schema_version":1,"session_id":"` + c.SessionID + `","created_at":"2026-11-21T09:30:00.000Z","last_updated_at":"2026-11-21T09:30:00.000Z",` +
		`"user_preferences":{},"recent_tool_calls":[],"fetched_resources":[],"custom":{}}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
	// A context that was only read stays the same, also in another process and after a
	// restart.
	s := b.store()
	before := get(t, s, named(2))
	b.clock.advance(time.Minute)
	s.Flush(t.Context())
	b.settle()
	if diff := cmp.Diff(before, get(t, b.store(), named(2))); diff != "" {
		t.Error(diff)
	}
}

// Preferences have their documented forms. Other values are refused.
func TestPreferences(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store()
	for _, tt := range []struct {
		patch string
		want  events.UserPreferences
		err   string
	}{
		{patch: `{"output_format":"markdown","max_results":5,"language":"pt-BR"}`, want: events.UserPreferences{OutputFormat: "markdown", MaxResults: 5, Language: "pt-BR"}},
		{patch: `{"max_results":7}`, want: events.UserPreferences{OutputFormat: "markdown", MaxResults: 7, Language: "pt-BR"}},
		{patch: `{"language":null}`, want: events.UserPreferences{OutputFormat: "markdown", MaxResults: 7}},
		{patch: `{"output_format":"xml"}`, err: "must be one of json, markdown, plain"},
		{patch: `{"max_results":80e-1}`, want: events.UserPreferences{OutputFormat: "markdown", MaxResults: 8}},
		{patch: `{"max_results":7.5}`, err: "1 to 1000"},
		{patch: `{"max_results":0}`, err: "1 to 1000"},
		{patch: `{"max_results":1001}`, err: "1 to 1000"},
		{patch: `{"max_results":"5"}`, err: "1 to 1000"},
		{patch: `{"language":"no language"}`, err: "language tag"},
		{patch: `{"language":"` + strings.Repeat("a-", 30) + `a"}`, err: "language tag"},
		{patch: `{"colour":"red"}`, err: `no member "colour"`},
	} {
		var p contextstore.Patch
		if err := json.Unmarshal([]byte(tt.patch), &p.UserPreferences); err != nil {
			t.Fatal(err)
		}
		c, _, err := s.Set(t.Context(), named(1), p, client)
		switch {
		case tt.err == "" && (err != nil || c.UserPreferences != tt.want):
			t.Errorf("%s: %+v, %v", tt.patch, c.UserPreferences, err)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || ledger.CodeOf(err) != ledger.CodeInvalid):
			t.Errorf("%s: %v, want %s", tt.patch, err, tt.err)
		}
	}
}

// Values over a limit, and values that look like secrets, are refused, and the message
// names the remedy. Earlier values stay.
func TestCustomIsBounded(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store()
	many := map[string]json.RawMessage{}
	for n := range contextstore.MaxCustomKeys + 1 {
		many[fmt.Sprint(n)] = json.RawMessage("1")
	}
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	set(t, s, named(1), "kept", long(20_000))
	for name, tt := range map[string]struct {
		patch map[string]json.RawMessage
		want  string
		code  ledger.Code
	}{
		"many keys":         {many, "100 are possible", ledger.CodeTooLarge},
		"one long value":    {custom("a", long(33_000)).Custom, "keep an id or a summary", ledger.CodeTooLarge},
		"too much in all":   {custom("a", long(20_000)).Custom, "32768 are possible", ledger.CodeTooLarge},
		"a long key":        {custom(strings.Repeat("ä", 129), "1").Custom, "1 to 128 characters", ledger.CodeInvalid},
		"an empty key":      {custom("", "1").Custom, "1 to 128 characters", ledger.CodeInvalid},
		"a control":         {custom("a\nb", "1").Custom, "visible text", ledger.CodeInvalid},
		"deep":              {custom("a", deep).Custom, "nested more than", ledger.CodeInvalid},
		"a secret":          {custom("apiKey", `"x"`).Custom, "looks like a secret", ledger.CodeInvalid},
		"a secret within":   {custom("a", `[{"db_password":"x"}]`).Custom, `"db_password" looks like a secret`, ledger.CodeInvalid},
		"no JSON (library)": {custom("a", `{`).Custom, "not well-formed", ledger.CodeInvalid},
	} {
		_, _, err := s.Set(t.Context(), named(1), contextstore.Patch{Custom: tt.patch}, client)
		if err == nil || !strings.Contains(err.Error(), tt.want) || ledger.CodeOf(err) != tt.code {
			t.Errorf("%s: %v (%s), want %s (%s)", name, err, ledger.CodeOf(err), tt.want, tt.code)
		}
	}
	c := set(t, s, named(1), "max_tokens", "5")
	if len(c.Custom) != 2 || len(c.Custom["kept"]) != 20_002 {
		t.Errorf("%d values", len(c.Custom))
	}
	if c = set(t, s, named(1), "kept", "null"); len(c.Custom) != 1 {
		t.Errorf("null leaves %v", c.Custom)
	}
}

// Concurrent edits of several processes are all in the result.
func TestConcurrentEditsAreNotLost(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	stores := []*contextstore.Store{b.store(), b.store(), b.store()}
	var wg sync.WaitGroup
	for n := range 12 {
		wg.Go(func() {
			if _, _, err := stores[n%3].Set(t.Context(), named(1), custom(fmt.Sprint(n), fmt.Sprint(n)), client); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, s := range stores {
		if c := get(t, s, named(1)); len(c.Custom) != 12 {
			t.Errorf("store %d has %v", i, c.Custom)
		}
	}
	seq := b.count(events.TypeContextUpdated)
	set(t, stores[0], named(1), "5", "5")
	if after := b.count(events.TypeContextUpdated); after != seq {
		t.Errorf("an edit without a change was recorded: %d events, then %d", seq, after)
	}
}

// A noted call has its tool, arguments, time and a short result.
func TestCallRecord(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store()
	err := s.Note(t.Context(), named(1), contextstore.Call{
		Tool: "search", Arguments: map[string]any{"q": strings.Repeat("ö", 500), "n": int64(3), "tags": map[string]string{"env": "test"}},
		CalledAt: began.Add(time.Second), Summary: strings.Repeat("long ", 200),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := get(t, s, named(1))
	if len(c.RecentToolCalls) != 1 {
		t.Fatalf("%+v", c)
	}
	got := c.RecentToolCalls[0]
	if got.Tool != "search" || got.CalledAt != "2026-11-21T09:30:01.000Z" || len([]rune(got.ResultSummary)) != 280 {
		t.Errorf("%+v", got)
	}
	args, err := json.Marshal(got.Args)
	if err != nil || string(args) != `{"n":3,"q":"`+strings.Repeat("ö", 199)+`…","tags":{"env":"test"}}` {
		t.Errorf("%s, %v", args, err)
	}
	// Many long arguments do not make a long note.
	big := map[string]any{}
	for n := range 50 {
		big[fmt.Sprint("argument ", n)] = strings.Repeat("x", 300)
	}
	if err := s.Note(t.Context(), named(1), contextstore.Call{Tool: "search", Arguments: big, CalledAt: began}); err != nil {
		t.Fatal(err)
	}
	calls := get(t, s, named(1)).RecentToolCalls
	if args, err = json.Marshal(calls[1].Args); err != nil || len(args) > 1500 {
		t.Errorf("%d bytes of arguments, %v", len(args), err)
	}
}

// Values of arguments that look like secrets are in no event, and cannot be guessed
// from a hash.
func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store(func(o *contextstore.Options) { o.SecretKeys = []string{"pin"} })
	for _, secret := range []string{"hunter2", "letmein"} {
		err := s.Note(t.Context(), named(1), contextstore.Call{Tool: "login", CalledAt: began, Arguments: map[string]any{
			"user": "ada", "password": secret, "headers": map[string]string{"Authorization": secret, "X-Api-Key": secret}, "list": []any{map[string]any{"cardPIN": secret}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	c := get(t, s, named(1))
	raw, err := json.Marshal(c)
	if err != nil || bytes.Contains(raw, []byte("hunter2")) || !bytes.Contains(raw, []byte("ada")) || bytes.Count(raw, []byte("[redacted]")) != 4 {
		t.Errorf("%s, %v", raw, err)
	}
	if len(c.RecentToolCalls) != 1 || c.RecentToolCalls[0].Times != 2 {
		t.Errorf("calls that differ only in a secret have different hashes: %+v", c.RecentToolCalls)
	}
	list, err := b.log.Read(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if raw, err := json.Marshal(e.Data); err != nil || bytes.Contains(raw, []byte("hunter2")) {
			t.Errorf("event %d: %s, %v", e.Seq, raw, err)
		}
	}
}

// An equal call is found by its hash, only in its own context and until the context expires.
func TestPriorCall(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store()
	args := map[string]any{"tags": map[string]string{"a": "1", "b": "2"}}
	hash := s.CallHash("query", args)
	if other := s.CallHash("query", map[string]any{"tags": map[string]string{"b": "2", "a": "1"}}); other != hash {
		t.Error("the hash depends on the order of members")
	}
	for name, other := range map[string]string{
		"another tool": s.CallHash("other", args), "another value": s.CallHash("query", map[string]any{"tags": map[string]string{"a": "1", "b": "3"}}), "none": s.CallHash("query", nil),
	} {
		if other == hash {
			t.Errorf("%s has the same hash", name)
		}
	}
	three := int64(3)
	for range 2 {
		if err := s.Note(t.Context(), named(1), contextstore.Call{Tool: "query", Arguments: args, CalledAt: began, Summary: "3 heaps", ResultSHA256: events.Hash(nil), Results: &three}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.PriorCall(t.Context(), named(1), "query", hash)
	want := &projections.PriorCall{ArgsSHA256: hash, Tool: "query", CalledAt: "2026-11-21T09:30:00.000Z", Times: 2, Summary: "3 heaps", Results: &three, ResultSHA256: events.Hash(nil)}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if got, err := s.PriorCall(t.Context(), named(2), "query", hash); got != nil || err != nil {
		t.Errorf("in another context: %+v, %v", got, err)
	}
	if _, _, err := s.Clear(t.Context(), named(1), client); err != nil {
		t.Fatal(err)
	}
	if got, err := s.PriorCall(t.Context(), named(1), "query", hash); got != nil || err != nil {
		t.Errorf("after clearing: %+v, %v", got, err)
	}
}

// A context expires after 30 minutes without use, and a read is a use. The expiry is
// recorded, and all earlier events stay.
func TestIdleContextsExpire(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store()
	first := set(t, s, named(1), "a", "1")
	for range 3 {
		b.clock.advance(29*time.Minute + 59*time.Second)
		if c := get(t, s, named(1)); len(c.Custom) != 1 {
			t.Fatalf("after 29:59: %v", c.Custom)
		}
	}
	b.clock.advance(30*time.Minute + time.Second)
	c := get(t, s, named(1))
	if len(c.Custom) != 0 || c.SessionID != first.SessionID || c.CreatedAt != events.FormatTime(b.clock.Now()) {
		t.Errorf("after 30:01: %+v", c)
	}
	if b.count(events.TypeContextExpired) != 1 || b.count(events.TypeContextUpdated) != 1 {
		t.Error("the expired and updated events are not recorded once each")
	}
	// A sweep does the same for contexts that no call uses, in memory or not.
	set(t, s, named(2), "a", "1")
	set(t, b.store(), named(3), "a", "1")
	b.clock.advance(29*time.Minute + 59*time.Second)
	for _, want := range []int{1, 3} {
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := b.count(events.TypeContextExpired); n != want {
			t.Errorf("at %s %d contexts have expired, want %d", b.clock.Now(), n, want)
		}
		b.clock.advance(2 * time.Second)
	}
	if n := s.Stats(); n.Sessions != 0 || n.Evictions[contextstore.EvictedIdle] == 0 {
		t.Errorf("%+v", n)
	}
	// A context expires once.
	b.clock.advance(time.Hour)
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(events.TypeContextExpired); n != 3 {
		t.Errorf("%d contexts have expired", n)
	}
}

// The contexts of a connection that only reads, and of one that clears its context, are
// removed after their idle time.
func TestEmptyConnectionsExpire(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store()
	reads := contextstore.Key{Tenant: events.DefaultTenant, Kind: events.ContextTransport, ID: "reads"}
	clears := contextstore.Key{Tenant: events.DefaultTenant, Kind: events.ContextTransport, ID: "clears"}
	get(t, s, reads)
	set(t, s, clears, "a", "1")
	if _, _, err := s.Clear(t.Context(), clears, client); err != nil {
		t.Fatal(err)
	}
	s.Flush(t.Context())
	for range 2 {
		b.clock.advance(31 * time.Minute)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := b.count(events.TypeContextExpired); n != 2 {
			t.Errorf("%d contexts have expired, want 2", n)
		}
	}
	if u, err := b.views.TenantUsage(t.Context(), events.DefaultTenant); err != nil || u.Contexts != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// Over the limit, exactly the least recently used context is evicted. A get of a cached
// context evicts none.
func TestLeastRecentlyUsedIsEvicted(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	var read []string
	s := b.store(func(o *contextstore.Options) {
		o.MaxSessions = 3
		o.Views = views{b.views, func(key string) (projections.ContextState, error) {
			read = append(read, key)
			return b.views.Context(t.Context(), events.DefaultTenant, key)
		}}
	})
	writer := b.store()
	for n := range 5 {
		set(t, writer, named(n), "n", fmt.Sprint(n))
	}
	for _, step := range []struct {
		get            int
		loads, evicted int64
	}{
		{0, 1, 0}, {1, 2, 0}, {2, 3, 0},
		{0, 3, 0}, // cached
		{3, 4, 1}, // evicts 1
		{0, 4, 1}, {2, 4, 1}, {3, 4, 1},
		{1, 5, 2}, // evicts 0
		{0, 6, 3},
	} {
		if c := get(t, s, named(step.get)); string(c.Custom["n"]) != fmt.Sprint(step.get) {
			t.Fatalf("context %d has %s", step.get, c.Custom["n"])
		}
		st := s.Stats()
		if int64(len(read)) != step.loads || st.Evictions[contextstore.EvictedLRU] != step.evicted || st.Sessions > 3 {
			t.Fatalf("after %d: %d reads, %+v", step.get, len(read), st)
		}
	}
}

// Above the high-water limit, the least recently used fifth is evicted, rounded up.
func TestMemoryPressure(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	used := uint64(99)
	s := b.store(func(o *contextstore.Options) {
		o.HighWaterBytes = 100
		o.HeapBytes = func() uint64 { return used }
	})
	for n := range 11 {
		set(t, s, named(n), "n", "1")
	}
	for _, want := range []int{11, 8, 6} {
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.Stats().Sessions; got != want {
			t.Errorf("with %d of 100 bytes used, %d contexts are in memory, want %d", used, got, want)
		}
		used = 100
	}
	if n := s.Stats().Evictions[contextstore.EvictedPressure]; n != 5 {
		t.Errorf("%d contexts were evicted", n)
	}
	if n := b.count(events.TypeContextExpired); n != 0 {
		t.Errorf("%d contexts were lost", n)
	}
}

// A context with a running execution is not evicted and does not expire.
func TestContextsWithRunsAreKept(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store(func(o *contextstore.Options) { o.MaxSessions = 2 })
	ref, err := s.Ref(t.Context(), named(1))
	if err != nil {
		t.Fatal(err)
	}
	run := events.NewID(began)
	b.append(&events.ExecutionRequested{ExecutionID: run, Pool: events.DefaultPool, Context: &ref, Actor: client})
	before := get(t, s, named(1))
	for n := range 3 {
		get(t, s, named(10+n))
	}
	b.clock.advance(2 * time.Hour)
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads := s.Stats().Evictions
	if diff := cmp.Diff(before, get(t, s, named(1))); diff != "" {
		t.Errorf("a context with a run has changed:\n%s", diff)
	}
	if reads[contextstore.EvictedLRU] == 0 {
		t.Error("no context was evicted")
	}
	b.append(events.NewEnding(events.StatusCompleted, events.Ending{ExecutionID: run, Attempt: 1}))
	if got := get(t, s, named(1)).RecentToolCalls; len(got) != 1 || got[0].ResultSummary != "completed" {
		t.Errorf("after the end of the run: %+v", got)
	}
	b.clock.advance(31 * time.Minute)
	if c := get(t, s, named(1)); len(c.RecentToolCalls) != 0 {
		t.Errorf("after the run, the context does not expire: %+v", c)
	}
}

// An evicted context is read again unchanged. Reads are counted in a histogram.
func TestEvictedContextsAreReadAgain(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store(func(o *contextstore.Options) { o.MaxSessions = 1 })
	for n := range 20 {
		note(t, s, named(1), b.clock.Now().Add(time.Duration(n)*time.Second), n)
	}
	if err := s.NoteResource(t.Context(), named(1), contextstore.Resource{ID: "heap://x", Type: "database_row", Content: strings.Repeat("ä", 300), FetchedAt: began}); err != nil {
		t.Fatal(err)
	}
	set(t, s, named(1), "a", `{"b": [1, 2.50]}`)
	before := get(t, s, named(1))
	if before.WindowStartIndex == 0 || len(before.FetchedResources) != 1 || before.FetchedResources[0].Summary != strings.Repeat("ä", 200)+"…" {
		t.Fatalf("%+v", before)
	}
	s.Flush(t.Context())
	get(t, s, named(2))
	if s.Stats().Evictions[contextstore.EvictedLRU] == 0 {
		t.Fatal("no context was evicted")
	}
	if diff := cmp.Diff(before, get(t, s, named(1))); diff != "" {
		t.Error(diff)
	}
	st := s.Stats()
	if st.Reads < 3 || st.ReadBuckets[1000] > st.Reads || st.ReadMillis <= 0 {
		t.Errorf("%+v", st)
	}
}

// After a restart, all contexts can be read, and those that have expired are fresh. Rebuilt
// projections give the same contexts.
func TestContextsAfterARestart(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	ctx, stop := context.WithCancel(t.Context())
	s := b.store()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for n := range 3 {
		note(t, s, named(1), began, n)
	}
	set(t, s, named(2), "a", "1")
	want1, want2 := get(t, s, named(1)), get(t, s, named(2))
	note(t, s, named(3), began, 1)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.settle()
	again := b.store()
	if n := again.Stats().Sessions; n != 0 {
		t.Errorf("%d sessions before the first call", n)
	}
	rebuilt := b.store(func(o *contextstore.Options) {
		o.Views = follow(t, b.log, filepath.Join(t.TempDir(), "again.db"))
		last, err := b.log.LastSeq(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Views.Wait(t.Context(), last); err != nil {
			t.Fatal(err)
		}
	})
	for name, s := range map[string]*contextstore.Store{"restarted": again, "rebuilt": rebuilt} {
		if diff := cmp.Diff([]projections.Context{want1, want2}, []projections.Context{get(t, s, named(1)), get(t, s, named(2))}); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if c := get(t, s, named(3)); len(c.RecentToolCalls) != 1 {
			t.Errorf("%s: the last note is lost: %+v", name, c)
		}
	}
	b.clock.advance(31 * time.Minute)
	late := b.store()
	if err := late.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := late.Stats().Sessions; n != 0 {
		t.Errorf("expired contexts count as %d sessions", n)
	}
	if c := get(t, late, named(2)); len(c.Custom) != 0 {
		t.Errorf("%+v", c)
	}
}

// health_check has the documented members. It is degraded exactly when the store is
// down or memory is short. A full cache loses nothing and is healthy.
func TestHealth(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	for name, tt := range map[string]struct {
		check    error
		used     uint64
		sessions int
		want     string
		pct      int64
	}{
		"well":        {used: 90 << 20, sessions: 2, want: "healthy", pct: 90},
		"store down":  {check: errors.New("down"), want: "degraded"},
		"pressure":    {used: 91 << 20, want: "degraded", pct: 91},
		"full":        {sessions: 3, want: "healthy"},
		"over at all": {used: 200 << 20, sessions: 3, check: errors.New("down"), want: "degraded", pct: 200},
	} {
		s := b.store(func(o *contextstore.Options) {
			o.MaxSessions, o.HighWaterBytes = 3, 100<<20
			o.HeapBytes = func() uint64 { return tt.used }
			o.Check = func(context.Context) error { return tt.check }
		})
		for n := range tt.sessions {
			get(t, s, named(n))
		}
		h := s.Health(t.Context())
		ok := tt.check == nil
		want := contextstore.Health{Status: tt.want, Timestamp: "2026-11-21T09:30:00.000Z", ContextStore: contextstore.StoreHealth{
			SessionCount: tt.sessions, MaxSessions: 3, HeapUsedMB: int64(tt.used >> 20), HeapPressurePct: tt.pct, StoreOK: ok, RedisOK: ok,
		}}
		if diff := cmp.Diff(want, h); diff != "" || h.Degraded() != (tt.want == "degraded") {
			t.Errorf("%s: %s", name, diff)
		}
		s.Flush(t.Context())
	}
}

// An expiry that a call detects is counted like one that a sweep detects.
func TestExpiryOnAccessIsCounted(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store()
	set(t, s, named(0), "city", `"Oslo"`)
	b.clock.advance(31 * time.Minute)
	if c := get(t, s, named(0)); len(c.Custom) != 0 {
		t.Errorf("the context did not expire: %+v", c)
	}
	if n := s.Stats().Evictions[contextstore.EvictedIdle]; n != 1 {
		t.Errorf("%d contexts were evicted as idle", n)
	}
}

// The context of a session name belongs to the principal of a token, unless the tenant
// shares it. Without tokens it belongs to the name.
func TestScope(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	of := func(principal string) contextstore.Key {
		k := named(0)
		k.Principal = principal
		return k
	}
	if of("").String() != events.ContextKey(events.DefaultTenant, events.ContextSession, named(0).ID) {
		t.Error("without a token the key has changed")
	}
	apart, shared := b.store(), b.store(func(o *contextstore.Options) { o.TenantScope = true })
	set(t, apart, of("token|default|ada"), "city", `"Oslo"`)
	if c := get(t, apart, of("token|default|bob")); len(c.Custom) != 0 {
		t.Errorf("bob reads %v", c.Custom)
	}
	if c := get(t, apart, of("token|default|ada")); len(c.Custom) != 1 {
		t.Errorf("ada reads %v", c.Custom)
	}
	if c := get(t, shared, of("token|default|ada")); len(c.Custom) != 0 {
		t.Errorf("the tenant reads %v", c.Custom)
	}
	set(t, shared, of("token|default|ada"), "city", `"Bergen"`)
	if c := get(t, shared, of("token|default|bob")); len(c.Custom) != 1 {
		t.Errorf("with TenantScope bob reads %v", c.Custom)
	}
	// The context of a logical session, whose id is a secret, does not depend on the token.
	logical := contextstore.Key{Tenant: events.DefaultTenant, Kind: events.ContextLogical, ID: events.Hash([]byte("a session"))}
	other := logical
	other.Principal = "token|default|ada"
	if logical.String() != other.String() {
		t.Error("the context of a logical session depends on the principal")
	}
}

// A store that does not answer counts as down.
func TestHealthOfAHangingStore(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store(func(o *contextstore.Options) {
		o.Check = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if h := s.Health(ctx); !h.Degraded() || h.ContextStore.StoreOK || ctx.Err() != nil {
		t.Errorf("%+v, %v", h, ctx.Err())
	}
}

// All reasons are in the statistics from the start, at 0.
func TestStatsListAllReasons(t *testing.T) {
	t.Parallel()
	st := openTestLedger(t).store().Stats()
	want := map[contextstore.Eviction]int64{"idle": 0, "lru": 0, "memory_pressure": 0}
	if diff := cmp.Diff(want, st.Evictions); diff != "" || st.Sessions != 0 || st.Reads != 0 {
		t.Errorf("%+v %s", st, diff)
	}
}

// Each read is logged at debug level with the tool and a hash of the id. The id itself
// is never logged, because it grants access.
func TestReadsAreLogged(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	var log bytes.Buffer
	s := b.store(func(o *contextstore.Options) {
		o.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	c := get(t, s, named(1))
	if _, err := s.PriorCall(t.Context(), named(1), "query_heaps_by_tags", "x"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), log.String())
	}
	for i, tool := range []string{"get_context", "query_heaps_by_tags"} {
		var line struct {
			Level, Msg, Tool string
			Session          string `json:"session_id_sha256"`
		}
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			t.Fatal(err)
		}
		if line.Level != "DEBUG" || line.Tool != tool || line.Session != events.Hash([]byte(c.SessionID)) {
			t.Errorf("%s", lines[i])
		}
	}
	if strings.Contains(log.String(), c.SessionID) {
		t.Error("the log holds the id")
	}
}

// broken is a log that accepts no events.
type broken struct{ contextstore.Log }

func (broken) Append(context.Context, events.Event, int64) (uint64, error) {
	return 0, &events.UnwritableError{What: "the ledger", Reason: "the disk is full"}
}

// While nothing can be written, recorded content can be read, edits are refused with a
// reason, and a limited number of notes waits.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	set(t, b.store(), named(1), "a", "1")
	s := b.store(func(o *contextstore.Options) { o.Log = broken{b.log} })
	for n := range 200 {
		_ = s.Note(t.Context(), named(1), contextstore.Call{Tool: "search", Arguments: map[string]any{"n": n}, CalledAt: began}) // its error is not the caller's
	}
	if c := get(t, s, named(1)); len(c.Custom) != 1 {
		t.Errorf("%+v", c)
	}
	if n := s.Stats().Bytes; n > 32<<10 {
		t.Errorf("%d bytes wait", n)
	}
	_, _, err := s.Set(t.Context(), named(1), custom("b", "2"), client)
	if ledger.CodeOf(err) != ledger.CodeUnavailable || !strings.Contains(err.Error(), "the disk is full") {
		t.Error(err)
	}
}

// full is a log that refuses events about new contexts, permanently or until a later time.
type full struct {
	contextstore.Log
	retry time.Duration
}

func (f full) Append(context.Context, events.Event, int64) (uint64, error) {
	return 0, &ledger.Error{Code: ledger.CodeExhausted, Message: "too many contexts", RetryAfter: f.retry}
}

// For a tenant with too many contexts, calls are answered and their notes dropped.
// Edits are refused. Notes that may be recorded later are kept.
func TestTooManyContexts(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	s := b.store(func(o *contextstore.Options) { o.Log = full{Log: b.log} })
	for n := range 3 {
		err := s.Note(t.Context(), named(1), contextstore.Call{Tool: "search", Arguments: map[string]any{"n": n}, CalledAt: began, Durable: n == 1})
		if err != nil {
			t.Error(err)
		}
	}
	s.Flush(t.Context())
	if c := get(t, s, named(1)); len(c.RecentToolCalls) != 0 {
		t.Errorf("%+v", c)
	}
	if n := s.Stats().Bytes; n > 4<<10 {
		t.Errorf("%d bytes wait", n)
	}
	if _, _, err := s.Set(t.Context(), named(1), custom("b", "2"), client); ledger.CodeOf(err) != ledger.CodeExhausted || !strings.Contains(err.Error(), "too many contexts") {
		t.Error(err)
	}
	later := b.store(func(o *contextstore.Options) { o.Log = full{b.log, time.Second} })
	note(t, later, named(1), began, 1)
	later.Flush(t.Context())
	if n := later.Stats().Bytes; n <= s.Stats().Bytes {
		t.Errorf("%d bytes wait, and %d without notes", n, s.Stats().Bytes)
	}
}

// Any patch is refused or kept within the limits.
func FuzzPatch(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, `{"a":null}`, `{"a":{"token":"x"}}`, `{"":1}`, `{"a":[[[]]]}`, `{"\u0000":1}`, `{"a":1e999}`, `{"a":"\ud800"}`} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Add([]byte(`{"output_format":"plain","max_results":3,"language":"en"}`), []byte(`{}`))
	s, err := contextstore.New(contextstore.Options{Log: broken{}, Views: views{}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, prefs, values []byte) {
		var p contextstore.Patch
		if json.Unmarshal(prefs, &p.UserPreferences) != nil || json.Unmarshal(values, &p.Custom) != nil {
			return
		}
		got, err := s.Apply(p, events.ContextContent{})
		if err != nil {
			if code := ledger.CodeOf(err); code != ledger.CodeInvalid && code != ledger.CodeTooLarge || len(err.Error()) > 1024 {
				t.Errorf("%s: %v", code, err)
			}
			return
		}
		raw, err := json.Marshal(got)
		if err != nil || len(raw) > 6*contextstore.MaxCustomBytes+1024 || len(got.Custom) > contextstore.MaxCustomKeys || got.UserPreferences.MaxResults > contextstore.MaxMaxResults {
			t.Errorf("%d bytes, %v", len(raw), err)
		}
		if m, err := events.Encode(events.New("default", began, &events.ContextUpdated{Content: events.Plain(got)})); err != nil || len(m.Body) > math.MaxInt32 {
			t.Errorf("the content cannot be recorded: %v", err)
		}
	})
}
