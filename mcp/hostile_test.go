package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/ledger"
	"daybook/mcp"
)

// hostileTexts are well-formed JSON texts that look like paths, code or values of other
// types.
var hostileTexts = map[string]string{
	"empty":                 `""`,
	"a space":               `" "`,
	"NUL":                   `"\u0000"`,
	"NUL inside":            `"a\u0000b"`,
	"line breaks":           `"a\r\nb"`,
	"terminal escape":       `"\u001b[31mred"`,
	"right-to-left":         `"\u202egnp.exe"`,
	"zero width":            `"a\u200bb"`,
	"replacement character": `"\ufffd"`,
	"emoji":                 `"\ud83d\ude00"`,
	"path":                  `"../../../../etc/passwd"`,
	"escaped path":          `"..%2f..%2fetc%2fpasswd%00"`,
	"subject wildcards":     `"*.>"`,
	"quotes":                `"' OR 1=1; --"`,
	"braces":                `"${process.env.HOME}{{7*7}}%s%n"`,
	"__proto__":             `"__proto__"`,
	"a number":              `"-1"`,
	"null":                  `"null"`,
	"heap with a capital":   `"` + strings.Repeat("A", 64) + `"`,
	"heap of look-alikes":   `"` + strings.Repeat("\u0430", 64) + `"`,
	"heap one too long":     `"` + strings.Repeat("a", 65) + `"`,
	"1 MiB":                 `"` + strings.Repeat("x", 1<<20) + `"`,
	"64 KiB of NUL":         `"` + strings.Repeat(`\u0000`, 1<<16) + `"`,
}

// Values of other types, by declared type.
var (
	wrongForAll = map[string]string{
		"list": `["a"]`, "true": `true`, "deep list": strings.Repeat("[", 500) + strings.Repeat("]", 500),
	}
	wrongTexts = map[string]string{
		"number": `5`, "object": `{}`, "huge number": strings.Repeat("9", 400), "deep object": strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500),
		"half a pair": `"\ud800"`, "the other half": `"a\udfffb"`, "halves the wrong way": `"\udc00\ud800"`,
	}
	wrongIntegers = map[string]string{
		"text": `"5"`, "empty": `""`, "fraction": `1.5`, "object": `{}`, "1e308": `1e308`, "1e400": `1e400`, "2^53+1": `9007199254740993`,
		"2^63": `9223372036854775808`, "2^64": `18446744073709551616`, "400 digits": strings.Repeat("9", 400), "minus 400 digits": "-" + strings.Repeat("9", 400),
		"tiny": `1e-400`,
	}
	wrongMaps = map[string]string{
		"text": `"a=b"`, "number": `5`, "number inside": `{"k":1}`, "null inside": `{"k":null}`, "object inside": `{"k":{"__proto__":"b"}}`,
		"half a pair": `{"k":"\udc00"}`, "twice": `{"k":"a","k":"b"}`, "deep": strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500),
	}
)

// The same for objects with values of any type, and for booleans.
var (
	wrongObjects = map[string]string{
		"text": `"a=b"`, "number": `5`, "half a pair": `{"k":"\udc00"}`, "half a pair within": `{"k":{"\ud800":[1]}}`, "twice": `{"k":"a","k":"b"}`,
	}
	wrongTruths = map[string]string{"text": `"true"`, "number": `1`}
)

