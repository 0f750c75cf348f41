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

// Program is the JavaScript of a source.
type Program struct {
	Code []byte
	// Map is a source map of Code, or nil if positions are those of the source.
	Map []byte
}

// SyntaxError is returned when a source has a syntax error. Line and Column are 1-based, and
// Column counts UTF-16 units. They are 0 if the position is unknown.
type SyntaxError struct {
	Text         string
	Line, Column int
	LineText     string
	More         int // number of errors after this one
}

func (e *SyntaxError) Error() string { return e.Text }

// ErrJavaScript is returned when a source has no TypeScript syntax. An error of V8 about it is
// then correct.
var ErrJavaScript = errors.New("the source is JavaScript")

// JavaScript turns TypeScript into JavaScript. It erases the types if that is possible, else it
// lowers the source. Two parsers must agree on the meaning of a source: one determines what is
// erased, and esbuild must print the erased source as it prints the original.
//
// The error is ErrJavaScript or a *SyntaxError.
func JavaScript(source []byte) (*Program, error) {
	if nesting(source) > maxDepth {
		return nil, asSyntaxError(errTooDeep)
	}
	t, err := parse(source)
	if errors.Is(err, errNotText) || errors.Is(err, errTooDeep) {
		return nil, asSyntaxError(err)
	}
	var erased []byte
	var stays *notErasable
	if err == nil {
		erased, stays, err = t.erase()
	}
	loader := api.LoaderTS
	if stays != nil && stays.construct == usingDeclaration && len(transform(source, api.LoaderJS, false).Errors) == 0 {
		loader = api.LoaderJS // JavaScript, except that this V8 has no using declarations
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

// asSyntaxError turns an error of a parser into a *SyntaxError for the author of the source.
func asSyntaxError(err error) error {
	var syntax *SyntaxError
	switch {
	case errors.As(err, &syntax):
		return syntax
	case errors.Is(err, errTooDeep), errors.Is(err, errNotText):
		return &SyntaxError{Text: upperFirst(err.Error())}
	}
	return &SyntaxError{Text: "This TypeScript has a form whose value cannot be kept for certain; write it as JavaScript, or with simpler types"}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// nesting returns the maximum nesting of the brackets in a source, including those in strings
// and comments.
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

// transform prints a source with esbuild. It removes no unused code and does not minify. With
// lowering it also rewrites syntax that this V8 lacks and returns a source map.
func transform(source []byte, loader api.Loader, lowering bool) api.TransformResult {
	code := string(source)
	if strings.Contains(code, "sourceMappingURL") {
		// esbuild would read the source map that the last sourceMappingURL comment refers to,
		// and report a damaged map as a syntax error. The comment added here becomes the last
		// one, and esbuild cannot load its map.
		code += "\n//# sourceMappingURL=."
	}
	options := api.TransformOptions{
		Loader:        loader,
		Target:        api.ESNext,
		TreeShaking:   api.TreeShakingFalse,
		LegalComments: api.LegalCommentsNone,
		// The name that the caller gave is not needed here. esbuild does not return if a
		// name is not valid UTF-8.
		Sourcefile: "main.ts",
		LogLevel:   api.LogLevelSilent,
		// The defaults of TypeScript. esbuild reads no file.
		TsconfigRaw: `{"compilerOptions":{"verbatimModuleSyntax":true,"useDefineForClassFields":true}}`,
		Charset:     api.CharsetUTF8,
	}
	if lowering {
		// Isolates whose heap is saved have no DisposableStack. No V8 has decorators.
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

// equalPrints reports whether two outputs of esbuild are equal, apart from empty statements.
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

// lowerLoosely lowers a source that esbuild accepts and the grammar reads in another way. The
// value of such a source is certain only if it is the value of the last statement, and if no
// statement follows that the grammar may have read as a part of another one. A source that
// esbuild may read in another way than JavaScript engines is refused: see updatedBefore.
func lowerLoosely(source []byte) (*Program, error) {
	if updatedBefore.Match(source) {
		return nil, asSyntaxError(errSyntax)
	}
	t, err := parseLoosely(source)
	if err != nil {
		return nil, asSyntaxError(err)
	}
	if _, err := t.missedBreaks(); err != nil {
		return nil, asSyntaxError(err)
	}
	last := t.lastStatement()
	if last == none || t.kind(last) != "expression_statement" || t.nodes[last].broken {
		return nil, asSyntaxError(errSyntax)
	}
	t.only = last
	return t.lower(api.LoaderTS)
}

// updatedBefore matches x++ before a line that begins with a parenthesis, a bracket
// or a template, which esbuild reads as a call or an access.
var updatedBefore = regexp.MustCompile("(?s)(?:\\+\\+|--)(?:[ \\t]|//[^\\r\\n]*|/\\*.*?\\*/)*[\\r\\n\u2028\u2029](?:\\s|//[^\\r\\n]*|/\\*.*?\\*/)*[(\\[`]")

// lastStatement returns the last top-level statement, without those that have no value and end
// in a brace. It returns none if there is no such statement.
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

// lower rewrites a source with esbuild and keeps the value of the last expression statement.
func (t *tree) lower(loader api.Loader) (*Program, error) {
	name := unusedName(t.source)
	marked, inserted := t.mark(name)
	r := transform(marked, loader, true)
	if len(r.Errors) > 0 {
		if original := transform(t.source, loader, true); len(original.Errors) > 0 {
			return nil, syntaxError(original.Errors)
		}
		return nil, asSyntaxError(errSyntax)
	}
	out, err := parse(r.Code)
	if err != nil {
		return nil, asSyntaxError(err)
	}
	unmarked, plain, err := out.unmark(name, t.source, t.only != 0)
	if err != nil {
		return nil, asSyntaxError(err)
	}
	if !sameProgram(plain, insert(t.source, t.ends()), loader) || t.only != 0 && !out.endsInMark(name) {
		return nil, asSyntaxError(errSyntax)
	}
	maps, err := shiftBack(r.Map, t.source, inserted)
	if err != nil {
		return nil, fmt.Errorf("read esbuild's source map: %w", err)
	}
	return &Program{Code: unmarked, Map: maps}, nil
}

// sameProgram reports whether lowered code is what esbuild prints for the source, apart from
// statements that are constants.
func sameProgram(lowered, source []byte, loader api.Loader) bool {
	want := transform(source, loader, true)
	if len(want.Errors) > 0 {
		return false
	}
	a, aOK := withoutConstants(lowered)
	b, bOK := withoutConstants(want.Code)
	return aOK && bOK && equalPrints(a, b)
}

// withoutConstants prints JavaScript without the statements that are constants. It reports
// false if the code cannot be parsed.
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

// insert returns source with the insertions. They must be in order.
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

// lineStarts returns the offset of each line. Source maps and V8 count lines in this way.
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
