package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/internal/tools/catalog"
	"daybook/ledger"
	"daybook/mcp"
)

// testCatalog is a source of entries that a test can change.
type testCatalog struct {
	mu   sync.Mutex
	list []catalog.Entry
}

func (s *testCatalog) Entries(context.Context, string) []catalog.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// offer replaces the entries by tools such as "github.search" with a declaration.
func (s *testCatalog) offer(declaration string, tools ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = nil
	for _, name := range tools {
		server, _, _ := strings.Cut(name, ".")
		s.list = append(s.list, catalog.Entry{
			ID: "mcp." + name, Source: "mcp." + server, Summary: "does " + name, Declaration: "declare " + declaration + " " + name,
		})
	}
}

// logicalStack is a stack with tool servers that a test can change.
type logicalStack struct {
	*testStack
	shelf *testCatalog
	srv   *mcp.Server
	opts  mcp.Options
}

func openLogical(t *testing.T, opts ledger.Options) *logicalStack {
	t.Helper()
	b := &logicalStack{testStack: openStack(t, opts), shelf: new(testCatalog)}
	b.shelf.offer("v1", "github.search", "github.star", "slack.send", "zoo.feed")
	b.opts = mcp.Options{Catalog: catalog.New(map[string]string{"gh": "mcp.github"}, catalog.Builtin{}, b.shelf)}
	b.srv = b.serve(t, b.opts)
	return b
}

// connect opens another connection.
func (b *logicalStack) connect(t *testing.T) *pipe {
	t.Helper()
	p := openPipe(t, b.srv, "")
	p.initialize()
	return p
}

// restart returns the same ledger behind a new server.
func (b *logicalStack) restart(t *testing.T, opts ledger.Options) *logicalStack {
	t.Helper()
	opts.Logger = storetest.Logger(t)
	again := &logicalStack{testStack: &testStack{store: b.store, ledger: ledger.New(b.store, opts), views: b.views}, shelf: b.shelf, opts: b.opts}
	again.srv = again.serve(t, b.opts)
	return again
}

// sessionAnswer is the answer of open_session.
type sessionAnswer struct {
	Ref    string `json:"logical_session_ref"`
	Table  string `json:"table"`
	Notice string `json:"notice"`

	Meta struct {
		Ref        string `json:"logical_session_ref"`
		Continuity struct {
			Stale    *bool `json:"stale_binding_recovered"`
			NewSpace *bool `json:"new_symbol_space"`
			Discard  *bool `json:"discard_cached_symbols"`
			Previous *struct {
				Heap        string `json:"heap"`
				ExecutionID string `json:"execution_id"`
			} `json:"previous_execute"`
		} `json:"continuity"`
		Revision  int64             `json:"domain_revision"`
		Relations map[string]string `json:"relations"`
	} `json:"-"`
	raw toolResult
}

func openSession(p *pipe, intent string, seeds ...string) sessionAnswer {
	p.t.Helper()
	return openWith(p, map[string]any{"intent": intent, "seeds": seeds})
}

func openWith(p *pipe, args map[string]any) (a sessionAnswer) {
	p.t.Helper()
	r := p.tool("open_session", mustJSON(p.t, args))
	if r.IsError {
		p.t.Fatalf("open_session: %s", r.Content[0].Text)
	}
	a.raw = r
	if err := json.Unmarshal(r.StructuredContent, &a); err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(r.Meta["daybook/session"], &a.Meta); err != nil {
		p.t.Fatalf("_meta: %v", err)
	}
	c := a.Meta.Continuity
	if c.Stale == nil || c.NewSpace == nil || c.Discard == nil {
		p.t.Fatalf("continuity is not reported completely: %s", r.Meta["daybook/session"])
	}
	if *c.NewSpace != *c.Discard || *c.Stale != (c.Previous != nil) || a.Meta.Ref != a.Ref {
		p.t.Errorf("_meta contradicts itself: %s", r.Meta["daybook/session"])
	}
	return a
}

