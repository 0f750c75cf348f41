package eventdoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"daybook/events"
)

// catalog describes every event type.
type catalog struct {
	// Events are in the order of introduction.
	Events []*eventDoc
	// Objects are the objects inside payloads, in the order of their first use.
	Objects []*objectDoc

	source  *source
	objects map[reflect.Type]*objectDoc
}

// eventDoc describes one event type.
type eventDoc struct {
	Type events.Type
	// Meaning describes the event, a paragraph each. Appended describes when it is
	// recorded; "" if the source does not.
	Meaning  []string
	Appended string
	// Routes are the subjects of events of the type, that of the example first.
	Routes []route
	// About describes the CloudEvents attribute "subject": the name of a member, or
	// the stream of the member that is a volume.
	About string
	// Body describes the payload.
	Body *objectDoc
	// Example is a recorded event of the type.
	Example example
}

// route is a pattern of subjects.
type route struct {
	// Subject is the subject of the recorded event, with parameters in angle brackets.
	// Live is the subject on which subscribers receive it.
	Subject, Live string
	// Params are the parameters of Live with their values in the example.
	Params []param
	// For names the events with these subjects, as in "for a named session"; "" for all.
	For string
}

// param is a variable token of a subject.
type param struct{ Name, Example string }

// example is a recorded event.
type example struct {
	Subject string            `json:"subject"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// objectDoc describes a JSON object.
type objectDoc struct {
	Name    string
	Doc     []string
	Members []member
}

// member describes one member of an object.
type member struct {
	Name string
	Doc  string
	// Optional members may be absent.
	Optional bool

	typ reflect.Type
}

// Files returns every document about the catalog whose source is in dir, by its path
// below docs.
func Files(dir string) (map[string][]byte, error) {
	c, err := readCatalog(dir)
	if err != nil {
		return nil, err
	}
	schemas, err := c.schemas()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, raw := range schemas {
		files["reference/events/"+name] = raw
	}
	if files["reference/asyncapi.json"], err = c.asyncAPI(); err != nil {
		return nil, fmt.Errorf("encode the AsyncAPI document: %w", err)
	}
	if files["events.md"], err = c.markdown(); err != nil {
		return nil, err
	}
	return files, nil
}

// readCatalog reads the catalog whose source and fixtures are in dir.
func readCatalog(dir string) (*catalog, error) {
	src, err := readSource(dir)
	if err != nil {
		return nil, err
	}
	c := &catalog{source: src, objects: map[reflect.Type]*objectDoc{}}
	for _, typ := range events.Types() {
		e, err := c.event(dir, typ)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", typ, err)
		}
		c.Events = append(c.Events, e)
	}
	return c, nil
}

func (c *catalog) event(dir string, typ events.Type) (*eventDoc, error) {
	raw, err := readFile(filepath.Join(dir, "testdata", string(typ)+".json"))
	if err != nil {
		return nil, err
	}
	e := &eventDoc{Type: typ}
	if err := json.Unmarshal(raw, &e.Example); err != nil {
		return nil, fmt.Errorf("read the example: %w", err)
	}
	m := events.Message{Subject: e.Example.Subject, Header: map[string][]string{}, Body: e.Example.Body}
	for name, value := range e.Example.Headers {
		m.Header[name] = []string{value}
	}
	decoded, err := events.Decode(0, m)
	if err != nil {
		return nil, err
	}
	payload := reflect.TypeOf(decoded.Data).Elem()
	e.Body = c.build(payload)
	for i, p := range e.Body.Doc {
		if rest, ok := strings.CutPrefix(p, e.Body.Name+" "); i == 0 && ok {
			p = strings.ToUpper(rest[:1]) + rest[1:]
		}
		if strings.HasPrefix(p, "Appended ") {
			e.Appended = p
		} else {
			e.Meaning = append(e.Meaning, p)
		}
	}
	if e.Example.Headers["ce-recordversion"] == "" { // a fixture from before version 2
		e.Example.Headers["ce-recordversion"] = strconv.Itoa(events.RecordVersion)
	}
	about := e.Example.Headers["ce-subject"]
	if _, ok := events.VolumeOf(about); ok {
		e.About = "the stream of `volume`"
	} else if name := memberWith(e.Example.Body, about); name != "" {
		e.About = "`" + name + "`"
	} else if about == "lock" {
		e.About = "the constant `lock`"
	}
	e.Routes = []route{routeOf(decoded)}
	if reset, ok := decoded.Data.(*events.SessionReset); ok {
		other := *reset
		if other.Kind = events.SessionLogical; reset.Kind != events.SessionLog {
			return nil, fmt.Errorf("the example resets a %s session; use a named one", reset.Kind)
		}
		e.Routes = append(e.Routes, routeOf(events.New(decoded.Tenant, decoded.Time, &other)))
		e.Routes[0].For, e.Routes[1].For = "for a named session", "for a logical or ACP session"
	}
	return e, nil
}

// memberWith returns the name of the first member of a JSON object with a text as value.
func memberWith(body []byte, text string) string {
	var members map[string]any
	_ = json.Unmarshal(body, &members) // it was decoded before
	first, at := "", len(body)
	for name, value := range members {
		if i := bytes.Index(body, []byte(strconv.Quote(name)+":")); value == text && i >= 0 && i < at {
			first, at = name, i
		}
	}
	return first
}

// tokens names the variable tokens of subjects, by the token for their kind.
var tokens = map[string][]string{
	"run": {"pool", "execution"}, "exec": {"execution"}, "out": {"bucket"}, "replay": {"bucket"}, "migration": {"heap"}, "session": {"session"}, "heap": {"heap"}, "webhook": {"webhook"},
	"logical": {"session"}, "intent": {"intent"}, "ref": {"holder"}, "acp": {"session"}, "context": {"context"}, "note": {"bucket"}, "shred": {"session"}, "module": {"lock"},
}

// routeOf derives the pattern of the subjects from that of an event.
func routeOf(e events.Event) route {
	var r route
	parts := strings.Split(e.Subject(), ".") // tenant, kind, ...
	tenant := "<tenant>"
	if parts[0] == events.LedgerTenant {
		tenant = parts[0]
	} else {
		r.Params = append(r.Params, param{"tenant", parts[0]})
	}
	pattern := []string{tenant, parts[1]}
	for i, part := range parts[2:] {
		name := fmt.Sprintf("part%d", i+1)
		if known := tokens[parts[1]]; i < len(known) {
			name = known[i]
		}
		r.Params = append(r.Params, param{name, part})
		pattern = append(pattern, "<"+name+">")
	}
	r.Live = "events." + strings.Join(pattern, ".")
	r.Subject = "ledger.<volume>." + strings.Join(pattern, ".")
	return r
}

// object describes a struct inside payloads.
func (c *catalog) object(t reflect.Type) *objectDoc {
	if o := c.objects[t]; o != nil {
		return o
	}
	o := c.build(t)
	c.Objects = append(c.Objects, o)
	return o
}

func (c *catalog) build(t reflect.Type) *objectDoc {
	o := &objectDoc{Name: objectName(t)}
	c.objects[t] = o
	src := c.source.typeNamed(sourceName(t))
	wire := wireNames(t)
	inDoc := maps.Clone(wire)
	delete(inDoc, o.Name) // in this comment the name means the type
	o.Doc = paragraphs(src.doc, inDoc)
	c.members(o, t, wire)
	return o
}

func (c *catalog) members(o *objectDoc, t reflect.Type, wire map[string]string) {
	src := c.source.typeNamed(sourceName(t))
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			c.members(o, f.Type, wireNames(f.Type))
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		m := member{Name: name, Doc: strings.Join(paragraphs(src.fields[f.Name], wire), " "), typ: f.Type}
		m.Optional = slices.Contains(strings.Split(opts, ","), "omitempty")
		m.Doc = describeNil(m)
		o.Members = append(o.Members, m)
		c.visit(f.Type)
	}
}

// visit describes the objects inside a type.
func (c *catalog) visit(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		c.visit(t.Elem())
	case reflect.Struct:
		if t != instant {
			c.object(t)
		}
	}
}

var instant = reflect.TypeFor[events.Instant]()

// describeNil returns the description of a member with the words of JSON for nil.
func describeNil(m member) string {
	other := "null"
	if m.Optional {
		other = "absent"
	}
	return strings.NewReplacer("; nil ", "; "+other+" ", " nil ", " "+other+" ", "Nil ", strings.ToUpper(other[:1])+other[1:]+" ").Replace(m.Doc)
}

func wireNames(t reflect.Type) map[string]string {
	names := map[string]string{}
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names[f.Name] = name
		}
	}
	return names
}

// sourceName returns the name of a type in the source, without type arguments.
func sourceName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	return name
}

// objectName returns the name of a type in the documents. A generic type is named for
// its type argument.
func objectName(t reflect.Type) string {
	generic, arg, ok := strings.Cut(t.Name(), "[")
	if !ok {
		return generic
	}
	arg = strings.TrimSuffix(arg, "]")
	return arg[strings.LastIndex(arg, ".")+1:] + "OrEncrypted"
}
