package typescript

import (
	"bytes"
	"regexp"
	"slices"
)

// candidate is a place that may hold a using declaration.
type candidate struct {
	at    int // offset of "using"
	await int // offset of the "await" before it, or none
}

// usingCandidates returns every "using" that is followed by a name on its line.
// It may be in a comment or a string: constantsAt decides.
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

// isWordByte reports whether b can be part of an identifier. Each byte of a
// character beyond ASCII can.
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

// constantsAt returns the candidates that are the keyword of a declaration.
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

// missedBreaks returns the offsets of white space where TypeScript ends a
// statement and the grammar does not: after "x as T" and before a line that
// begins with a parenthesis, and inside what the grammar takes for T[...] and
// x! with a line end before the bracket or the mark.
func (t *tree) missedBreaks() []int {
	var found []int
	note := func(from, to int) {
		if from < to && t.breaksLine(from, to) && bytes.IndexByte([]byte(" \t\r\n"), t.source[from]) >= 0 {
			found = append(found, from)
		}
	}
	for i := range t.nodes {
		switch t.kind(i) {
		case "as_expression", "satisfies_expression":
			if p := t.parent(i); t.kind(p) == "call_expression" && t.start(p) == t.start(i) && t.next(i) != none {
				note(t.end(i), t.start(t.next(i)))
			}
		case "lookup_type", "array_type":
			if bracket := t.child(i, "["); bracket != none {
				note(t.end(t.first(i)), t.start(bracket))
			}
		case "non_null_expression":
			if mark := t.child(i, "!"); mark != none {
				note(t.end(t.first(i)), t.start(mark))
			}
		}
	}
	return found
}

// maxRepairs bounds how often a source is parsed again. Each time costs as much
// as the first.
const maxRepairs, maxRepaired = 16, 1 << 20

// repair makes a source with errors one that the grammar accepts, if that takes
// no more than to end statements at line ends, or to leave out the variance of
// type parameters: the grammar takes a sign, a star or a template at the start of
// a line for a continuation even where a type stands before it.
func repair(source []byte) (*tree, error) {
	if len(source) > maxRepaired {
		return nil, ErrSyntax
	}
	patched := bytes.Clone(source)
	for _, at := range variance.FindAllSubmatchIndex(patched, -1) {
		for i := at[2]; i < at[3]; i++ {
			patched[i] = ' '
		}
	}
	if decorated := hideDecorators(patched); decorated != nil {
		patched = decorated
	}
	t, failedAt, err := parseAsWritten(patched)
	breaks := continuations(source)
	for range maxRepairs {
		if err == nil || failedAt == none || len(breaks) == 0 {
			break
		}
		// The line end nearest to where the parser failed.
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

// hideDecorators replaces the expression of each decorator in parentheses by a
// name: the grammar knows few of them. The result is nil if there is none.
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
		if end := closing(source, at+1); end != none {
			hide(out, at, end)
			ends[at] = end
			from = end
		}
	}
	// One in a comment or a string is none.
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
			ends[at] = closing(source, at+1)
		}
	}
	return nil
}

// hide makes source[at:end] an "@", a name and white space.
func hide(source []byte, at, end int) {
	for i := at + 1; i < end; i++ {
		if source[i] != '\n' && source[i] != '\r' {
			source[i] = ' '
		}
	}
	source[at+1] = '_'
}

// closing returns the offset behind the parenthesis that closes the one at an
// offset, or none. It does not look at what the characters are part of.
func closing(source []byte, at int) int {
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

var variance = regexp.MustCompile(`[<,]\s*(?:const\s+)?((?:in\s+out|in|out)\s)\s*[\pL_$]`)

func distance(a, b int) int { return max(a-b, b-a) }

// continuations returns the line ends before lines that begin with a sign, a
// star, a slash or a template.
func continuations(source []byte) []int {
	var found []int
	for i, b := range source {
		if b != '\n' {
			continue
		}
		next := bytes.TrimLeft(source[i+1:], " \t\r\n")
		if len(next) > 1 && bytes.IndexByte([]byte("+-*`/["), next[0]) >= 0 && next[1] != '=' && !bytes.HasPrefix(next, []byte("//")) {
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

// startsLineEnd reports whether b begins with a line end.
func startsLineEnd(b []byte) bool {
	return len(b) > 0 && (b[0] == '\n' || b[0] == '\r' || bytes.HasPrefix(b, []byte("\u2028")) || bytes.HasPrefix(b, []byte("\u2029")))
}