// runIn runs code in a session until it ends.
func (b *logicalStack) runIn(p *pipe, ref, code string) string {
	p.t.Helper()
	r := p.tool("run_js", mustJSON(p.t, map[string]any{"code": code, "logical_session_ref": ref}))
	if r.IsError {
		p.t.Fatalf("run_js: %s", r.Content[0].Text)
	}
	var s struct {
		ExecutionID string `json:"execution_id"`
	}
	if err := json.Unmarshal(r.StructuredContent, &s); err != nil {
		p.t.Fatal(err)
	}
	b.await(p.t, s.ExecutionID)
	return s.ExecutionID
}

// state returns the text of a session's head.
func (b *logicalStack) state(t *testing.T, session string) string {
	t.Helper()
	d, err := b.views.LogicalSession(t.Context(), events.DefaultTenant, session)
	if err != nil {
		t.Fatal(err)
	}
	if d.Head == nil {
		return ""
	}
	blob, _, err := b.store.Heap(t.Context(), events.DefaultTenant, *d.Head)
	if err != nil {
		t.Fatal(err)
	}
	return string(blob)
}

// id returns the id of an intent's session.
func (b *logicalStack) id(t *testing.T, intent string) string {
	t.Helper()
	o, err := b.ledger.OpenSession(t.Context(), ledger.Opening{Tenant: events.DefaultTenant, Intent: intent})
	if err != nil {
		t.Fatal(err)
	}
	if o.New {
		t.Errorf("the intent %q had no session", intent)
	}
	return o.SessionID
}

const unchanged = "_Session unchanged (`t1`…`t2`). Use `run_js` with this logical_session_ref._"

func TestSameIntentSameSession(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	one, two := openSession(p, "fix the bug", "mcp.github"), openSession(p, "fix the bug", "mcp.github")
	if one.Ref != "s0" || two.Ref != "s0" {
		t.Errorf("refs %q and %q", one.Ref, two.Ref)
	}
	page, err := b.views.LogicalSessions(t.Context(), events.DefaultTenant, 0, "")
	if err != nil || len(page.Sessions) != 1 {
		t.Errorf("sessions %+v, %v", page, err)
	}
}

func TestSessionSurvivesRestarts(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	openSession(p, "another", "builtin.console")
	one := openSession(p, "survive", "mcp.github")
	b.runIn(p, one.Ref, `"a"`)
	q := b.connect(t)
	two := openSession(q, "survive", "mcp.github")
	if one.Ref != "s1" || two.Ref != "s0" || two.Table != strings.ReplaceAll(unchanged, "t2", "t2") {
		t.Errorf("the second connection has ref %q (the first %q) and gets the table %q", two.Ref, one.Ref, two.Table)
	}
	after := b.restart(t, ledger.Options{})
	r := after.connect(t)
	three := openSession(r, "survive", "mcp.github")
	if three.Table != unchanged {
		t.Errorf("after a restart the table is %q", three.Table)
	}
	b.runIn(r, three.Ref, `"b"`)
	if got := b.state(t, b.id(t, "survive")); got != `"a""b"` {
		t.Errorf("the state is %s", got)
	}
}

// The short names of a named session survive a restart.
func TestRefsOfANamedSessionSurviveRestarts(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := openPipe(t, b.srv, "work")
	p.initialize()
	openSession(p, "one", "builtin.console")
	two := openSession(p, "two", "builtin.console")
	after := b.restart(t, ledger.Options{})
	q := openPipe(t, after.srv, "work")
	q.initialize()
	b.runIn(q, two.Ref, `"later"`)
	if got := b.state(t, b.id(t, "two")); got != `"later"` {
		t.Errorf("the state is %s", got)
	}
}