// hostileMaps have the right type. Those marked true break a rule for tags.
var hostileMaps = map[string]struct {
	json string
	bad  bool
}{
	"empty key":        {`{"":"v"}`, true},
	"key of a space":   {`{" ":"v"}`, true},
	"comma":            {`{"a,b":"v"}`, true},
	"NUL in a key":     {`{"a\u0000b":"v"}`, true},
	"line break":       {`{"a\nb":"v"}`, true},
	"escape in a key":  {`{"\u001b[31m":"v"}`, true},
	"1 MiB key":        {`{"` + strings.Repeat("k", 1<<20) + `":"v"}`, true},
	"1 MiB value":      {`{"k":"` + strings.Repeat("v", 1<<20) + `"}`, true},
	"65 keys":          {`{` + strings.TrimSuffix(manyKeys(65), ",") + `}`, true},
	"__proto__":        {`{"__proto__":"v","constructor":"w"}`, false},
	"path":             {`{"../../etc/passwd":"../.."}`, false},
	"NUL in a value":   {`{"k":"\u0000"}`, false},
	"look-alikes":      {`{"env":"a","\u0435nv":"b"}`, false},
	"64 keys":          {`{` + strings.TrimSuffix(manyKeys(64), ",") + `}`, false},
	"nothing, cleared": {`{}`, false},
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":"v",`, i)
	}
	return b.String()
}

// wrongLists are not lists of strings.
var wrongLists = map[string]string{
	"a text": `"builtin"`, "a number": `5`, "an object": `{}`, "true": `true`, "of numbers": `[5]`, "of null": `[null]`, "of lists": `[["builtin"]]`,
	"half a pair": `["\ud800"]`, "empty": `[]`, "of an empty text": `[""]`, "of 257": "[" + strings.Repeat(`"builtin",`, 256) + `"builtin"]`,
	"of what is not there": `["__proto__"]`, "of 1 MiB": `["` + strings.Repeat("x", 1<<20) + `"]`,
}

// acceptsValue reports for each argument that is a text which hostile texts it accepts;
// none, if it has a list of values. It MUST have an entry for each declared argument:
// for a new argument, add what it does with such text.
var acceptsValue = map[string]func(tool, kind string) bool{
	"code":                func(_, kind string) bool { return !strings.Contains(kind, "NUL") },
	"heap":                none,
	"execution_id":        none,
	"logical_session_ref": none,
	"intent":              func(_, kind string) bool { return !slices.Contains([]string{"empty", "1 MiB", "64 KiB of NUL"}, kind) },
	"query":               func(string, string) bool { return true },
	"cursor":              func(_, kind string) bool { return kind == "empty" }, // the first page
	"status":              none,
	"fields":              none,
	"keys":                func(string, string) bool { return true }, // absent tags need not be deleted
	"idempotency_key":     onlyKinds("escaped path", "path", "subject wildcards", "__proto__", "a number", "null", "heap with a capital", "heap one too long", "braces"),
	"session": onlyKinds("path", "escaped path", "subject wildcards", "quotes", "braces", "__proto__", "a number", "null", "emoji", "replacement character",
		"heap with a capital", "heap of look-alikes", "heap one too long"),
}

func none(string, string) bool { return false }

func onlyKinds(kinds ...string) func(string, string) bool {
	return func(_, kind string) bool { return slices.Contains(kinds, kind) }
}

// attack is one set of arguments.
type attack struct {
	what    string
	args    string // JSON
	mention string // what a refusal must name
	// refuse: it must be refused. accept: it must be accepted. Neither: either is correct,
	// with a proper answer.
	refuse, accept bool
}

