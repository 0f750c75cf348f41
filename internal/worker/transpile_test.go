package worker_test

import (
	"strings"
	"testing"

	"daybook/internal/worker"
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
		if !strings.HasSuffix(p.Source(), "\n//# sourceURL=main.ts") {
			t.Errorf("%s: source %q has another name", test.name, p.Source())
		}
	}
}

func TestSyntaxErrorsHaveAPlace(t *testing.T) {
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

func TestMapStack(t *testing.T) {
	t.Parallel()
	// The throw is in line 4 of what V8 sees, 7 of the source.
	p, err := worker.TypeScript([]byte("const enum A {}\n// gone\n\n\n\n\nthrow new Error('x')"), "dir/a b.ts", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, stack, want string }{
		{"bare frame", "Error: x\n    at dir/a_b.ts:4:7", "Error: x\n    at dir/a b.ts:7:7"},
		{"named frame", "Error: x\n    at f (dir/a_b.ts:4:7)", "Error: x\n    at f (dir/a b.ts:7:7)"},
		{"async frame", "Error: x\n    at async dir/a_b.ts:4:7", "Error: x\n    at async dir/a b.ts:7:7"},
		{"words of the script", "Error: see dir/a_b.ts:4:7", "Error: see dir/a_b.ts:4:7"},
		{"another script", "Error\n    at other.ts:1:7", "Error\n    at other.ts:1:7"},
		{"a longer name", "Error\n    at xdir/a_b.ts:4:7", "Error\n    at xdir/a_b.ts:4:7"},
		{"beyond the source", "Error\n    at dir/a_b.ts:99999999999999999999:7", "Error\n    at dir/a_b.ts:99999999999999999999:7"},
		{"our own frames go", "Error: x\n    at dir/a_b.ts:4:7\n    at Object.fire (daybook:prelude:10:5)", "Error: x\n    at dir/a b.ts:7:7"},
	} {
		if got := p.MapStack(test.stack); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// FuzzMapStack maps what a script may pass off as a stack trace.
func FuzzMapStack(f *testing.F) {
	p, err := worker.TypeScript([]byte("const enum A {}\n// gone\n\nthrow new Error('x')\nfunction f() { return 1 }"), "a.ts", true)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Error: x\n    at f (a.ts:1:7)\n    at a.ts:0:0\n    at g (daybook:prelude:1:2)")
	f.Add("    at a.ts:-1:99999999999999999999)")
	f.Fuzz(func(t *testing.T, stack string) {
		mapped := p.MapStack(stack)
		if got, most := strings.Count(mapped, "\n"), strings.Count(stack, "\n"); got > most {
			t.Fatalf("%d lines became %d", most+1, got+1)
		}
		if !strings.Contains(stack, "    at ") && mapped != stack {
			t.Fatalf("%q became %q", stack, mapped)
		}
	})
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
