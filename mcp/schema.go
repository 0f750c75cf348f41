package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
)

// kind is the type of an argument.
type kind string

// The kinds.
const (
	text    kind = "string"
	integer kind = "integer"
	textMap kind = "object" // of strings
	boolean kind = "boolean"
	// anyMap is an object of anything. Its name tells it from the one of strings.
	anyMap kind = "any object"
	// textList is an array of strings.
	textList kind = "array"
)

// article reads well in a sentence about what was expected.
func (k kind) article() string {
	switch k {
	case integer:
		return "an integer"
	case textMap:
		return "an object whose values are strings"
	case boolean:
		return "true or false"
	case anyMap:
		return "an object"
	case textList:
		return "a list of strings"
	default:
		return "a string"
	}
}

// property is one argument of a tool.
type property struct {
	name        string
	kind        kind
	description string
	required    bool
	// defaultInt is what an absent integer means, shown in the schema; 0 is none.
	defaultInt int64
	// min and max are shown in the schema when not 0. Who acts on the
	// argument checks them: only there is known when an argument counts.
	min, max int64
	// oneOf lists the values a string may have; empty is any.
	oneOf []string
}

// object is a JSON object whose members keep their order, so that models read
// the arguments in the order of their importance.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, v := range []any{m.key, m.value} {
			if j > 0 {
				b.WriteByte(':')
			}
			part, err := encode(v)
			if err != nil {
				return nil, err
			}
			b.Write(part)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

var _ json.Marshaler = object(nil)

// inputSchema describes arguments. Others are refused, and the schema says so.
func inputSchema(ps []property) object {
	props := object{}
	required := []string{}
	for _, p := range ps {
		props = append(props, member{p.name, p.schema()})
		if p.required {
			required = append(required, p.name)
		}
	}
	s := object{{"type", "object"}, {"properties", props}}
	if len(required) > 0 {
		s = append(s, member{"required", required})
	}
	return append(s, member{"additionalProperties", false})
}

func (p property) schema() object {
	s := object{{"type", strings.TrimPrefix(string(p.kind), "any ")}}
	if p.description != "" {
		s = append(s, member{"description", p.description})
	}
	if p.kind == textMap {
		s = append(s, member{"additionalProperties", object{{"type", "string"}}})
	}
	if p.kind == textList {
		s = append(s, member{"items", object{{"type", "string"}}})
	}
	if len(p.oneOf) > 0 {
		s = append(s, member{"enum", p.oneOf})
	}
	if p.defaultInt != 0 {
		s = append(s, member{"default", p.defaultInt})
	}
	if p.min != 0 {
		s = append(s, member{"minimum", p.min})
	}
	if p.max != 0 {
		s = append(s, member{"maximum", p.max})
	}
	return s
}

// The schemas of answers. Answers may gain members; the ones declared are
// there.
func record(fields ...field) object {
	props := object{}
	required := []string{}
	for _, f := range fields {
		props = append(props, member{f.name, f.schema})
		if !f.optional {
			required = append(required, f.name)
		}
	}
	s := object{{"type", "object"}, {"properties", props}}
	if len(required) > 0 {
		s = append(s, member{"required", required})
	}
	return s
}

type field struct {
	name     string
	schema   object
	optional bool
}

func typedField(name, typ string) field {
	return field{name: name, schema: object{{"type", typ}}}
}

func nullableField(name, typ string) field {
	return field{name: name, schema: object{{"type", []string{typ, "null"}}}}
}

func listField(name string, item object) field {
	return field{name: name, schema: object{{"type", "array"}, {"items", item}}}
}

func stringMapField(name string) field {
	return field{name: name, schema: object{{"type", "object"}, {"additionalProperties", object{{"type", "string"}}}}}
}

func optionalField(f field) field {
	f.optional = true
	return f
}
