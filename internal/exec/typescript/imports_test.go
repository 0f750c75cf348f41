package typescript

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindImports(t *testing.T) {
	for _, c := range []struct {
		source, code string
		static       []Import
		dynamic      []string
	}{
		{source: `1 + 1`},
		{source: `const important = "import"; important`},
		{source: `import type { T } from "t"; 1`},
		{
			source: `import d, { a as b, type T, "x-y" as z, default as q } from "m"; d`,
			code:   `;` + strings.Repeat(" ", 63) + ` d`,
			static: []Import{{"m", []ImportedName{{"default", "d"}, {"a", "b"}, {"x-y", "z"}, {"default", "q"}}, 1, 1}},
		},
		{
			source: "const x = 1\nimport * as ns from 'ü/é'\n;(x)",
			code:   "const x = 1\n;" + strings.Repeat(" ", 20) + "\u00a0 \u00a0 \n (x)",
			static: []Import{{"ü/é", []ImportedName{{"*", "ns"}}, 2, 1}},
		},
		{
			source: "import {\n  a,\n  b,\n} from 'm' with { type: 'json' }\nimport 'side'\nawait import('d'); await import(`t`); import(x); import('d')",
			code:   ";       \n    \n    \n" + strings.Repeat(" ", 32) + "\n;            \nawait import('d'); await import(`t`); import(x); import('d')",
			static: []Import{{"m", []ImportedName{{"a", "a"}, {"b", "b"}}, 1, 1}, {"side", nil, 5, 1}}, dynamic: []string{"d", "t"},
		},
	} {
		found, err := FindImports([]byte(c.source))
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		if found == nil {
			if c.static != nil || c.dynamic != nil {
				t.Errorf("%s: no imports", c.source)
			}
			continue
		}
		if diff := cmp.Diff([]any{c.static, c.dynamic}, []any{found.Static, found.Dynamic}); diff != "" {
			t.Errorf("%s: %s", c.source, diff)
		}
		if string(found.Code) != c.code {
			t.Errorf("%s: code\n%q, want\n%q", c.source, found.Code, c.code)
		}
	}
}
