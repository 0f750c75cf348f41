package typescript

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
)

// Program is JavaScript made of a source.
type Program struct {
	Code []byte
	// Map is a source map of Code, or nil if positions are those of the source.
	Map []byte
}

// SyntaxError is an error in a source. Line and Column are 1-based, Column counts
// UTF-16 units; 0 means that the place is unknown.
type SyntaxError struct {
	Text         string
	Line, Column int
	LineText     string
	More         int // how many errors follow
}

func (e *SyntaxError) Error() string { return e.Text }

// ErrJavaScript is returned when a source has nothing of TypeScript, so what V8
// says of it is right.
var ErrJavaScript = errors.New("the source is JavaScript")

// JavaScript turns TypeScript into JavaScript. It erases the types where that is
// possible and lowers the source otherwise. Two parsers have to agree on what a
// source means: one decides what is erased, and esbuild must print the erased
// source as it prints the original.
//
// The error is ErrJavaScript, or a *SyntaxError.
func JavaScript(source []byte) (*Program, error) {
	if nesting(source) > maxDepth {
		return nil, explain(ErrTooDeep)
	}
	t, err := parse(source)
	if errors.Is(err, ErrNotText) || errors.Is(err, ErrTooDeep) {
		return nil, explain(err)
	}
	var erased []byte
	var stays *notErasable
	if err == nil {
		erased, stays, err = t.erase()
	}
	loader := api.LoaderTS
	if stays != nil && stays.construct == usingDeclaration && len(transform(source, api.LoaderJS, false).Errors) == 0 {
		loader = api.LoaderJS // but for what this V8 lacks, it is JavaScript
	}
	original := transform(source, loader, false)
	switch {
	case len(original.Errors) > 0 && err == nil && bytes.Equal(erased, source):
		return nil, ErrJavaScript
	case len(original.Errors) > 0:
		return nil, syntaxError(original.Errors)
	case err != nil:
		return lowerLoosely(source)
	}
	if stays == nil {
		loader = api.LoaderJS
	}
	printed := transform(erased, loader, false)
	switch agreed := len(printed.Errors) == 0 && equalPrints(printed.Code, original.Code); {
	case !agreed:
		return lowerLoosely(source)
	case stays != nil:
		return t.lower(loader)
	case bytes.Equal(erased, source):
		return nil, ErrJavaScript
	}
	return &Program{Code: erased}, nil
}

