package typescript_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"daybook/internal/exec/typescript"
)

func TestErase(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ source, want string }{
		{"const x: number = 5; x; -1", "const x         = 5; x; -1"},
		{"let x = y as any\n(z)", "let x = y ;     \n(z)"},
		{"a\ntype T = 1\n(b)", "a\n;         \n(b)"},
		{"a\ndeclare let b: 1\n-1", "a\n;               \n-1"},
		{"class A { x = 1\n public ['y'] = 2 }", "class A { x = 1\n ;      ['y'] = 2 }"},
		{"if (a) type T = 1", "if (a) ;         "},
		{"f = (x): {\n a: 1 } => x", "f = (x    \n      ) => x"},
		{"f = async <T\n>(x: T) => x", "f = async ( \n  x   ) => x"},
		{"let a: 'é漢😀' = 1", "let a   \u00a0\u2002\u00a0\u00a0  = 1"},
		{"x as A.B.C<D>['e']\n[1]", "x ;               \n[1]"},
		{"function f(this: A, b?: B): asserts b is C {}", "function f(         b    )                 {}"},
		{"let plain = `${a < b}` // : number", "let plain = `${a < b}` // : number"},
	} {
		got, err := typescript.Erase([]byte(test.source))
		if err != nil || string(got) != test.want {
			t.Errorf("%q: %q, %v, want %q", test.source, got, err, test.want)
		}
	}
}

func TestNotErasable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ source, construct, place string }{
		{"1\n  enum E {}", "an enum", "2:3"}, {"'😀'; namespace N { export let x = 1 }", "a namespace", "1:7"},
		{"class A { constructor(private x: 1) {} }", "a parameter property", "1:23"}, {"@a class B {}", "a decorator", "1:1"},
		{"import a = b.c", "an import assignment", "1:1"}, {"() => <T>{}", "a type assertion at the start of a statement", "1:7"},
		{"using a = b", "a using declaration", "1:1"},
	} {
		_, err := typescript.Erase([]byte(test.source))
		var not *typescript.NotErasableError
		if !errors.As(err, &not) || not.Error() != test.place+": "+test.construct+" cannot be erased" {
			t.Errorf("%q: %v", test.source, err)
		}
	}
	for source, want := range map[string]error{
		"let x: = 1": typescript.ErrSyntax, "let \x00": typescript.ErrNotText, "let \xff": typescript.ErrNotText,
		"let x: number = " + strings.Repeat("(", 60_000) + "1" + strings.Repeat(")", 60_000): typescript.ErrTooDeep,
	} {
		if _, err := typescript.Erase([]byte(source)); !errors.Is(err, want) {
			t.Errorf("%.20q: %v, want %v", source, err, want)
		}
	}
}

// A source whose value is not certain is refused.
func TestUncertainValueIsRefused(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"let as = 1; as as any", "5; let as = 1 as any; as as any\n(-1)", "let as = 1; as as any; as++ // c\n\n(1); as",
		"let x: any; x as any\n<number>(5)",
	} {
		p, err := typescript.JavaScript([]byte(source))
		var syntax *typescript.SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%q: %+v, %v", source, p, err)
		}
	}
}

// FuzzErase checks that erased text becomes white space, and that no characters move except those
// that the comment of erase lists.
func FuzzErase(f *testing.F) {
	data, err := os.ReadFile("testdata/node.json")
	if err != nil {
		f.Fatal(err)
	}
	var cases []struct{ Code string }
	if err := json.Unmarshal(data, &cases); err != nil {
		f.Fatal(err)
	}
	for i, c := range cases {
		if i < 300 || i%10 == 0 {
			f.Add([]byte(c.Code))
		}
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		erased, err := typescript.Erase(source)
		if err != nil {
			return
		}
		if len(erased) != len(source) || !utf8.Valid(erased) {
			t.Fatalf("%q became %q", source, erased)
		}
		for i, b := range erased {
			was := source[i]
			switch {
			case b == was, b == ' ' && was < utf8.RuneSelf, b == ';', b == '(', b == ')':
				if (b == '\n' || b == '\r' || was == '\n' || was == '\r') && b != was {
					t.Fatalf("%q became %q: another line at %d", source, erased, i)
				}
			case was >= utf8.RuneSelf && b >= utf8.RuneSelf:
			default:
				t.Fatalf("%q became %q: %q at %d", source, erased, b, i)
			}
		}
		if units(erased) != units(source) || bytes.Count(erased, []byte("\u2028")) != bytes.Count(source, []byte("\u2028")) {
			t.Fatalf("%q became %q: another length", source, erased)
		}
		if again, err := typescript.Erase(erased); err == nil && !bytes.Equal(again, erased) && !bytes.ContainsAny(erased, "<") {
			t.Fatalf("%q became %q, and that %q", source, erased, again)
		}
	})
}

// units returns the number of UTF-16 units of b.
func units(b []byte) int {
	n := 0
	for _, r := range string(b) {
		n++
		if r >= 0x10000 {
			n++
		}
	}
	return n
}
