package eventdoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// node is a JSON object. Its members are written in sorted order.
type node = map[string]any

// schemas returns a JSON Schema (draft 2020-12) of the payload of each type, by
// file name.
func (c *catalog) schemas() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, e := range c.Events {
		defs := node{}
		s := c.schema(e.Body, "#/$defs/", defs)
		s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
		s["$id"] = "urn:daybook:event:" + string(e.Type)
		s["title"] = string(e.Type)
		s["examples"] = []any{e.Example.Body}
		if len(defs) > 0 {
			s["$defs"] = defs
		}
		raw, err := encode(s)
		if err != nil {
			return nil, fmt.Errorf("encode the schema of %s: %w", e.Type, err)
		}
		files[string(e.Type)+".json"] = raw
	}
	return files, nil
}

// anyJSON is the type of a member that may hold any JSON.
var anyJSON = reflect.TypeFor[json.RawMessage]()

// schema returns the schema of an object. It adds the schemas of the objects inside to
// defs; prefix is the path of defs in references.
func (c *catalog) schema(o *objectDoc, prefix string, defs node) node {
	s := node{"type": "object"}
	if len(o.Doc) > 0 {
		s["description"] = joinParagraphs(o.Doc)
	}
	properties, required := node{}, []string{}
	for _, m := range o.Members {
		p := c.value(m.typ, !m.Optional, prefix, defs)
		if m.Doc != "" {
			p["description"] = m.Doc
		}
		properties[m.Name] = p
		if !m.Optional {
			required = append(required, m.Name)
		}
	}
	s["properties"] = properties
	if len(required) > 0 {
		s["required"] = required
	}
	// Later versions may add members to a type, so a consumer must accept unknown ones.
	s["additionalProperties"] = true
	return s
}

// value returns the schema of a value. Lists and maps that are always present may be
// null.
func (c *catalog) value(t reflect.Type, nullable bool, prefix string, defs node) node {
	kind := func(name string) any {
		if nullable {
			return []string{name, "null"}
		}
		return name
	}
	switch {
	case t == instant:
		return node{"type": "string", "format": "date-time"}
	case t == anyJSON:
		return node{}
	case t.Kind() == reflect.Pointer:
		return c.value(t.Elem(), nullable, prefix, defs)
	case t.Kind() == reflect.Struct:
		o := c.object(t)
		if _, known := defs[o.Name]; !known {
			defs[o.Name] = node{} // ends the recursion of an object that refers to itself
			defs[o.Name] = c.schema(o, prefix, defs)
		}
		return node{"$ref": prefix + o.Name}
	case t == reflect.TypeFor[[]byte]():
		return node{"type": kind("string"), "contentEncoding": "base64"}
	case t.Kind() == reflect.Slice:
		return node{"type": kind("array"), "items": c.value(t.Elem(), false, prefix, defs)}
	case t.Kind() == reflect.Map:
		return node{"type": kind("object"), "additionalProperties": c.value(t.Elem(), false, prefix, defs)}
	case t.Kind() == reflect.Bool:
		return node{"type": "boolean"}
	case unsigned(t):
		return node{"type": "integer", "minimum": 0}
	case signed(t):
		return node{"type": "integer"}
	case t.Kind() == reflect.String:
		s := node{"type": "string"}
		if values := c.source.typeNamed(t.Name()).values; len(values) > 0 && t.Name() != "Type" {
			s["enum"] = values
		}
		return s
	default:
		panic(fmt.Sprintf("eventdoc: no JSON form of %s", t))
	}
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

func signed(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64 }

func unsigned(t reflect.Type) bool { return t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 }