// explain turns a failure to read a source into one for the author of it.
func explain(err error) error {
	var syntax *SyntaxError
	switch {
	case errors.As(err, &syntax):
		return syntax
	case errors.Is(err, ErrTooDeep), errors.Is(err, ErrNotText):
		return &SyntaxError{Text: upperFirst(err.Error())}
	}
	return &SyntaxError{Text: "This TypeScript has a form whose value cannot be kept for certain; write it as JavaScript, or with simpler types"}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// nesting returns how deep the brackets of a source are nested at most, whatever
// they are part of.
func nesting(source []byte) int {
	depth, most := 0, 0
	for _, b := range source {
		switch b {
		case '(', '[', '{':
			depth++
			most = max(most, depth)
		case ')', ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return most
}

// transform prints a source with esbuild. Nothing is shaken off or minified. With
// lowering it rewrites what this V8 lacks, and returns a source map.
func transform(source []byte, loader api.Loader, lowering bool) api.TransformResult {
	code := string(source)
	if strings.Contains(code, "sourceMappingURL") {
		// esbuild would follow a source map that the script brings along, and call
		// a damaged one a syntax error. The last such comment wins, and it cannot
		// load this one.
		code += "\n//# sourceMappingURL=."
	}
	options := api.TransformOptions{
		Loader:        loader,
		Target:        api.ESNext,
		TreeShaking:   api.TreeShakingFalse,
		LegalComments: api.LegalCommentsNone,
		// Not the caller's name, which nothing needs here: esbuild never returns
		// when it is not valid UTF-8.
		Sourcefile: "main.ts",
		LogLevel:   api.LogLevelSilent,
		// Only TypeScript's own tsconfig defaults; nothing is read from disk.
		TsconfigRaw: `{"compilerOptions":{"verbatimModuleSyntax":true,"useDefineForClassFields":true}}`,
		Charset:     api.CharsetUTF8,
	}
	if lowering {
		// Snapshot isolates have no DisposableStack; decorators no V8 has.
		options.Supported = map[string]bool{"using": false, "decorators": false}
		options.Sourcemap = api.SourceMapExternal
		options.SourcesContent = api.SourcesContentExclude
	}
	return api.Transform(code, options)
}

func syntaxError(messages []api.Message) *SyntaxError {
	m := messages[0]
	e := &SyntaxError{Text: m.Text, More: len(messages) - 1}
	if l := m.Location; l != nil {
		e.Line, e.LineText = l.Line, l.LineText
		e.Column = columns(l.LineText[:min(l.Column, len(l.LineText))]) + 1
	}
	return e
}

// columns returns the length of s in UTF-16 units.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// equalPrints compares two outputs of esbuild. Empty statements do not count.
func equalPrints(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(withoutEmpty(a), withoutEmpty(b))
}

func withoutEmpty(printed []byte) []byte {
	var out []byte
	for line := range bytes.Lines(printed) {
		if !bytes.Equal(bytes.TrimSpace(line), []byte(";")) {
			out = append(out, line...)
		}
	}
	return out
}

// lowerLoosely lowers a source that esbuild accepts and of which the grammar makes
// something else. Its value is certain only if it is that of the last statement,
// and if no statement that the grammar may have taken for part of another one
// comes after it. What esbuild reads in another way than JavaScript is refused.
func lowerLoosely(source []byte) (*Program, error) {
	if updatedBefore.Match(source) {
		return nil, explain(ErrSyntax)
	}
	t, err := parseLoosely(source)
	if err != nil {
		return nil, explain(err)
	}
	if _, err := t.missedBreaks(); err != nil {
		return nil, explain(err)
	}
	last := t.lastStatement()
	if last == none || t.kind(last) != "expression_statement" || t.nodes[last].broken {
		return nil, explain(ErrSyntax)
	}
	t.only = last
	return t.lower(api.LoaderTS)
}

// updatedBefore matches x++ before a line that begins with a parenthesis, a bracket
// or a template, which esbuild reads as a call or an access.
var updatedBefore = regexp.MustCompile("(?s)(?:\\+\\+|--)(?:[ \\t]|//[^\\r\\n]*|/\\*.*?\\*/)*[\\r\\n\u2028\u2029](?:\\s|//[^\\r\\n]*|/\\*.*?\\*/)*[(\\[`]")

// lastStatement returns the last top-level statement but for those that have no
// value and end in a brace, or none.
func (t *tree) lastStatement() int {
	last := none
	for c := t.first(0); c != none; c = t.next(c) {
		switch t.kind(c) {
		case "comment", "empty_statement", "function_declaration", "class_declaration", "interface_declaration", "enum_declaration":
			if !t.nodes[c].broken {
				continue
			}
		}
		last = c
	}
	return last
}

// lower rewrites a source with esbuild. The value of the last expression
// statement stays.
func (t *tree) lower(loader api.Loader) (*Program, error) {
	name := unusedName(t.source)
	marked, inserted := t.mark(name)
	r := transform(marked, loader, true)
	if len(r.Errors) > 0 {
		if original := transform(t.source, loader, true); len(original.Errors) > 0 {
			return nil, syntaxError(original.Errors)
		}
		return nil, explain(ErrSyntax)
	}
	out, err := parse(r.Code)
	if err != nil {
		return nil, explain(err)
	}
	unmarked, plain, err := out.unmark(name, t.source, t.only != 0)
	if err != nil {
		return nil, explain(err)
	}
	if !sameProgram(plain, insert(t.source, t.ends()), loader) || t.only != 0 && !out.endsInMark(name) {
		return nil, explain(ErrSyntax)
	}
	maps, err := shiftBack(r.Map, t.source, inserted)
	if err != nil {
		return nil, fmt.Errorf("read esbuild's source map: %w", err)
	}
	return &Program{Code: unmarked, Map: maps}, nil
}

// sameProgram reports whether lowered code is what esbuild makes of the source,
// but for statements that are constants.
func sameProgram(lowered, source []byte, loader api.Loader) bool {
	want := transform(source, loader, true)
	if len(want.Errors) > 0 {
		return false
	}
	a, aOK := withoutConstants(lowered)
	b, bOK := withoutConstants(want.Code)
	return aOK && bOK && equalPrints(a, b)
}

// withoutConstants prints JavaScript without the statements that are constants.
func withoutConstants(code []byte) ([]byte, bool) {
	printed := transform(code, api.LoaderJS, false)
	if len(printed.Errors) > 0 {
		return nil, false
	}
	t, err := parse(printed.Code)
	if err != nil {
		return nil, false
	}
	out := bytes.Clone(printed.Code)
	for i := range t.nodes {
		if t.kind(i) != "expression_statement" {
			continue
		}
		if e := t.expression(i); e != none && t.isConstant(e) {
			for at := t.start(e); at < t.end(i); at++ {
				out[at] = ' '
			}
			out[t.end(i)-1] = ';'
		}
	}
	printed = transform(out, api.LoaderJS, false)
	return printed.Code, len(printed.Errors) == 0
}

// isConstant reports whether node i is a primitive constant as esbuild prints it.
func (t *tree) isConstant(i int) bool {
	switch t.kind(i) {
	case "string", "number", "true", "false", "null", "undefined":
		return true
	case "identifier":
		return t.text(i) == "NaN" || t.text(i) == "Infinity"
	case "unary_expression", "parenthesized_expression", "binary_expression":
		for c := t.first(i); c != none; c = t.next(c) {
			if t.nodes[c].named && t.kind(c) != "comment" && !t.isConstant(c) {
				return false
			}
		}
		return true
	}
	return false
}

// unusedName returns an identifier that does not occur in a source.
func unusedName(source []byte) string {
	name := "_v"
	for bytes.Contains(source, []byte(name)) {
		name += "_"
		if len(name)%8 == 0 {
			name += "v"
		}
	}
	return name
}

// insertion is text that was put into a source.
type insertion struct {
	at   int // offset in the source
	text string
}

// insert returns source with the insertions, which are in order.
func insert(source []byte, insertions []insertion) []byte {
	size := len(source)
	for _, n := range insertions {
		size += len(n.text)
	}
	out := make([]byte, 0, size)
	from := 0
	for _, n := range insertions {
		out = append(append(out, source[from:n.at]...), n.text...)
		from = n.at
	}
	return append(out, source[from:]...)
}

// lineStarts returns the offset of each line as source maps count them, which
// is as V8 does.
func lineStarts(source []byte) []int {
	starts := []int{0}
	for i := 0; i < len(source); {
		r, n := utf8.DecodeRune(source[i:])
		i += n
		if r == '\n' || r == '\u2028' || r == '\u2029' || r == '\r' && (i == len(source) || source[i] != '\n') {
			starts = append(starts, i)
		}
	}
	return starts
}
