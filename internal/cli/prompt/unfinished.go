package prompt

import "unicode"

// IsUnfinished reports whether a script lacks its end: a bracket, template or comment is
// open, or a string whose last line ends in a backslash. V8 reports all other mistakes.
func IsUnfinished(code string) bool {
	var open []rune // brackets; '`' for a template, '$' for a substitution in a template
	top := func() rune {
		if len(open) == 0 {
			return 0
		}
		return open[len(open)-1]
	}
	pop := func() { open = open[:len(open)-1] }
	src := []rune(code)
	value := false // the token before ends a value, so a slash is a division
	for i := 0; i < len(src); i++ {
		r := src[i]
		if top() == '`' {
			switch {
			case r == '\\':
				i++
			case r == '`':
				pop()
				value = true
			case r == '$' && i+1 < len(src) && src[i+1] == '{':
				open = append(open, '$')
				i++
				value = false
			}
			continue
		}
		switch {
		case unicode.IsSpace(r):
		case r == '/' && i+1 < len(src) && src[i+1] == '/':
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case r == '/' && i+1 < len(src) && src[i+1] == '*':
			for i += 3; i < len(src) && (src[i-1] != '*' || src[i] != '/'); i++ {
			}
			if i >= len(src) {
				return true
			}
		case r == '/' && !value:
			i = skipRegexp(src, i)
			value = true
		case r == '"' || r == '\'':
			next, closed, continued := skipText(src, i)
			if !closed && continued {
				return true
			}
			i, value = next, true
		case r == '`' || r == '(' || r == '[' || r == '{':
			open = append(open, r)
			value = false
		case r == ')' || r == ']' || r == '}':
			want := map[rune]rune{')': '(', ']': '[', '}': '{'}[r]
			if t := top(); t != want && (t != '$' || r != '}') {
				return false // a mistake that more lines cannot correct
			}
			pop()
			value = true
		case isNamePart(r):
			begin := i
			for i+1 < len(src) && isNamePart(src[i+1]) {
				i++
			}
			switch string(src[begin : i+1]) {
			case "return", "typeof", "case", "do", "else", "in", "of", "void", "delete", "throw", "new", "await", "yield", "instanceof":
				value = false
			default:
				value = true
			}
		default:
			value = false
		}
	}
	return len(open) > 0
}

// isNamePart reports whether a character may be part of a name.
func isNamePart(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// skipText returns the position of the last character of a string. continued is true if
// it ends in a backslash, after which the next line is part of the string.
func skipText(src []rune, i int) (last int, closed, continued bool) {
	quote := src[i]
	for i++; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
			if i+1 >= len(src) {
				return i, false, true
			}
		case quote:
			return i, true, false
		case '\n':
			return i, false, false
		}
	}
	return i, false, false
}

// skipRegexp returns the position of the last character of a regular expression,
// without its flags.
func skipRegexp(src []rune, i int) int {
	class := false
	for i++; i < len(src) && src[i] != '\n'; i++ {
		switch src[i] {
		case '\\':
			i++
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if !class {
				return i
			}
		}
	}
	return i
}
