package typescript

import (
	"bytes"
	"regexp"
	"slices"
	"sort"
)

// candidate is the position of a word that may start a using declaration.
type candidate struct {
	at    int // offset of "using"
	await int // offset of the "await" before it, or none
}

// usingCandidates returns every "using" that is followed by a name on its line. Some may be in a
// comment or a string; constantsAt selects those that start a declaration.
func usingCandidates(source []byte) []candidate {
	var found []candidate
	word := []byte("using")
	for from := 0; ; {
		i := bytes.Index(source[from:], word)
		if i < 0 {
			return found
		}
		at := from + i
		from = at + len(word)
		if at > 0 && isWordByte(source[at-1]) {
			continue
		}
		name := source[from:]
		space := len(name) - len(bytes.TrimLeft(name, " \t"))
		name = name[space:]
		n := 0
		for n < len(name) && isWordByte(name[n]) {
			n++
		}
		if space == 0 || n == 0 || name[0] >= '0' && name[0] <= '9' || slices.Contains([]string{"in", "of", "instanceof", "as", "satisfies"}, string(name[:n])) {
			continue
		}
		c := candidate{at: at, await: none}
		before := bytes.TrimRight(source[:at], " \t")
		if len(before) < at && bytes.HasSuffix(before, []byte("await")) && (len(before) == 5 || !isWordByte(before[len(before)-6])) {
			c.await = len(before) - 5
		}
		found = append(found, c)
	}
}

