package typescript

import (
	"bytes"
	"sort"
	"strings"
	"unicode/utf8"
)

// Sizes of literals in bytes of source. A literal has at most as many UTF-16 units. V8
// internalizes literals, and in an isolate whose heap is saved an internalized string has at most
// about 131,000 units.
const (
	maxLiteral = 130_000
	pieceSize  = 100_000
)

// SplitLiterals returns p with each string or template literal of more than 130,000 bytes written
// as a sum of shorter ones. V8 computes the sum at run time and does not internalize it. Values
// stay the same, and the source map of the result keeps positions. Property names, directives,
// tagged templates and regular expressions are not split. SplitLiterals returns p itself if it has
// no such literal or cannot be parsed.
func SplitLiterals(p *Program) *Program {
	if !mayHoldLong(p.Code) {
		return p
	}
	t, err := parse(p.Code)
	if err != nil {
		return p
	}
	inserted := t.splits()
	if len(inserted) == 0 {
		return p
	}
	code := insert(p.Code, inserted)
	maps, err := t.shiftForward(p.Map, inserted)
	if err != nil {
		return p
	}
	return &Program{Code: code, Map: maps}
}

// mayHoldLong reports whether there is enough text between two quotes of a kind for a long
// literal. It also counts quotes in comments and in other literals.
func mayHoldLong(code []byte) bool {
	if len(code) <= maxLiteral {
		return false
	}
	double, single, back := 0, 0, 0
	for i := 0; i < len(code); i++ {
		var last *int
		switch code[i] {
		case '\\':
			i++
			continue
		case '"':
			last = &double
		case '\'':
			last = &single
		case '`':
			last = &back
		default:
			continue
		}
		if i-*last > maxLiteral {
			return true
		}
		*last = i
	}
	return false
}

// splits returns the insertions that cut the long literals.
func (t *tree) splits() []insertion {
	var found []insertion
	for i := range t.nodes {
		if t.end(i)-t.start(i) <= maxLiteral {
			continue
		}
		var cuts []int
		switch t.kind(i) {
		case "string":
			if t.isSplittable(i) {
				cuts = cutText(t.source, t.start(i)+1, t.end(i)-1)
			}
		case "template_string":
			if p := t.parentKind(i); p == "call_expression" && t.start(t.parent(i)) != t.start(i) {
				continue // the function of a tagged template sees the pieces
			}
			from := t.start(i) + 1
			for c := t.first(i); c != none; c = t.next(c) {
				if t.kind(c) == "template_substitution" {
					cuts = append(cuts, cutText(t.source, from, t.start(c))...)
					from = t.end(c)
				}
			}
			cuts = append(cuts, cutText(t.source, from, t.end(i)-1)...)
		}
		if len(cuts) == 0 {
			continue
		}
		opening := "("
		if p := t.statementAt(i); p != none && isList(t.parentKind(p)) {
			opening = ";(" // without the semicolon, the parenthesis could be the arguments of a call that starts on the line before
		}
		quote := string(t.source[t.start(i)])
		found = append(found, insertion{t.start(i), opening})
		for _, at := range cuts {
			found = append(found, insertion{at, quote + "+" + quote})
		}
		found = append(found, insertion{t.end(i), ")"})
	}
	// A template may hold another one.
	sort.SliceStable(found, func(i, j int) bool { return found[i].at < found[j].at })
	return found
}

// statementAt returns the expression statement that begins with node i, or none.
func (t *tree) statementAt(i int) int {
	for p := t.parent(i); p != none && t.start(p) == t.start(i); p = t.parent(p) {
		if t.kind(p) == "expression_statement" {
			return p
		}
	}
	return none
}

// isSplittable reports whether a string is an expression, and not a directive before another
// string.
func (t *tree) isSplittable(i int) bool {
	switch p := t.parent(i); t.kind(p) {
	case "pair", "pair_pattern":
		return t.start(p) != t.start(i)
	case "public_field_definition":
		for c := t.first(p); c != i; c = t.next(c) {
			if t.kind(c) == "=" {
				return true
			}
		}
		return false
	case "method_definition", "import_statement", "export_statement", "import_specifier", "export_specifier", "namespace_export", "import_require_clause",
		"literal_type", "method_signature", "property_signature", "enum_body", "enum_assignment", "module", "internal_module":
		return false
	case "expression_statement":
		next := t.next(p)
		if next == none || t.kind(next) != "expression_statement" {
			return true
		}
		e := t.expression(next)
		return e == none || t.kind(e) != "string"
	}
	return true
}

// cutText returns the offsets at which to cut the text of a literal that is too long. It does not
// cut within escapes and line ends.
func cutText(source []byte, from, to int) []int {
	if to-from <= maxLiteral {
		return nil
	}
	var cuts []int
	pieceStart := from
	for i := from; i < to; {
		n := unitLength(source[i:to])
		if i+n-pieceStart > pieceSize {
			cuts = append(cuts, i)
			pieceStart = i
		}
		i += n
	}
	return cuts
}

// unitLength returns the length in bytes of the first character or escape in the text of a literal.
func unitLength(s []byte) int {
	if bytes.HasPrefix(s, []byte("\r\n")) {
		return 2
	}
	if s[0] != '\\' || len(s) == 1 {
		_, n := utf8.DecodeRune(s)
		return n
	}
	switch c := s[1]; {
	case c == 'u' && len(s) > 2 && s[2] == '{':
		return indexFrom(s, 2, "}")
	case c == 'u':
		return min(6, len(s))
	case c == 'x':
		return min(4, len(s))
	case c == '\r' && len(s) > 2 && s[2] == '\n':
		return 3
	case '0' <= c && c <= '7':
		n := 2
		for n < 4 && n < len(s) && '0' <= s[n] && s[n] <= '7' {
			n++
		}
		return n
	}
	_, n := utf8.DecodeRune(s[1:])
	return 1 + n
}

// shiftForward returns the source map of the tree's code with the insertions. It is derived from
// encoded, the source map of the code, or from the tokens of the code if encoded is nil.
func (t *tree) shiftForward(encoded []byte, inserted []insertion) ([]byte, error) {
	m := sourceMap{Version: 3, Sources: []string{"main.ts"}}
	lines := t.tokens()
	if encoded != nil {
		var err error
		if m, lines, err = decodeMap(encoded); err != nil {
			return nil, err
		}
	}
	for line, shifts := range shifts(t.source, inserted, false) {
		if line >= len(lines) {
			continue
		}
		for i := range lines[line] {
			s := &lines[line][i]
			// Text that is inserted at a token comes before it.
			in := lastAt(shifts, s.generated)
			s.generated += in.before + in.size
		}
	}
	return encodeMap(m, lines)
}

// tokens maps each token of the source to itself.
func (t *tree) tokens() [][]segment {
	starts := lineStarts(t.source)
	lines := make([][]segment, len(starts))
	line, column, at := 0, 0, 0
	for i := range t.nodes {
		start := t.start(i)
		if i+1 != t.last(i) || start < at || strings.HasPrefix(t.kind(i), "string_") || t.kind(i) == "escape_sequence" {
			continue
		}
		for line+1 < len(starts) && starts[line+1] <= start {
			line++
			column, at = 0, starts[line]
		}
		column += columns(string(t.source[at:start]))
		at = start
		if segments := lines[line]; len(segments) == 0 || segments[len(segments)-1].generated < column {
			lines[line] = append(lines[line], segment{column, line, column})
		}
	}
	return lines
}