// attacks returns the attacks on a tool, from its schema.
func attacks(t testing.TB, tool listed) (list []attack) {
	t.Helper()
	var in schema
	if err := json.Unmarshal(tool.InputSchema, &in); err != nil {
		t.Fatal(err)
	}
	valid := in.minimal()
	add := func(a attack) { list = append(list, a) }
	set := func(name, value string) string { return withArgument(t, maps.Clone(valid), name, value) }

	for what, raw := range map[string]string{
		"a list": `[1,2]`, "a text": `"code"`, "a number": `1e308`, "true": `true`, "deep lists": strings.Repeat("[", 500) + strings.Repeat("]", 500),
	} {
		add(attack{what: "arguments that are " + what, args: raw, mention: "arguments", refuse: true})
	}
	for what, name := range map[string]string{
		"extra": "no_such_argument", "__proto__": "__proto__", "constructor": "constructor", "empty": "", "NUL": `\u0000`, "line break": `a\nb`,
		"64 KiB": strings.Repeat("x", 1<<16), "64 KiB of NUL": strings.Repeat(`\u0000`, 1<<14), "half a pair": `\ud800`, "look-alike": "c\u043ede",
	} {
		mention := tool.Name
		if len(in.Properties) > 0 {
			mention = slices.Sorted(maps.Keys(in.Properties))[0] // the message lists the known ones
		}
		body := strings.TrimSuffix(encode(t, valid), "}")
		if len(valid) > 0 {
			body += ","
		}
		add(attack{what: "another argument, " + what, args: body + `"` + name + `":{"polluted":true}}`, mention: mention, refuse: true})
	}
	for name, p := range in.Properties {
		if slices.Contains(in.Required, name) {
			without := maps.Clone(valid)
			delete(without, name)
			add(attack{what: "without " + name, args: encode(t, without), mention: name, refuse: true})
			add(attack{what: "null " + name, args: set(name, `null`), mention: name, refuse: true})
		} else {
			add(attack{what: "null " + name, args: set(name, `null`), mention: name})
		}
		add(attack{what: name + " in capitals", args: set(strings.ToUpper(name), `1`), mention: name, refuse: true})
		twice := strings.TrimSuffix(set(name, encode(t, p.sample())), "}") + `,"` + name + `":` + encode(t, p.sample()) + "}"
		add(attack{what: name + " twice", args: twice, mention: name, refuse: true})
		wrong := map[string]map[string]string{
			"string": wrongTexts, "integer": wrongIntegers, "object": wrongMaps, "array": wrongLists, "any object": wrongObjects, "boolean": wrongTruths,
		}[p.kind()]
		if wrong == nil {
			t.Fatalf("%s: nothing is known about arguments of the type %q", name, p.Type)
		}
		for _, m := range []map[string]string{wrong, wrongForAll} {
			for what, v := range m {
				if v == "true" && p.Type == "boolean" {
					continue
				}
				add(attack{what: name + " is wrong: " + what, args: set(name, v), mention: name, refuse: true})
			}
		}
		switch p.kind() {
		case "any object":
			for what, m := range hostileMaps {
				add(attack{what: name + ": " + what, args: set(name, m.json), mention: name})
			}
		case "string":
			takesIt := acceptsValue[name]
			if takesIt == nil {
				t.Fatalf("the table has no entry for the argument %s", name)
			}
			for kind, v := range hostileTexts {
				ok := takesIt(tool.Name, kind)
				add(attack{what: name + ": " + kind, args: set(name, v), mention: name, refuse: !ok, accept: ok})
			}
		case "integer":
			for _, n := range []int64{-1 << 53, -1, 0, 1 << 31, 1 << 53} {
				bad := p.Minimum != nil && n < *p.Minimum || p.Maximum != nil && n > *p.Maximum
				add(attack{what: fmt.Sprintf("%s: %d", name, n), args: set(name, fmt.Sprint(n)), mention: name, refuse: bad})
			}
		case "object":
			for what, m := range hostileMaps {
				// A read may name an object that does not exist.
				question := tool.Annotations.ReadOnly && what != "65 keys"
				question = question || name == "registry_aliases" // unused aliases need not be valid
				bad := m.bad
				if name == "files" { // each key is no path of a module
					bad = what != "nothing, cleared"
				}
				add(attack{what: name + ": " + what, args: set(name, m.json), mention: name, refuse: bad && !question, accept: !bad || question})
			}
		}
	}
	slices.SortFunc(list, func(a, b attack) int { return strings.Compare(a.what, b.what) })
	return list
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkMessage checks that a message is one short sentence without internal details.
func checkMessage(t testing.TB, what, message string) {
	t.Helper()
	switch {
	case len(message) < 10 || len(message) > 400:
		t.Errorf("%s: %d characters are no sentence: %.500q", what, len(message), message)
	case strings.ContainsFunc(message, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }):
		t.Errorf("%s: control characters in %q", what, message)
	case goDetail.MatchString(quoted.ReplaceAllString(message, "")):
		t.Errorf("%s: shows internal details: %q", what, message)
	}
}

