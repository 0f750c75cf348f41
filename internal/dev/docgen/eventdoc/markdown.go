package eventdoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

const intro = `# Events

Every type of event in the ledger: what it states, when it is recorded, its subjects and its members. This page is generated from the Go types in ` + "`events/`" + `; do not edit it.

[reference/events](reference/events) has a JSON Schema (draft 2020-12) of the body of each type, and [reference/asyncapi.json](reference/asyncapi.json) is an AsyncAPI 3 document.
[Subscribing to events](guides/subscribing.md) shows how to receive events.

An event is a CloudEvents 1.0 event. On NATS its attributes are headers and its body is JSON. Over HTTP it is one JSON object: the attributes are members, ` + "`data`" + ` is the body and ` + "`sequence`" + ` is the position.
The meaning of a type never changes. Within a version only optional members are added, so ignore members and types that you do not know. Times are RFC 3339, UTC, with milliseconds.

`

// markdown returns the catalog as a human-readable page.
func (c *catalog) markdown() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(intro)
	c.overview(&b)
	headerTable(&b, "Attributes of every event", "| header on NATS | member over HTTP | meaning |", headers, func(h header) string {
		name, _ := strings.CutPrefix(h.name, "ce-")
		if name == "content-type" {
			name = "datacontenttype"
		}
		return fmt.Sprintf("| `%s` | `%s` | %s |", h.name, name, h.doc)
	})
	headerTable(&b, "Further headers of live events", "| header | meaning | example |", natsHeaders, func(h header) string {
		return fmt.Sprintf("| `%s` | %s | `%s` |", h.name, h.doc, h.example)
	})
	for _, e := range c.Events {
		if err := c.section(&b, e); err != nil {
			return nil, err
		}
	}
	b.WriteString("\n# Objects\n\nThe objects inside the bodies.\n")
	for _, o := range c.Objects {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", o.Name, strings.Join(o.Doc, "\n\n"))
		c.table(&b, o)
	}
	return b.Bytes(), nil
}

func (c *catalog) overview(b *bytes.Buffer) {
	b.WriteString("| type | live subject | meaning |\n|---|---|---|\n")
	for _, e := range c.Events {
		first, _, _ := strings.Cut(joinParagraphs(e.Meaning), ". ")
		var live []string
		for _, r := range e.Routes {
			live = append(live, "`"+r.Live+"`")
		}
		fmt.Fprintf(b, "| [`%s`](#%s) | %s | %s |\n", e.Type, anchor(string(e.Type)), strings.Join(live, ", "), cell(strings.TrimSuffix(first, ".")))
	}
}

func headerTable(b *bytes.Buffer, title, head string, list []header, row func(header) string) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n|---|---|---|\n", title, head)
	for _, h := range list {
		fmt.Fprintln(b, row(h))
	}
}

func (c *catalog) section(b *bytes.Buffer, e *eventDoc) error {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", e.Type, strings.Join(e.Meaning, "\n\n"))
	if e.Appended != "" {
		fmt.Fprintf(b, "\n%s\n", e.Appended)
	}
	b.WriteString("\n")
	for _, r := range e.Routes {
		recorded := "recorded"
		if r.For != "" {
			recorded = r.For + ", recorded"
		}
		fmt.Fprintf(b, "- %s under `%s`, live under `%s`\n", recorded, r.Subject, r.Live)
	}
	if e.About != "" {
		fmt.Fprintf(b, "- `ce-subject` is %s\n", e.About)
	}
	fmt.Fprintf(b, "- schema: [`%s.json`](reference/events/%s.json)\n", e.Type, e.Type)
	c.table(b, e.Body)
	var body bytes.Buffer
	if err := json.Indent(&body, e.Example.Body, "", "  "); err != nil {
		return fmt.Errorf("indent the example of %s: %w", e.Type, err)
	}
	fmt.Fprintf(b, "\nExample, on `%s`:\n\n```\n", e.Example.Subject)
	for _, name := range sortedKeys(e.Example.Headers) {
		fmt.Fprintf(b, "%s: %s\n", name, e.Example.Headers[name])
	}
	fmt.Fprintf(b, "```\n\n```json\n%s\n```\n", body.Bytes())
	return nil
}

func (c *catalog) table(b *bytes.Buffer, o *objectDoc) {
	b.WriteString("\n| member | type | meaning |\n|---|---|---|\n")
	for _, m := range o.Members {
		optional := ""
		if m.Optional {
			optional = ", optional"
		}
		fmt.Fprintf(b, "| `%s` | %s%s | %s |\n", m.Name, c.typeName(m.typ), optional, cell(m.Doc))
	}
}

// typeName returns the human-readable type of a member.
func (c *catalog) typeName(t reflect.Type) string {
	switch {
	case t == instant:
		return "time"
	case t == anyJSON:
		return "any JSON"
	case t.Kind() == reflect.Pointer:
		return c.typeName(t.Elem())
	case t.Kind() == reflect.Struct:
		o := c.object(t)
		return fmt.Sprintf("[%s](#%s)", o.Name, anchor(o.Name))
	case t == reflect.TypeFor[[]byte]():
		return "base64"
	case t.Kind() == reflect.Slice:
		return "list of " + c.typeName(t.Elem())
	case t.Kind() == reflect.Map:
		return "object of " + c.typeName(t.Elem())
	case t.Kind() == reflect.Bool:
		return "boolean"
	case signed(t), unsigned(t):
		return "integer"
	}
	if values := c.source.typeNamed(t.Name()).values; len(values) > 0 && t.Name() != "Type" {
		return "`" + strings.Join(values, "`, `") + "`"
	}
	return "string"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// anchor returns the anchor that GitHub generates for a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), ".", "")
}
