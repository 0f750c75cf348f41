package worker_test

import (
	"strings"
	"testing"

	"daybook/internal/exec/worker"
)

func TestTypeScript(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, code, want string }{
		{"types become spaces", "const x: number = 1; x as any", "const x         = 1; x       "},
		{"unused code stays", "function f() {}\nconst y: any = 1;\n1 + 1", "function f() {}\nconst y      = 1;\n1 + 1"},
		{"top-level await", "await (1 as any)", "await (1       )"},
		{"interfaces vanish", "interface A { b: string }", "                         "},
		{"non-ASCII stays", "'h\u00e9\u4e16' as any", "'h\u00e9\u4e16'       "},
		{"unused imports stay", "import a, {type b} from 'a'", "import a, {      } from 'a'"},
		{"a directive stays", "'use strict'; 1 as any", "'use strict'; 1       "},
		{"enums become JavaScript", "enum A { B = 1 }", "var A = /* @__PURE__ */ ((A2) => {\n  A2[A2[\"B\"] = 1] = \"B\";\n  return A2;\n})(A || {});\n"},
	} {
		p, err := worker.TypeScript([]byte(test.code), "", true)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if p.Code() != test.want {
			t.Errorf("%s: %q, want %q", test.name, p.Code(), test.want)
		}
		if !strings.Contains(p.Source(), "\n//# sourceURL=main.ts#") {
			t.Errorf("%s: source %q has another name", test.name, p.Source())
		}
	}
}

func TestSyntaxErrorsHaveAPosition(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ code, file, want string }{
		{"let a = 1\nlet b = ]", "my cell.ts", "SyntaxError: Unexpected \"]\"\n    at my cell.ts:2:9\n\nlet b = ]\n        ^"},
		{"let x: any; let x", "", "SyntaxError: The symbol \"x\" has already been declared\n    at main.ts:1:17\n\nlet x: any; let x\n                ^"},
	} {
		_, err := worker.TypeScript([]byte(test.code), test.file, true)
		if err == nil || err.Error() != test.want {
			t.Errorf("%q: %q, want %q", test.code, err, test.want)
		}
	}
}

func TestIsWorker(t *testing.T) {
	t.Parallel()
	// The standard files of the test are not the pipes of a worker, so only the arguments are
	// tested.
	for _, args := range [][]string{nil, {"daybook"}, {"daybook-worker"}, {"daybook-worker", "serve", "1", "2"}, {"x", "daybook-worker/1", "1", "2"}} {
		if worker.IsWorker(args) {
			t.Errorf("%q was taken for a worker", args)
		}
	}
}