// rpcErrorOf returns the message of a JSON-RPC error.
func rpcErrorOf(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var e struct{ Message string }
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatalf("an error that is none: %s", raw)
	}
	return e.Message
}

// TestHostileArguments sends every tool of both modes all attacks, as calls and as
// tasks, and checks that refused calls record no event.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	for mode, stateless := range map[string]bool{"stateful": false, "stateless": true} {
		for _, how := range []string{"called", "as a task"} {
			t.Run(mode+"/"+how, func(t *testing.T) {
				t.Parallel()
				opts := mcp.Options{Stateless: stateless}
				_, tools := listTools(t, opts)
				schemas := outputSchemas(t, tools)
				book := openIdleStack(t, ledger.Options{Stateless: stateless})
				opts.Contexts = withoutNotes(t, book)
				p := openPipe(t, book.serve(t, opts), "")
				p.initialize()
				count := 0
				for _, tool := range tools {
					for _, a := range attacks(t, tool) {
						if how == "as a task" && tool.Name != "run_js" || stateless && how == "called" && !a.refuse {
							continue // the first is not a task, the second waits for the end of a run
						}
						count++
						tryAttack(t, book, p, tool, schemas[tool.Name], a, how == "as a task")
					}
				}
				t.Logf("%d calls", count)
				if err := p.close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// withoutNotes returns contexts that record edits only. Notes are recorded after a delay
// and would look like an effect of another call.
func withoutNotes(t testing.TB, book *testStack) *contextstore.Store {
	t.Helper()
	contexts, err := contextstore.New(contextstore.Options{Log: editsOnly{book.store}, Views: book.views, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return contexts
}

type editsOnly struct{ contextstore.Log }

func (l editsOnly) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	if e.Type == events.TypeContextNoted {
		return 0, nil
	}
	return l.Log.Append(ctx, e, after)
}

func tryAttack(t testing.TB, book *testStack, p *pipe, tool listed, answers *jsonschema.Schema, a attack, asTask bool) {
	t.Helper()
	what := fmt.Sprintf("%s, %s (%.60s)", tool.Name, a.what, a.args)
	before := lastSeq(t, book)
	task := ""
	if asTask {
		task = `,"task":{}`
	}
	p.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"` + tool.Name + `","arguments":` + a.args + task + `}}`)
	m := p.receive()
	var r toolResult
	message, refused := "", false
	switch {
	case m["error"] != nil:
		message, refused = rpcErrorOf(t, m["error"]), true
		if !asTask {
			t.Errorf("%s: a protocol error: %s", what, message)
		}
	case json.Unmarshal(m["result"], &r) != nil:
		t.Errorf("%s: answered %s", what, m["result"])
		return
	case r.IsError:
		refused = true
		if len(r.Content) == 1 {
			message = r.Content[0].Text
		}
	case !asTask:
		checkAnswer(t, tool.Name, answers, r)
		// cancel_execution refuses within its answer, as documented.
		var said struct{ Error string }
		if err := json.Unmarshal(r.StructuredContent, &said); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		message, refused = said.Error, said.Error != ""
	}
	if !refused {
		if a.refuse {
			t.Errorf("%s: accepted: %.200s", what, m["result"])
		}
		if after := lastSeq(t, book); tool.Annotations.ReadOnly && after != before {
			t.Errorf("%s: a read moved the ledger from %d to %d", what, before, after)
		}
		return
	}
	if a.accept {
		t.Errorf("%s: refused: %s", what, message)
	}
	checkMessage(t, what, message)
	// The message for an unknown id names the kind of object.
	if !strings.Contains(message, a.mention) && !strings.HasPrefix(message, "Execution '") {
		t.Errorf("%s: does not mention %s: %s", what, a.mention, message)
	}
	if after := lastSeq(t, book); after != before {
		t.Errorf("%s: refused, and the ledger went from %d to %d", what, before, after)
	}
}

func lastSeq(t testing.TB, book *testStack) uint64 {
	t.Helper()
	seq, err := book.store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seq
}
