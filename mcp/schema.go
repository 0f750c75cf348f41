package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
)

// kind is the type of an argument.
type kind string

// The kinds of arguments.
const (
	text    kind = "string"
	integer kind = "integer"
	textMap kind = "object" // of strings
	boolean kind = "boolean"
	// anyMap is an object with values of any type. Its value must differ from that of
	// textMap. Schemas contain only "object".
	anyMap kind = "any object"
	// textList is an array of strings.
	textList kind = "array"
)

// article returns the kind with its article, for error messages.
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
	// defaultInt is the value of an absent integer, shown in the schema; 0 means none.
	defaultInt int64
	// min and max are shown in the schema unless 0. The function of the tool checks them,
	// because only it knows whether the argument applies.
	min, max int64
	// oneOf lists the accepted values of a string; empty accepts any.
	oneOf []string
}

// object is a JSON object with ordered members: models read the most important arguments
// first.
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

// inputSchema returns the schema of arguments. Other arguments are refused, and the
// schema states it.
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

// objectSchema returns the schema of an answer. The declared members are present unless they
// are optional; further members may be added later.
func objectSchema(fields ...field) object {
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
