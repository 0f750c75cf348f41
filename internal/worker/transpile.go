package worker

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// program is a script made ready for V8.
type program struct {
	code []byte // what V8 evaluates, without the name
	name string // as stack traces show it
	file string // as the caller calls it
	maps []byte // nil: it is the caller's source itself
}

// sourceError is a syntax error with its place in the caller's source.
type sourceError struct{ text string }

func (e *sourceError) Error() string { return e.text }

// verbatim is a script that goes to V8 as it is. JavaScript should: what esbuild
// prints has lost comments and layout, which functions show, and statements such
// as "-1" and "void 0", which are a script's value.
func verbatim(code, file string) *program {
	if file == "" {
		file = "main.ts"
	}
	return &program{code: []byte(code), name: scriptName(file), file: file}
}

// Sources that V8 may accept and TypeScript takes for something else, or that
// need lowering though V8 knows the syntax: f<T>(x), and using, which needs a
// DisposableStack that snapshot isolates lack.
var typedCall, disposal = regexp.MustCompile(`<[^;{}]*>\s*[(\x60]`), regexp.MustCompile(`\busing\b`)

// ambiguous tells whether a source has to be read as TypeScript from the start.
func ambiguous(code string) bool {
	return typedCall.MatchString(code) || disposal.MatchString(code)
}

// compile strips the types off TypeScript and lowers what this V8 lacks. Plain
// JavaScript passes through. Nothing is shaken off or minified: the value of the
// last expression and every top-level name must stay.
func compile(code, file string) (*program, error) {
	if file == "" {
		file = "main.ts"
	}
	if strings.Contains(code, "sourceMappingURL") {
		// esbuild would follow a source map that the script brings along, and call
		// a damaged one a syntax error. The last such comment wins, and it cannot
		// load this one.
		code += "\n//# sourceMappingURL=."
	}
	r := api.Transform(code, api.TransformOptions{
		Loader: api.LoaderTS,
		Target: api.ESNext,
		// Snapshot isolates have no DisposableStack; decorators no V8 has.
		Supported:   map[string]bool{"using": false, "decorators": false},
		TreeShaking: api.TreeShakingFalse,
		Sourcemap:   api.SourceMapExternal,
		// Not the caller's name, which nothing needs here: esbuild never returns
		// when it is not valid UTF-8.
		Sourcefile: "main.ts",
		LogLevel:   api.LogLevelSilent,
		// Only TypeScript's own tsconfig defaults; nothing is read from disk.
		TsconfigRaw: `{"compilerOptions":{"verbatimModuleSyntax":true,"useDefineForClassFields":true}}`,
		Charset:     api.CharsetUTF8,
	})
	if len(r.Errors) > 0 {
		return nil, &sourceError{syntaxErrorText(r.Errors, file)}
	}
	return &program{code: r.Code, name: scriptName(file), file: file, maps: r.Map}, nil
}

// syntaxErrorText prints errors in the form V8 gives its own.
func syntaxErrorText(errors []api.Message, file string) string {
	var b strings.Builder
	m := errors[0]
	fmt.Fprintf(&b, "SyntaxError: %s", m.Text)
	if l := m.Location; l != nil {
		line := l.LineText
		fmt.Fprintf(&b, "\n    at %s:%d:%d", file, l.Line, l.Column+1)
		if line != "" && len(line) <= 200 {
			fmt.Fprintf(&b, "\n\n%s\n%s^", line, strings.Repeat(" ", min(l.Column, len(line))))
		}
	}
	if more := len(errors) - 1; more > 0 {
		fmt.Fprintf(&b, "\n(and %d more)", more)
	}
	return b.String()
}