func TestIntentsAreComparedByBytes(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	for i, intent := range []string{"a", "A", " a", "a ", "é", "e\u0301", strings.Repeat("x", 512)} {
		if got := openSession(p, intent, "builtin.console"); got.Ref != fmt.Sprint("s", i) {
			t.Errorf("%q is %s", intent, got.Ref)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", 513)} {
		if r := p.tool("open_session", mustJSON(t, map[string]any{"intent": bad, "seeds": []string{"builtin"}})); !r.IsError || !strings.Contains(r.Content[0].Text, "intent") {
			t.Errorf("%d bytes: %+v", len(bad), r)
		}
	}
}

func TestIntentIsRequired(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := openPipe(t, b.srv, "a session name is no intent")
	p.initialize()
	for _, args := range []string{`{"seeds":["builtin"]}`, `{"intent":"x"}`, `{"intent":"x","seeds":[]}`, `{"intent":null,"seeds":["builtin"]}`} {
		if r := p.tool("open_session", args); !r.IsError {
			t.Errorf("%s was accepted: %s", args, r.StructuredContent)
		}
	}
	if page, err := b.views.LogicalSessions(t.Context(), events.DefaultTenant, 0, ""); err != nil || len(page.Sessions) != 0 {
		t.Errorf("sessions %+v, %v", page, err)
	}
}

func TestTwoIntentsTwoStates(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	one, two := openSession(p, "one", "builtin.console"), openSession(p, "two", "builtin.console")
	if one.Ref != "s0" || two.Ref != "s1" {
		t.Errorf("refs %q and %q", one.Ref, two.Ref)
	}
	b.runIn(p, one.Ref, `"1"`)
	b.runIn(p, two.Ref, `"2"`)
	b.runIn(p, one.Ref, `"3"`)
	if a, z := b.state(t, b.id(t, "one")), b.state(t, b.id(t, "two")); a != `"1""3"` || z != `"2"` {
		t.Errorf("states %s and %s", a, z)
	}
}

func TestUsedSessionExpands(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	one := openSession(p, "expand", "mcp.github.search")
	b.runIn(p, one.Ref, `"kept"`)
	more := openSession(p, "expand", "mcp.slack.send")
	if more.Ref != one.Ref || *more.Meta.Continuity.NewSpace {
		t.Errorf("expanded to %+v", more)
	}
	b.runIn(p, one.Ref, `"on"`)
	if got := b.state(t, b.id(t, "expand")); got != `"kept""on"` {
		t.Errorf("the state is %s", got)
	}
}

func TestFirstOpenDeclares(t *testing.T) {
	t.Parallel()
	p := openLogical(t, ledger.Options{}).connect(t)
	got := openSession(p, "first", "mcp.github")
	want := "```ts\n// t1 mcp.github.search\ndeclare v1 github.search\n// t2 mcp.github.star\ndeclare v1 github.star\n```"
	if got.Table != want || got.Notice != "" {
		t.Errorf("table %q, notice %q", got.Table, got.Notice)
	}
	var members map[string]any
	if err := json.Unmarshal(got.raw.StructuredContent, &members); err != nil || len(members) != 2 {
		t.Errorf("the answer is %s", got.raw.StructuredContent)
	}
}

func TestExpansionIsADelta(t *testing.T) {
	t.Parallel()
	p := openLogical(t, ledger.Options{}).connect(t)
	openSession(p, "delta", "mcp.github")
	got := openSession(p, "delta", "mcp.github.star", "mcp.zoo")
	if want := "```ts\n// t3 mcp.zoo.feed\ndeclare v1 zoo.feed\n```"; got.Table != want {
		t.Errorf("the expansion is %q", got.Table)
	}
	if diff := cmp.Diff(map[string]string{"t3": "mcp.zoo.feed"}, got.Meta.Relations); diff != "" {
		t.Error(diff)
	}
}

func TestKnownSeedsAreOneLine(t *testing.T) {
	t.Parallel()
	p := openLogical(t, ledger.Options{}).connect(t)
	openSession(p, "same", "mcp.github")
	if got := openSession(p, "same", "mcp.github.star"); got.Table != unchanged {
		t.Errorf("repeated: %q", got.Table)
	}
}

func TestKnownSourcesAreOneLine(t *testing.T) {
	t.Parallel()
	p := openLogical(t, ledger.Options{}).connect(t)
	openSession(p, "federated", "mcp.slack", "mcp.zoo")
	if got := openSession(p, "federated", "mcp.zoo", "mcp.slack", "mcp.zoo.feed"); got.Table != unchanged {
		t.Errorf("repeated: %q", got.Table)
	}
}

func TestReusedSessionIsOneLine(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	first := openSession(p, "reused", "mcp.github")
	b.runIn(p, first.Ref, `1`)
	for range 2 {
		q := b.connect(t)
		if got := openSession(q, "reused", "mcp.github"); got.Table != unchanged {
			t.Errorf("reused: %q", got.Table)
		}
	}
}

func TestOrderOfSeedsDoesNotMatter(t *testing.T) {
	t.Parallel()
	p := openLogical(t, ledger.Options{}).connect(t)
	one := openSession(p, "order 1", "mcp.zoo", "mcp.github", "mcp.slack")
	two := openSession(p, "order 2", "mcp.slack", "mcp.zoo", "mcp.github")
	if one.Table != two.Table {
		t.Errorf("tables differ:\n%s\n%s", one.Table, two.Table)
	}
	a := []catalog.Entry{{ID: "b.x", Source: "b"}, {ID: "a.y", Source: "a"}}
	if catalog.PrimarySource(a) != "a" || catalog.PrimarySource([]catalog.Entry{a[1], a[0]}) != "a" {
		t.Error("the primary source depends on the order")
	}
}

func TestAliases(t *testing.T) {
	t.Parallel()
	p := openLogical(t, ledger.Options{}).connect(t)
	openSession(p, "alias", "mcp.github", "mcp.slack.send")
	for name, args := range map[string]map[string]any{
		"the operator's":     {"seeds": []string{"gh"}},
		"for a part":         {"seeds": []string{"gh.star"}},
		"the client's":       {"seeds": []string{"chat"}, "registry_aliases": map[string]string{"chat": "mcp.slack.send"}},
		"the client's first": {"seeds": []string{"gh"}, "registry_aliases": map[string]string{"gh": "mcp.slack"}},
	} {
		args["intent"] = "alias"
		if got := openWith(p, args); !strings.HasPrefix(got.Table, "_Session unchanged") {
			t.Errorf("%s: %q", name, got.Table)
		}
	}
	r := p.tool("open_session", `{"intent":"alias","seeds":["githbu.search"]}`)
	if !r.IsError || !strings.Contains(r.Content[0].Text, "mcp.github.search") {
		t.Errorf("an unknown seed: %+v", r.Content)
	}
}

// TestSymbolsNeverChange checks that a symbol stands for one declaration, whatever
// is opened in whatever order, and however the catalog changes meanwhile.
func TestSymbolsNeverChange(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	names := []string{"a.one", "a.two", "b.one", "c.one", "c.two", "d.one"}
	r := rand.New(rand.NewPCG(7, 7))
	meaning := map[string]string{}
	lines := regexp.MustCompile(`(?m)^// (t\d+) (\S+)\n(.*)$`)
	for i := range 40 {
		if i%10 == 9 {
			b.shelf.offer(fmt.Sprint("v", i), names...)
		} else if i == 0 {
			b.shelf.offer("v0", names...)
		}
		seeds := []string{"mcp." + names[r.IntN(len(names))], "mcp." + names[r.IntN(len(names))]}
		for _, m := range lines.FindAllStringSubmatch(openSession(p, "symbols", seeds...).Table, -1) {
			if known, ok := meaning[m[1]]; ok && known != m[2]+m[3] {
				t.Fatalf("%s was %s and is %s", m[1], known, m[2]+m[3])
			}
			meaning[m[1]] = m[2] + m[3]
		}
	}
	if len(meaning) < len(names) {
		t.Errorf("only %d symbols were assigned", len(meaning))
	}
}

// TestReuseKey checks that each field of the key alone changes it.
func TestReuseKey(t *testing.T) {
	t.Parallel()
	base := func() ledger.Expansion {
		return ledger.Expansion{
			Tenant: "t", Session: "s", Primary: "p", Sources: map[string]string{"p": "1", "q": "1"}, Principal: "alice",
			Entries: []events.TaughtEntry{{ID: "p.a"}, {ID: "q.b"}},
		}
	}
	same := base()
	slices.Reverse(same.Entries)
	same.Sources["q"] = "2" // not the primary source
	if same.Key("e") != base().Key("e") {
		t.Error("the order of entries or another source's hash is part of the key")
	}
	for field, change := range map[string]func(*ledger.Expansion) string{
		"tenant":          func(t *ledger.Expansion) string { t.Tenant = "u"; return "e" },
		"primary":         func(t *ledger.Expansion) string { t.Primary = "q"; return "e" },
		"catalog hash":    func(t *ledger.Expansion) string { t.Sources["p"] = "2"; return "e" },
		"entries":         func(t *ledger.Expansion) string { t.Entries = t.Entries[:1]; return "e" },
		"principal":       func(t *ledger.Expansion) string { t.Principal = "bob"; return "e" },
		"engine":          func(*ledger.Expansion) string { return "f" },
		"logical session": func(t *ledger.Expansion) string { t.Session = ""; return "e" },
	} {
		changed := base()
		if engine := change(&changed); changed.Key(engine) == base().Key("e") {
			t.Errorf("%s is not part of the key", field)
		}
	}
}

func TestChangedCatalog(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	one := openSession(p, "changes", "mcp.github")
	b.runIn(p, one.Ref, `"kept"`)
	b.shelf.offer("v2", "github.search", "github.star")
	got := openSession(p, "changes", "mcp.github")
	if !*got.Meta.Continuity.NewSpace || *got.Meta.Continuity.Stale || !strings.Contains(got.Notice, "void") {
		t.Errorf("after the change: %s, notice %q", got.raw.Meta["daybook/session"], got.Notice)
	}
	if want := "// t3 mcp.github.search\ndeclare v2 github.search"; !strings.Contains(got.Table, want) {
		t.Errorf("the table is %q", got.Table)
	}
	b.runIn(p, got.Ref, `"on"`)
	if state := b.state(t, b.id(t, "changes")); state != `"kept""on"` {
		t.Errorf("the state is %s", state)
	}
	// A tool that is added to the session's primary source changes it too.
	b.shelf.offer("v2", "github.search", "github.star", "github.fork")
	if got := openSession(p, "changes", "mcp.github.star"); !*got.Meta.Continuity.NewSpace {
		t.Error("an added tool is not reported")
	}
}

// openBroken returns a session whose heap cannot be restored: it is recorded by another
// engine.
func openBroken(t *testing.T) (b *logicalStack, broken *logicalStack, p *pipe, run, heap string) {
	b = openLogical(t, ledger.Options{EngineID: testEngine})
	p = b.connect(t)
	one := openSession(p, "breaks", "mcp.github")
	run = b.runIn(p, one.Ref, `"gone"`)
	d, err := b.views.LogicalSession(t.Context(), events.DefaultTenant, b.id(t, "breaks"))
	if err != nil {
		t.Fatal(err)
	}
	broken = b.restart(t, ledger.Options{EngineID: "another-engine"})
	return b, broken, broken.connect(t), run, *d.Head
}

func TestLostStateIsReported(t *testing.T) {
	t.Parallel()
	b, _, p, _, _ := openBroken(t)
	got := openSession(p, "breaks", "mcp.github")
	if !strings.Contains(got.Notice, "void") || !strings.Contains(got.Notice, "starts from a fresh isolate") {
		t.Errorf("the notice is %q", got.Notice)
	}
	if !strings.Contains(got.Table, "// t3 mcp.github.search") || !strings.Contains(got.Table, "// t4 mcp.github.star") {
		t.Errorf("the table is incomplete: %q", got.Table)
	}
	b.runIn(p, got.Ref, `"new"`)
	if state := b.state(t, b.id(t, "breaks")); state != `"new"` {
		t.Errorf("the state is %s", state)
	}
	if again := openSession(p, "breaks", "mcp.github"); again.Notice != "" && *again.Meta.Continuity.Stale {
		t.Logf("the same engine made the new heap in this test: %s", again.Notice)
	}
}

func TestContinuityIsAlwaysReported(t *testing.T) {
	t.Parallel()
	_, _, p, _, _ := openBroken(t)
	openSession(p, "new", "mcp.github") // openSession checks each answer
	openSession(p, "new", "mcp.zoo")
	openSession(p, "new", "mcp.zoo")
	openSession(p, "breaks", "mcp.github")
}

func TestPreviousExecute(t *testing.T) {
	t.Parallel()
	_, _, p, run, heap := openBroken(t)
	got := openSession(p, "breaks", "mcp.github").Meta.Continuity
	if !*got.Stale || got.Previous == nil || got.Previous.Heap != heap || got.Previous.ExecutionID != run {
		t.Errorf("previous_execute is %+v, want heap %s of %s", got.Previous, heap, run)
	}
}

func TestNewSymbolsDiscardOldOnes(t *testing.T) {
	t.Parallel()
	_, _, p, _, _ := openBroken(t)
	for _, c := range []struct {
		intent string
		seeds  []string
		fresh  bool
	}{{"x", []string{"mcp.zoo"}, true}, {"x", []string{"mcp.zoo"}, false}, {"x", []string{"mcp.slack"}, false}, {"breaks", []string{"mcp.github"}, true}} {
		got := openSession(p, c.intent, c.seeds...).Meta.Continuity
		if *got.NewSpace != c.fresh || *got.Discard != c.fresh {
			t.Errorf("%s %v: new_symbol_space %t, discard_cached_symbols %t", c.intent, c.seeds, *got.NewSpace, *got.Discard)
		}
	}
}

func TestContinuityOfUnchangedSession(t *testing.T) {
	t.Parallel()
	p := openLogical(t, ledger.Options{}).connect(t)
	first := openSession(p, "steady", "mcp.github").Meta.Continuity
	if *first.Stale || !*first.NewSpace {
		t.Errorf("first: %+v", first)
	}
	for _, seeds := range []string{"mcp.github", "mcp.zoo"} {
		if steady := openSession(p, "steady", seeds).Meta.Continuity; *steady.Stale || *steady.NewSpace {
			t.Errorf("then: %+v", steady)
		}
	}
}

func TestMetaHasNoFurtherMembers(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	got := openSession(p, "meta", "mcp.github")
	var members map[string]any
	if err := json.Unmarshal(got.raw.Meta["daybook/session"], &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		if !slices.Contains([]string{"logical_session_ref", "continuity", "domain_revision", "relations"}, name) {
			t.Errorf("_meta has %s", name)
		}
	}
	whole := mustJSON(t, got.raw)
	if id := b.id(t, "meta"); strings.Contains(whole, id) {
		t.Errorf("the answer has the canonical id: %s", whole)
	}
}

func TestDomainRevision(t *testing.T) {
	t.Parallel()
	p := openLogical(t, ledger.Options{}).connect(t)
	var got []int64
	for _, seed := range []string{"mcp.github", "mcp.github", "mcp.zoo", "mcp.github.star", "mcp.slack", "mcp.slack"} {
		got = append(got, openSession(p, "revisions", seed).Meta.Revision)
	}
	if diff := cmp.Diff([]int64{1, 1, 2, 2, 3, 3}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRunsNeedNoFurtherOpen(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	one := openSession(p, "steady", "builtin.console")
	for range 3 {
		b.runIn(p, one.Ref, `1`)
	}
	stranger := b.connect(t)
	for _, ref := range []string{"s0", "s7", "S0", "", strings.Repeat("a", 64)} {
		r := stranger.tool("run_js", mustJSON(t, map[string]any{"code": "1", "logical_session_ref": ref}))
		if !r.IsError || ref != "" && !strings.Contains(r.Content[0].Text, "call open_session") {
			t.Errorf("%q: %+v", ref, r.Content)
		}
	}
	both := p.tool("run_js", mustJSON(t, map[string]any{"code": "1", "logical_session_ref": one.Ref, "heap": strings.Repeat("a", 64)}))
	if !both.IsError || !strings.Contains(both.Content[0].Text, "together with a logical session") {
		t.Errorf("with a heap: %+v", both.Content)
	}
}

func TestDiscoveredIDsAreSeeds(t *testing.T) {
	t.Parallel()
	p := openLogical(t, ledger.Options{}).connect(t)
	for query, want := range map[string]string{"search": "mcp.github.search", "": "builtin.clone", "feed zoo": "mcp.zoo.feed"} {
		r := p.tool("discover_tools", mustJSON(t, map[string]any{"intent": "copy values", "query": query}))
		var got struct {
			Entries []struct{ ID, Summary string }
		}
		if err := json.Unmarshal(r.StructuredContent, &got); err != nil || len(got.Entries) == 0 || got.Entries[0].ID != want {
			t.Fatalf("%q: %s, %v", query, r.StructuredContent, err)
		}
		if a := openSession(p, "copy "+query, got.Entries[0].ID); !strings.Contains(a.Table, want) {
			t.Errorf("%q: %q", query, a.Table)
		}
	}
}

// TestDiscoveryRanksByIntent checks that the intent alone ranks the entries, that matches
// are counted, and that an answer without matches lists the sources.
func TestDiscoveryRanksByIntent(t *testing.T) {
	t.Parallel()
	p := openLogical(t, ledger.Options{}).connect(t)
	discover := func(intent, query string) (got struct {
		Entries []struct{ ID, Summary string }
		Total   int
		More    bool
		Notice  string
	}) {
		r := p.tool("discover_tools", mustJSON(t, map[string]any{"intent": intent, "query": query}))
		if err := json.Unmarshal(r.StructuredContent, &got); err != nil || r.IsError {
			t.Fatalf("%+v, %v", r, err)
		}
		return got
	}
	if got := discover("Feed the animals of the zoo", ""); len(got.Entries) != 1 || got.Entries[0].ID != "mcp.zoo.feed" || got.Total != 1 || got.More || got.Notice != "" {
		t.Errorf("by intent: %+v", got)
	}
	if got := discover("Feed the animals of the zoo", "star"); len(got.Entries) != 2 || got.Entries[0].ID != "mcp.github.star" || got.Entries[1].ID != "mcp.zoo.feed" {
		t.Errorf("by both: %+v", got)
	}
	if got := discover("xyzzy", ""); len(got.Entries) != 0 || got.Total != 0 || got.More || !strings.Contains(got.Notice, "Nothing matches") || !strings.Contains(got.Notice, "builtin (8)") || !strings.Contains(got.Notice, "mcp.github (") {
		t.Errorf("nothing: %+v", got)
	}
}

func TestRestoredSessionIsReused(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{EngineID: testEngine})
	p := b.connect(t)
	one := openSession(p, "idle", "mcp.github")
	b.runIn(p, one.Ref, `"still"`)
	after := b.restart(t, ledger.Options{EngineID: testEngine})
	q := after.connect(t)
	got := openSession(q, "idle", "mcp.github")
	if got.Table != unchanged || *got.Meta.Continuity.Stale || *got.Meta.Continuity.NewSpace {
		t.Errorf("a restored state is reported as %q, %s", got.Table, got.raw.Meta["daybook/session"])
	}
	b.runIn(q, got.Ref, `"here"`)
	if state := b.state(t, b.id(t, "idle")); state != `"still""here"` {
		t.Errorf("the state is %s", state)
	}
}

func TestLongResultsAreLinked(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	ref := openSession(p, "long", "builtin.console").Ref
	long := strings.Repeat("ö", 20_000)
	read := func(uri string) string {
		var got struct {
			Contents []struct{ Text string }
		}
		if err := json.Unmarshal(p.call("resources/read", mustJSON(t, map[string]string{"uri": uri})), &got); err != nil || len(got.Contents) != 1 {
			t.Fatalf("read %s: %v", uri, err)
		}
		return got.Contents[0].Text
	}
	type shown struct {
		Result  string `json:"result"`
		Preview bool   `json:"result_preview"`
	}
	get := func(id string) (s shown, link string) {
		var r struct {
			Content           []struct{ Type, URI string }
			StructuredContent shown
		}
		raw := p.call("tools/call", mustJSON(t, map[string]any{"name": "get_execution", "arguments": map[string]string{"execution_id": id}}))
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Content {
			if c.Type == "resource_link" {
				link = c.URI
			}
		}
		return r.StructuredContent, link
	}
	id := b.runIn(p, ref, long)
	got, link := get(id)
	if !got.Preview || !strings.HasPrefix(long, got.Result) || len(got.Result) > 16<<10 || len(got.Result) < 16<<10-4 {
		t.Errorf("shown are %d bytes, preview %t", len(got.Result), got.Preview)
	}
	if link != "execution://"+id+"/result" {
		t.Fatalf("the link is %q", link)
	}
	if whole := read(link); whole != long {
		t.Errorf("the resource has %d bytes of %d", len(whole), len(long))
	}
	if got, link := get(b.runIn(p, ref, "short")); got.Preview || got.Result != "short" || link != "" {
		t.Errorf("a short result: %+v, %q", got, link)
	}
	if d, err := b.views.Execution(t.Context(), events.DefaultTenant, id); err != nil || d.Result == nil || *d.Result != long {
		t.Errorf("another result is recorded, %v", err)
	}
}

// TestCompleteResultIsRecorded checks that the complete result of a script is
// recorded, however it is shortened for a model.
func TestCompleteResultIsRecorded(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	ref := openSession(p, "shaped", "builtin.console").Ref
	long := strings.Repeat("x", 30_000)
	id := b.runIn(p, ref, long)
	p.tool("get_execution", mustJSON(t, map[string]string{"execution_id": id}))
	list, err := b.ledger.History(t.Context(), events.DefaultTenant, id)
	if err != nil {
		t.Fatal(err)
	}
	end := events.EndingOf(list[len(list)-1].Data)
	if end == nil || end.Content.Value().Result.Text != long {
		t.Error("the ledger does not have the complete result")
	}
}

// TestAnswersHaveNoCode checks that an answer has the result and no code.
func TestAnswersHaveNoCode(t *testing.T) {
	t.Parallel()
	b := openLogical(t, ledger.Options{})
	p := b.connect(t)
	ref := openSession(p, "echo", "builtin.console").Ref
	id := b.runIn(p, ref, "console.log(\"not to be echoed\")\n42")
	r := p.tool("get_execution", mustJSON(t, map[string]string{"execution_id": id}))
	if text := r.Content[0].Text; strings.Contains(text, "echoed") || strings.Contains(text, "output:") || !strings.Contains(text, `"result":"42"`) {
		t.Errorf("the answer is %s", text)
	}
}
