package toolserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"daybook/internal/tools/toolserver"
)

func TestDeclaration(t *testing.T) {
	for _, test := range []struct{ name, input, output, want string }{
		{"plain", `{"type":"object","properties":{"path":{"type":"string"},"depth":{"type":"integer"}},"required":["path"]}`, ``,
			`plain(args: { depth?: number; path: string }): Promise<unknown>;`},
		{"odd name", ``, ``, `"odd name"(args?: Record<string, unknown>): Promise<unknown>;`},
		{"all", `{"type":"object","properties":{"a":{"enum":["x","y",null]},"b":{"type":["string","null"]},"c":{"type":"array","items":{"type":"number"}},"d":{"anyOf":[{"type":"string"},{"type":"boolean"}]},"e":{"const":5},"f":{"type":"array","items":{"enum":["p","q"]}},"g":{"type":"object","additionalProperties":{"type":"number"}}}}`, `{"$ref":"#/$defs/r","$defs":{"r":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}}}`,
			`all(args?: { a?: "x" | "y" | null; b?: string | null; c?: number[]; d?: string | boolean; e?: 5; f?: Array<"p" | "q">; g?: Record<string, number> }): Promise<{ ok: boolean }>;`},
		{"recursive", `{"$ref":"#"}`, `{"not json`, `recursive(args?: Record<string, unknown>): Promise<unknown>;`},
		{"allOf", `{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"anyOf":[{"type":"null"},{"type":"string"}]}]}`, ``,
			`allOf(args?: { a?: string } & (null | string)): Promise<unknown>;`},
	} {
		tool := toolserver.Tool{Name: test.name, InputSchema: json.RawMessage(test.input)}
		if test.output != "" {
			tool.OutputSchema = json.RawMessage(test.output)
		}
		if got := tool.Declaration(); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestDeclarations(t *testing.T) {
	got := toolserver.Declarations([]toolserver.Tool{
		{Server: "a", Name: "x", Description: "First. */ evil()\nSecond."}, {Server: "a", Name: "y"}, {Server: "b-c", Name: "z"},
	})
	want := `declare const mcp: {
  readonly a: {
    /** First. * / evil() Second. */
    x(args?: Record<string, unknown>): Promise<unknown>;
    y(args?: Record<string, unknown>): Promise<unknown>;
  };
  readonly "b-c": {
    z(args?: Record<string, unknown>): Promise<unknown>;
  };
};
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := toolserver.Declarations(nil); got != "declare const mcp: {\n};\n" {
		t.Errorf("nothing: %q", got)
	}
}

// For any description and schema, the declaration is short and keeps its lines.
func FuzzDeclaration(f *testing.F) {
	f.Add("name", "what */ it does", `{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`)
	f.Add("x", "", `{"anyOf":[{"anyOf":[{"type":["array","null"],"items":{"$ref":"#"}}]},{"enum":["*/"]}]}`)
	f.Fuzz(func(t *testing.T, name, description, schema string) {
		if len(schema) > 4096 || len(description) > 4096 || len(name) > 128 {
			return
		}
		got := toolserver.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)}.Declaration()
		if len(got) > 1<<20 {
			t.Errorf("%d bytes", len(got))
		}
		if lines := strings.Count(got, "\n"); lines > 1 {
			t.Errorf("%d lines: %q", lines, got)
		}
	})
}
