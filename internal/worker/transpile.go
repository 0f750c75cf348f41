package worker

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/go-sourcemap/sourcemap"
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

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._/@+-]`)

// scriptName makes a file name that V8 accepts in a sourceURL comment, which
// ends at white space and quotes.
func scriptName(file string) string { return unsafeInName.ReplaceAllString(file, "_") }

// source returns what V8 evaluates. The name comes last, so a sourceURL that the
// script itself carries loses.
func (p *program) source() []byte {
	out := make([]byte, 0, len(p.code)+len(p.name)+20)
	out = append(out, p.code...)
	out = append(out, "\n//# sourceURL="...)
	return append(out, p.name...)
}

// position maps a place in the code V8 saw, 1-based, to the caller's source.
func (p *program) position(m *sourcemap.Consumer, line, column int) (int, int, bool) {
	_, _, l, c, ok := m.Source(line, column-1)
	return l, c + 1, ok
}

func (p *program) consumer() *sourcemap.Consumer {
	if p.maps == nil {
		return nil
	}
	m, err := sourcemap.Parse("", p.maps)
	if err != nil {
		return nil // positions stay those of the code V8 saw
	}
	return m
}

var preludeFrame = regexp.MustCompile(`^    at (?:.* \()?daybook:prelude:\d+:\d+\)?$`)

func isPreludeFrame(line string) bool { return preludeFrame.MatchString(line) }

// mapStack rewrites the places of our script in the frames of a stack trace, and
// drops frames that are none of the script's business. Lines that are no frames are the script's own words and stay.
func (p *program) mapStack(stack string) string {
	frame := regexp.MustCompile(`(^|[( ])` + regexp.QuoteMeta(p.name) + `:(\d+):(\d+)(\)?)$`)
	var m *sourcemap.Consumer
	lines := slices.DeleteFunc(strings.Split(stack, "\n"), isPreludeFrame)
	for i, text := range lines {
		if !strings.HasPrefix(text, "    at ") {
			continue
		}
		at := frame.FindStringSubmatchIndex(text)
		if at == nil {
			continue
		}
		if m == nil && p.maps != nil {
			if m = p.consumer(); m == nil {
				return stack
			}
		}
		l, lineErr := strconv.Atoi(text[at[4]:at[5]])
		c, columnErr := strconv.Atoi(text[at[6]:at[7]])
		ok := lineErr == nil && columnErr == nil
		if m != nil {
			l, c, ok = p.position(m, l, c)
		}
		if !ok {
			continue
		}
		lines[i] = fmt.Sprintf("%s%s:%d:%d%s", text[:at[3]], p.file, l, c, text[at[8]:])
	}
	return strings.Join(lines, "\n")
}
