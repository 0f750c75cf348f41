package toolserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Declaration returns the TypeScript declaration of a tool as a member of its server's
// object, with the description as its comment. A part of the schema that is missing, or
// has no short type, becomes unknown.
func (t Tool) Declaration() string {
	var b strings.Builder
	if text := comment(t.Description); text != "" {
		fmt.Fprintf(&b, "/** %s */\n", text)
	}
	w := typeWriter{left: maxTypeText}
	input, args := w.of(t.InputSchema), "args"
	if input == "unknown" {
		input = "Record<string, unknown>"
	}
	if !w.requires(t.InputSchema) {
		args = "args?"
	}
	output := "unknown"
	if t.OutputSchema != nil {
		output = w.of(t.OutputSchema)
	}
	fmt.Fprintf(&b, "%s(%s: %s): Promise<%s>;", memberName(t.Name), args, input, output)
	return b.String()
}

// Declarations returns the TypeScript type of the global mcp with the given tools, which
// MUST be ordered by server.
func Declarations(tools []Tool) string {
	var b strings.Builder
	b.WriteString("declare const mcp: {\n")
	for i, t := range tools {
		if i == 0 || tools[i-1].Server != t.Server {
			if i > 0 {
				b.WriteString("  };\n")
			}
			fmt.Fprintf(&b, "  readonly %s: {\n", memberName(t.Server))
		}
		for line := range strings.Lines(t.Declaration()) {
			b.WriteString("    " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	if len(tools) > 0 {
		b.WriteString("  };\n")
	}
	b.WriteString("};\n")
	return b.String()
}

var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// PropertyName returns the name of a property in TypeScript, quoted if it is not an
// identifier.
func PropertyName(name string) string { return memberName(name) }

func memberName(s string) string {
	if identifier.MatchString(s) {
		return s
	}
	return quote(s)
}

// quote returns a string literal. A JSON string is also a JavaScript one.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

// comment returns a description on one line that is safe in a comment.
func comment(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "*/", "* /")
}

// Limits of a type; a part that is deeper or longer becomes unknown.
const (
	maxTypeDepth = 6
	maxTypeText  = 8 << 10
)

// typeWriter writes JSON Schemas as TypeScript types within a limit of text.
type typeWriter struct {
	left int
	root map[string]any
}

func (w *typeWriter) of(raw json.RawMessage) string {
	var s any
	if json.Unmarshal(raw, &s) != nil {
		return "unknown"
	}
	w.root, _ = s.(map[string]any)
	return w.write(s, 0)
}

func (w *typeWriter) requires(raw json.RawMessage) bool {
	var s struct {
		Required []string `json:"required"`
	}
	return json.Unmarshal(raw, &s) == nil && len(s.Required) > 0
}

func (w *typeWriter) write(v any, depth int) string {
	s, ok := v.(map[string]any)
	if !ok || depth > maxTypeDepth || w.left <= 0 {
		return "unknown"
	}
	text := w.schema(s, depth)
	w.left -= len(text)
	return text
}

func (w *typeWriter) schema(s map[string]any, depth int) string {
	if ref, ok := s["$ref"].(string); ok {
		return w.write(w.resolve(ref), depth+1)
	}
	if c, ok := s["const"]; ok {
		return literals([]any{c})
	}
	if list, ok := s["enum"].([]any); ok {
		return literals(list)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if list, ok := s[key].([]any); ok {
			return w.join(list, " | ", depth)
		}
	}
	if list, ok := s["allOf"].([]any); ok {
		return w.join(list, " & ", depth)
	}
	switch kind := s["type"].(type) {
	case []any:
		var types []string
		for _, k := range kind {
			one := maps.Clone(s)
			one["type"] = k
			types = append(types, w.write(one, depth+1))
		}
		return strings.Join(deduplicate(types), " | ")
	case string:
		return w.typed(kind, s, depth)
	default:
		if _, ok := s["properties"]; ok {
			return w.object(s, depth)
		}
		return "unknown"
	}
}

func (w *typeWriter) typed(kind string, s map[string]any, depth int) string {
	switch kind {
	case "string", "boolean", "null":
		return kind
	case "number", "integer":
		return "number"
	case "array":
		item := w.write(s["items"], depth+1)
		if identifier.MatchString(item) {
			return item + "[]"
		}
		return "Array<" + item + ">"
	case "object":
		return w.object(s, depth)
	default:
		return "unknown"
	}
}

func (w *typeWriter) object(s map[string]any, depth int) string {
	properties, _ := s["properties"].(map[string]any)
	if len(properties) == 0 {
		value := "unknown"
		if more, ok := s["additionalProperties"].(map[string]any); ok {
			value = w.write(more, depth+1)
		}
		return "Record<string, " + value + ">"
	}
	required := map[string]bool{}
	if list, ok := s["required"].([]any); ok {
		for _, name := range list {
			if name, ok := name.(string); ok {
				required[name] = true
			}
		}
	}
	var members []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		mark := "?"
		if required[name] {
			mark = ""
		}
		members = append(members, memberName(name)+mark+": "+w.write(properties[name], depth+1))
	}
	return "{ " + strings.Join(members, "; ") + " }"
}

func (w *typeWriter) join(list []any, by string, depth int) string {
	var types []string
	for _, v := range list {
		text := w.write(v, depth+1)
		if by == " & " && strings.Contains(text, " | ") {
			text = "(" + text + ")"
		}
		types = append(types, text)
	}
	if types = deduplicate(types); len(types) == 0 {
		return "unknown"
	}
	return strings.Join(types, by)
}

// resolve returns the schema of a reference within the same document.
func (w *typeWriter) resolve(ref string) any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	var at any = w.root
	for part := range strings.SplitSeq(path, "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return at
}

func literals(values []any) string {
	var types []string
	for _, v := range values {
		switch v := v.(type) {
		case string:
			types = append(types, quote(v))
		case nil, bool, float64:
			b, err := json.Marshal(v)
			if err != nil {
				return "unknown"
			}
			types = append(types, string(b))
		default:
			return "unknown"
		}
	}
	if types = deduplicate(types); len(types) == 0 {
		return "never"
	}
	return strings.Join(types, " | ")
}

// deduplicate removes repetitions and keeps the order.
func deduplicate(list []string) []string {
	var kept []string
	for _, s := range list {
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}