// isWordByte reports whether b can be part of an identifier. It returns true for each byte of a
// character beyond ASCII.
func isWordByte(b byte) bool {
	return b == '_' || b == '$' || b == '\\' || b >= 0x80 || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

func replaceUsing(source []byte, candidates []candidate) []byte {
	out := bytes.Clone(source)
	for _, c := range candidates {
		copy(out[c.at:], "const")
		if c.await != none {
			copy(out[c.await:], "     ")
		}
	}
	return out
}

// constantsAt returns the offsets of the candidates that are the keyword of a declaration.
func (t *tree) constantsAt(candidates []candidate) []int {
	at := map[int]bool{}
	for _, c := range candidates {
		at[c.at] = true
	}
	var found []int
	for i := range t.nodes {
		if at[t.start(i)] && t.kind(i) == "const" && (t.parentKind(i) == "lexical_declaration" || t.parentKind(i) == "for_in_statement") {
			found = append(found, t.start(i))
		}
	}
	return found
}

// maxBreaks is how often a source is parsed at most to find the statements that the grammar does
// not end where TypeScript does.
const maxBreaks = 16

// endStatements parses a source again with a semicolon at each offset where a statement ends in
// TypeScript and not in the grammar, until there is no such offset.
func (t *tree) endStatements() (*tree, error) {
	for range maxBreaks {
		breaks, err := t.missedBreaks()
		if err != nil || len(breaks) == 0 {
			return t, err
		}
		patched := bytes.Clone(t.source)
		for _, at := range breaks {
			patched[at] = ';'
		}
		next, _, err := parseAsWritten(patched)
		if err != nil {
			return nil, err
		}
		next.using, next.breaks = t.using, append(t.breaks, breaks...)
		t = next
	}
	return nil, errSyntax
}

// missedBreaks returns the offsets of white space where TypeScript ends a statement and the
// grammar does not:
//
//   - before a line that starts with a parenthesis, a bracket or a template, after "x as T",
//     "typeof x" as a type, and x++;
//   - before the bracket or the mark of what the grammar reads as T[...] or x!, if a line ends
//     there;
//   - after the body of an arrow function.
//
// Of several offsets in one expression it returns the first. The error is errSyntax if the
// statement cannot end there.
func (t *tree) missedBreaks() ([]int, error) {
	type place struct{ expression, at int }
	var places []place
	note := func(i, from, to int) {
		if from < to && t.breaksLine(from, to) && bytes.IndexByte([]byte(" \t\r\n"), t.source[from]) >= 0 {
			places = append(places, place{t.start(i), from})
		}
	}
	for i := range t.nodes {
		switch t.kind(i) {
		case "as_expression", "satisfies_expression":
			if p := t.parent(i); t.kind(p) == "call_expression" && t.start(p) == t.start(i) && t.nextToken(i) != none {
				if t.kind(t.nextToken(i)) == "type_arguments" {
					return nil, errSyntax // it is a comparison
				}
				note(p, t.end(i), t.start(t.nextToken(i)))
			}
		case "call_expression":
			f := t.first(i)
			if f == none || t.nextToken(f) == none || !t.inType(i) || t.kind(f) == "import" {
				continue
			}
			if !t.breaksLine(t.end(f), t.start(t.nextToken(f))) {
				return nil, errSyntax // a type contains no call
			}
			note(i, t.end(f), t.start(t.nextToken(f)))
		case "lookup_type", "array_type":
			if bracket := t.child(i, "["); bracket != none {
				note(i, t.end(t.first(i)), t.start(bracket))
			}
		case "non_null_expression":
			if mark := t.child(i, "!"); mark != none {
				note(i, t.end(t.first(i)), t.start(mark))
			}
		case "update_expression", "arrow_function":
			if p := t.parent(i); t.nextToken(i) != none && t.start(p) == t.start(i) && t.endsOperand(i, p) {
				note(p, t.end(i), t.start(t.nextToken(i)))
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int { return a.at - b.at })
	var found []int
	for _, p := range places {
		if len(found) == 0 || found[len(found)-1] < p.expression {
			found = append(found, p.at)
		}
	}
	return found, nil
}

// nextToken returns the next sibling of node i that is not a comment, or none.
func (t *tree) nextToken(i int) int {
	n := t.next(i)
	for n != none && t.kind(n) == "comment" {
		n = t.next(n)
	}
	return n
}

// endsOperand reports whether, in JavaScript, an expression of the kind of node p cannot start
// with node i, which is x++ or an arrow function with a body in braces.
func (t *tree) endsOperand(i, p int) bool {
	switch t.kind(p) {
	case "call_expression", "subscript_expression", "member_expression":
	case "binary_expression", "ternary_expression", "as_expression", "satisfies_expression", "update_expression", "non_null_expression":
		if t.kind(i) == "update_expression" {
			return false
		}
	default:
		return false
	}
	if t.kind(i) == "update_expression" {
		return t.kind(t.first(i)) != "++" && t.kind(t.first(i)) != "--"
	}
	return t.source[t.end(i)-1] == '}' && t.kind(t.last(i)-1) == "}" && t.kind(t.parent(t.last(i)-1)) == "statement_block" && t.parent(t.parent(t.last(i)-1)) == i
}

// inType reports whether node i is part of a type that contains expressions: typeof x or an
// imported type.
func (t *tree) inType(i int) bool {
	for p := t.parent(i); p != none; p = t.parent(p) {
		switch t.kind(p) {
		case "type_query", "type_alias_declaration", "type_annotation":
			return true
		case "member_expression", "call_expression", "instantiation_expression", "subscript_expression":
		default:
			return false
		}
	}
	return false
}

// joins reports whether a range that is to be erased contains the start of another statement: on a
// new line, a token that continues no type, or a comment that continues there. The grammar joins
// such statements. Those that missedBreaks does not find are refused because of this check.
func (t *tree) joins(start, end int) bool {
	depth, before := 0, none
	for i := sort.Search(len(t.nodes), func(i int) bool { return t.start(i) >= start }); i < len(t.nodes) && t.start(i) < end; i++ {
		if t.last(i) != i+1 || t.start(i) == t.end(i) {
			continue
		}
		if t.kind(i) == "comment" {
			if bytes.HasPrefix(t.source[t.start(i):], []byte("//")) && t.breaksLine(t.start(i), t.end(i)) {
				return true
			}
			continue
		}
		if depth == 0 && before != none && t.breaksLine(t.end(before), t.start(i)) && bytes.IndexByte([]byte("([`+-/~!'\"<0123456789"), t.source[t.start(i)]) >= 0 &&
			t.parentKind(i) != "formal_parameters" && t.parentKind(i) != "type_parameters" && !continuesType[t.kind(before)] {
			return true
		}
		switch t.kind(i) {
		case "(", "[", "{", "<", "${":
			depth++
		case ")", "]", "}", ">":
			depth--
		}
		before = i
	}
	return false
}

// continuesType has the tokens after which a type continues on the next line.
var continuesType = map[string]bool{
	"|": true, "&": true, "=>": true, "=": true, ":": true, "?": true, ",": true, "?:": true, "extends": true, "implements": true, "keyof": true, "is": true, "new": true, "readonly": true, "as": true, "satisfies": true,
	"typeof": true, "infer": true, "-": true,
}

// maxRepairs is how often repair parses a source again at most. Each time takes as long as the
// first one. maxRepaired is the maximum size in bytes of a source that is repaired.
const maxRepairs, maxRepaired = 16, 1 << 18

// repair makes small changes to a source that the grammar does not accept, and parses it again. It
// ends statements at line ends, because the grammar reads a sign, a star or a template at the start
// of a line as a continuation even after a type. It also hides imported types, the variance of type
// parameters, decorators of the form @(...), and line comments. The error is errSyntax if that is
// not enough.
func repair(source []byte) (*tree, error) {
	if len(source) > maxRepaired {
		return nil, errSyntax
	}
	patched := bytes.Clone(source)
	for _, at := range importedType.FindAllIndex(patched, -1) {
		for i := at[0]; i < at[1]; i++ {
			patched[i] = '_'
		}
	}
	for _, at := range variance.FindAllSubmatchIndex(patched, -1) {
		for i := at[2]; i < at[3]; i++ {
			patched[i] = ' '
		}
	}
	if decorated := hideDecorators(patched); decorated != nil {
		patched = decorated
	}
	hideComments(patched)
	t, failedAt, err := parseAsWritten(patched)
	breaks := continuations(patched)
	for range maxRepairs {
		if err == nil || failedAt == none || len(breaks) == 0 {
			break
		}
		// The first one is the line end nearest to the offset at which the parser failed.
		slices.SortStableFunc(breaks, func(a, b int) int { return distance(a, failedAt) - distance(b, failedAt) })
		at := breaks[0]
		breaks = breaks[1:]
		was := patched[at]
		patched[at] = ';'
		u, uAt, uErr := parseAsWritten(patched)
		if uErr != nil && uAt <= failedAt {
			patched[at] = was
			continue
		}
		t, failedAt, err = u, uAt, uErr
	}
	return t, err
}

// hideComments replaces line comments by white space, so that a semicolon at the end of a line is
// not part of a comment.
func hideComments(source []byte) {
	t, err := parseLoosely(source)
	if err != nil {
		return
	}
	for i := range t.nodes {
		if t.kind(i) == "comment" && bytes.HasPrefix(source[t.start(i):], []byte("//")) {
			for at := t.start(i); at < t.end(i); at++ {
				source[at] = ' '
			}
		}
	}
}

// hideDecorators replaces the expression of each decorator in parentheses by a name, because the
// grammar accepts few such expressions. It returns nil if there is none.
func hideDecorators(source []byte) []byte {
	out := bytes.Clone(source)
	ends := map[int]int{}
	for from := 0; ; {
		i := bytes.Index(source[from:], []byte("@("))
		if i < 0 {
			break
		}
		at := from + i
		from = at + 2
		if end := closingParen(source, at+1); end != none {
			hide(out, at, end)
			ends[at] = end
			from = end
		}
	}
	// A decorator in a comment or a string is restored.
	for len(ends) > 0 {
		t, failed := parseLoosely(out)
		if failed != nil {
			return nil
		}
		for i := range t.nodes {
			if at := t.start(i); t.kind(i) == "@" && t.parentKind(i) == "decorator" {
				if _, ok := ends[at]; ok {
					ends[at] = none
				}
			}
		}
		changed := false
		for at, end := range ends {
			if end != none {
				copy(out[at:end], source[at:end])
				changed = true
				delete(ends, at)
			}
		}
		if !changed {
			return out
		}
		for at := range ends {
			ends[at] = closingParen(source, at+1)
		}
	}
	return nil
}

// hide replaces source[at:end] by an "@", a name and white space.
func hide(source []byte, at, end int) {
	for i := at + 1; i < end; i++ {
		if source[i] != '\n' && source[i] != '\r' {
			source[i] = ' '
		}
	}
	source[at+1] = '_'
}

// closingParen returns the offset after the parenthesis that closes the one at an offset, or none.
// It also counts parentheses in strings and comments.
func closingParen(source []byte, at int) int {
	depth := 0
	for i := at; i < len(source); i++ {
		switch source[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return none
}

// joinNames replaces each dotted name after "as" and "satisfies" by a single name, because the
// grammar reads its later parts as members of a value. If the match is part of another construct,
// the tree stays the same.
func joinNames(source []byte) []byte {
	found := dottedType.FindAllSubmatchIndex(source, -1)
	if len(found) == 0 {
		return source
	}
	out := bytes.Clone(source)
	for _, at := range found {
		for i := at[2]; i < at[3]; i++ {
			if !isWordByte(out[i]) {
				out[i] = '_'
			}
		}
	}
	return out
}

var (
	dottedType = regexp.MustCompile(`\b(?:as|satisfies)[ \t]+((?:[\pL_$][\pL\d_$]*|import\([ \t]*(?:"[^"\\\n]*"|'[^'\\\n]*')[ \t]*\))(?:\.[\pL_$][\pL\d_$]*)+)`)
	// importedType matches the start of an imported type, of which the grammar accepts few forms.
	importedType = regexp.MustCompile(`\bimport\([ \t]*(?:"[^"\\\n]*"|'[^'\\\n]*')[ \t]*\)\.`)
)

var variance = regexp.MustCompile(`[<,]\s*(?:const\s+)?((?:in\s+out|in|out)\s)\s*[\pL_$]`)

func distance(a, b int) int { return max(a-b, b-a) }

// continuations returns the offsets of line ends before lines that start with a sign, a star, a
// slash, a template, a bracket or a type assertion.
func continuations(source []byte) []int {
	var found []int
	for i, b := range source {
		if b != '\n' {
			continue
		}
		next := bytes.TrimLeft(source[i+1:], " \t\r\n")
		if len(next) > 1 && bytes.IndexByte([]byte("+-*`/[<"), next[0]) >= 0 && next[1] != '=' && !bytes.HasPrefix(next, []byte("//")) {
			found = append(found, i)
		}
	}
	return found
}

// breaksLine reports whether a line ends between two offsets.
func (t *tree) breaksLine(from, to int) bool { return hasLineEnd(t.source[from:to]) }

func hasLineEnd(b []byte) bool {
	return bytes.ContainsAny(b, "\n\r") || bytes.Contains(b, []byte("\u2028")) || bytes.Contains(b, []byte("\u2029"))
}

// startsLineEnd reports whether b starts with a line end.
func startsLineEnd(b []byte) bool {
	return len(b) > 0 && (b[0] == '\n' || b[0] == '\r' || bytes.HasPrefix(b, []byte("\u2028")) || bytes.HasPrefix(b, []byte("\u2029")))
}
