package eventdoc

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"daybook/events"
)

const root = "../../../.."

func load(t *testing.T) *catalog {
	t.Helper()
	c, err := readCatalog(filepath.Join(root, "events"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The generated files under docs are current.
func TestFilesAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := Files(filepath.Join(root, "events"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is stale (%v): run make generate", name, err)
		}
	}
	list, err := filepath.Glob(filepath.Join(root, "docs", "reference", "events", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		if _, ok := files["reference/events/"+filepath.Base(path)]; !ok {
			t.Errorf("no source generates %s", path)
		}
	}
}

// The source describes when each type is recorded, and every member.
func TestEverythingIsDocumented(t *testing.T) {
	t.Parallel()
	c := load(t)
	if len(c.Events) != len(events.Types()) {
		t.Errorf("%d types are described, of %d", len(c.Events), len(events.Types()))
	}
	objects := slices.Clone(c.Objects)
	for _, e := range c.Events {
		objects = append(objects, e.Body)
		if len(e.Meaning) == 0 || e.About == "" {
			t.Errorf("%s: meaning %q, about %q", e.Type, e.Meaning, e.About)
		}
		if e.Appended == "" {
			t.Errorf("%s: its type needs a paragraph that starts with \"Appended\" and describes when", e.Type)
		}
		for _, r := range e.Routes {
			if slices.ContainsFunc(r.Params, func(p param) bool { return strings.HasPrefix(p.Name, "part") }) {
				t.Errorf("%s: name the tokens of %s", e.Type, r.Subject)
			}
		}
	}
	for _, o := range objects {
		if len(o.Doc) == 0 {
			t.Errorf("%s has no doc comment", o.Name)
		}
		for _, m := range o.Members {
			if m.Doc == "" {
				t.Errorf("%s.%s has no doc comment, nor does one before it name it", o.Name, m.Name)
			}
			if strings.Contains(m.Doc, "nil") {
				t.Errorf("the comment of %s.%s has nil, a word of Go, for readers of JSON: %s", o.Name, m.Name, m.Doc)
			}
		}
	}
}

// A member that may be any JSON is not described as bytes.
func TestAnyJSON(t *testing.T) {
	t.Parallel()
	raw, err := load(t).markdown()
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"custom", "args"} {
		if row := "| `" + member + "` | object of any JSON |"; !bytes.Contains(raw, []byte(row)) {
			t.Errorf("the page does not contain %q", row)
		}
	}
}

func compile(t *testing.T, name string, raw []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t *testing.T, raw []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The schemas accept recorded events, also with members that later versions may add,
// and refuse other JSON.
func TestSchemas(t *testing.T) {
	t.Parallel()
	c := load(t)
	schemas, err := c.schemas()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range c.Events {
		raw := schemas[string(e.Type)+".json"]
		if !bytes.Contains(raw, []byte(`"https://json-schema.org/draft/2020-12/schema"`)) {
			t.Errorf("%s names no draft", e.Type)
		}
		s := compile(t, string(e.Type), raw)
		if err := s.Validate(parse(t, e.Example.Body)); err != nil {
			t.Errorf("%s: the example is refused: %v", e.Type, err)
		}
		change := func(name string, how func(map[string]any), ok bool) {
			t.Helper()
			body := parse(t, e.Example.Body).(map[string]any)
			how(body)
			if err := s.Validate(body); (err == nil) != ok {
				t.Errorf("%s, %s: %v", e.Type, name, err)
			}
		}
		change("a member of a later version", func(b map[string]any) { b["added_later"] = 1 }, true)
		change("no members", func(b map[string]any) { clear(b) }, false)
		for _, m := range e.Body.Members {
			change("without "+m.Name, func(b map[string]any) { delete(b, m.Name) }, m.Optional)
			change(m.Name+" of a wrong type", func(b map[string]any) { b[m.Name] = []any{[]any{}} }, false)
		}
	}
}

// The schemas check the members of inner objects.
func TestSchemasInside(t *testing.T) {
	t.Parallel()
	c := load(t)
	schemas, err := c.schemas()
	if err != nil {
		t.Fatal(err)
	}
	for typ, bad := range map[events.Type]map[string]string{
		events.TypeExecutionOutput: {
			"level":  `{"execution_id":"x","attempt":1,"first_line":1,"first_byte":0,"content":{"plain":{"lines":[{"text":"a","time_ms":1,"level":"shout"}]}}}`,
			"text":   `{"execution_id":"x","attempt":1,"first_line":1,"first_byte":0,"content":{"plain":{"lines":[{"time_ms":1}]}}}`,
			"number": `{"execution_id":"x","attempt":1.5,"first_line":1,"first_byte":0,"content":{}}`,
		},
		events.TypeSessionEntryRecorded: {
			"status": `{"session_id":"x","session":"s","index":0,"execution_id":"x","status":"done","completed_at":"2026-11-21T09:30:00.125Z","terminal_seq":1}`,
			"time":   `{"session_id":"x","session":"s","index":0,"execution_id":"x","status":"failed","completed_at":"yesterday","terminal_seq":1}`,
			"below":  `{"session_id":"x","session":"s","index":0,"execution_id":"x","status":"failed","completed_at":"2026-11-21T09:30:00.125Z","terminal_seq":-1}`,
		},
	} {
		s := compile(t, string(typ), schemas[string(typ)+".json"])
		for name, body := range bad {
			if s.Validate(parse(t, []byte(body))) == nil {
				t.Errorf("%s: %s was accepted", typ, name)
			}
		}
	}
}

// The AsyncAPI document covers every type, its references exist, and its addresses
// match the subjects of the examples.
func TestAsyncAPI(t *testing.T) {
	t.Parallel()
	c := load(t)
	raw, err := c.asyncAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		AsyncAPI string `json:"asyncapi"`
		Channels map[string]struct {
			Address    string                     `json:"address"`
			Messages   map[string]json.RawMessage `json:"messages"`
			Parameters map[string]json.RawMessage `json:"parameters"`
		} `json:"channels"`
		Operations map[string]struct {
			Action string `json:"action"`
		} `json:"operations"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.AsyncAPI != "3.0.0" || len(doc.Operations) != len(doc.Channels) {
		t.Errorf("version %s, %d operations for %d channels", doc.AsyncAPI, len(doc.Operations), len(doc.Channels))
	}
	addressesOf := map[string][]string{}
	for name, ch := range doc.Channels {
		for typ := range ch.Messages {
			addressesOf[typ] = append(addressesOf[typ], ch.Address)
		}
		var named []string
		for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(ch.Address, -1) {
			named = append(named, m[1])
		}
		slices.Sort(named)
		if got := slices.Sorted(maps.Keys(ch.Parameters)); !slices.Equal(got, named) {
			t.Errorf("channel %s: parameters %q, address %s", name, got, ch.Address)
		}
	}
	for _, e := range c.Events {
		live := "events." + strings.SplitN(e.Example.Subject, ".", 3)[2]
		if !slices.ContainsFunc(addressesOf[string(e.Type)], func(address string) bool {
			return regexp.MustCompile(`^` + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(address), `[^.]+`) + `$`).MatchString(live)
		}) {
			t.Errorf("%s appears on %s, the document has %q", e.Type, live, addressesOf[string(e.Type)])
		}
	}
	reset := addressesOf[string(events.TypeSessionReset)]
	if slices.Sort(reset); !slices.Equal(reset, []string{"events.{tenant}.logical.{session}", "events.{tenant}.session.{session}"}) {
		t.Errorf("resets of sessions are on %q", reset)
	}
	whole := parse(t, raw)
	for _, m := range regexp.MustCompile(`"\$ref": "#/([^"]+)"`).FindAllSubmatch(raw, -1) {
		at := whole
		for _, part := range strings.Split(string(m[1]), "/") {
			next, ok := at.(map[string]any)[part]
			if !ok {
				t.Fatalf("the document has no #/%s", m[1])
			}
			at = next
		}
	}
}
