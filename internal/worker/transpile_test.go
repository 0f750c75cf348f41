package worker_test

import (
	"strings"
	"testing"

	"daybook/internal/worker"
)

func TestCompile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, code, want string }{
		{"types go", "const x: number = 1; x as any", "const x = 1;\nx;\n"},
		{"unused code stays", "function f() {}\nconst y = 1;\n1 + 1", "function f() {\n}\nconst y = 1;\n1 + 1;\n"},
		{"top-level await", "await 1", "await 1;\n"},
		{"interfaces vanish", "interface A { b: string }", ""},
		{"non-ASCII stays", "'h\u00e9\u4e16'", "\"h\u00e9\u4e16\";\n"},
		{"unused imports stay", "import a from 'a'", "import a from \"a\";\n"},
		{"a directive stays", "'use strict'; 1", "\"use strict\";\n1;\n"},
	} {
		p, err := worker.Compile(test.code, "")
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

func TestSyntaxErrorsHaveAPlace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ code, file, want string }{
		{"let a = 1\nlet b = ]", "my cell.ts", "SyntaxError: Unexpected \"]\"\n    at my cell.ts:2:9\n\nlet b = ]\n        ^"},
		{"let x; let x", "", "SyntaxError: The symbol \"x\" has already been declared\n    at main.ts:1:12\n\nlet x; let x\n           ^"},
	} {
		_, err := worker.Compile(test.code, test.file)
		if err == nil || err.Error() != test.want {
			t.Errorf("%q: %q, want %q", test.code, err, test.want)
		}
	}
}

func TestIsWorker(t *testing.T) {
	t.Parallel()
	// The test's own standard files are no pair of pipes with a parent's
	// greeting; only the arguments are at stake here.
	for _, args := range [][]string{nil, {"daybook"}, {"daybook-worker"}, {"daybook-worker", "serve", "1", "2"}, {"x", "daybook-worker/1", "1", "2"}} {
		if worker.IsWorker(args) {
			t.Errorf("%q was taken for a worker", args)
		}
	}
}
