package typescript

import (
	"slices"
	"unicode/utf8"
)

// notErasable describes a construct that cannot be erased, because it consists not only of
// types. line and column are its position, 1-based; column counts UTF-16 units.
type notErasable struct {
	construct    string
	line, column int
}

// erase returns the source with its types replaced by white space. The result has the same length
// in bytes and in UTF-16 units, and the same line ends at the same offsets. An ASCII character of
// a type becomes a space. Another character becomes white space of the same lengths (U+00A0,
// U+2002).
//
// Some characters are added or moved. A semicolon replaces white space where a statement would
// otherwise join the next one. The opening or closing parenthesis of an arrow function's
// parameters moves across a line end that would otherwise stand before it or before the arrow.
//
// The first construct that cannot be erased is returned with the result, which is then still
// TypeScript. The error is errSyntax, errTooDeep or errNotText. A source without types is
// returned unchanged.
func (t *tree) erase() (erased []byte, stays *notErasable, err error) {
	e := &eraser{tree: t, out: slices.Clone(t.source), kept: map[int]int{}, before: map[int]int{}}
	if len(t.using) > 0 {
		e.noteNotErasable(usingDeclaration, t.using[0])
	}
	for i := 0; i < len(t.nodes); {
		if p := t.parent(i); p != none && isList(t.kind(p)) {
			skip, err := e.eraseMember(i)
			if err != nil {
				return nil, nil, err
			}
			if skip {
				i = e.afterMember(i)
				continue
			}
			if t.kind(i) != "comment" {
				e.before[p] = e.kept[p]
				e.kept[p] = t.end(i)
			}
		}
		skip, err := e.eraseNode(i)
		switch {
		case err != nil:
			return nil, nil, err
		case skip:
			i = t.last(i)
		default:
			i++
		}
	}
	if e.joined {
		return nil, nil, errSyntax
	}
	e.insertSemicolons()
	return e.out, e.stays, nil
}

// usingDeclaration is a construct of JavaScript that this V8 does not support.
const usingDeclaration = "a using declaration"

// eraser is the state of one erasure.
type eraser struct {
	*tree
	out []byte
	// kept is the end of the last statement or member that is not erased, by its list.
	// before is the end of the one before it. 0 means that there is none.
	kept, before map[int]int
	gaps         []gap
	stays        *notErasable // the first construct that cannot be erased
	joined       bool         // an erased range seems to contain the next statement
}

// gap is an offset at which something was erased and a statement may need an end.
type gap struct {
	at           int    // offset for a semicolon
	resume       int    // where the source continues
	before       string // characters that continue the statement if the source continues with one of them
	always       bool   // the semicolon is always needed
	needsLineEnd bool   // the semicolon is needed only if a line ends before the source continues
}

func isList(kind string) bool {
	switch kind {
	case "program", "statement_block", "class_body", "switch_case", "switch_default":
		return true
	}
	return false
}

// noteNotErasable records a construct that cannot be erased. Only the first one is kept.
func (e *eraser) noteNotErasable(construct string, at int) {
	if e.stays == nil {
		line, column := position(e.source, at)
		e.stays = &notErasable{construct, line, column}
	}
}

// position returns the line and the column of an offset. Both are 1-based, and the column counts
// UTF-16 units.
func position(source []byte, at int) (line, column int) {
	line, column = 1, 1
	for i := 0; i < at; {
		r, n := utf8.DecodeRune(source[i:])
		switch {
		case r == '\n' || r == '\u2028' || r == '\u2029' || r == '\r' && (i+1 == len(source) || source[i+1] != '\n'):
			line, column = line+1, 1
		case r >= 0x10000:
			column += 2
		default:
			column++
		}
		i += n
	}
	return line, column
}

// blank replaces a range of the source by white space of the same layout.
func (e *eraser) blank(start, end int) {
	if e.breaksLine(start, end) && e.joins(start, end) {
		e.joined = true
	}
	for i := start; i < end; {
		r, n := utf8.DecodeRune(e.source[i:end])
		switch {
		case r == '\n' || r == '\r' || r == '\t' || r == '\u2028' || r == '\u2029':
			copy(e.out[i:], e.source[i:i+n])
		case n == 1:
			e.out[i] = ' '
		case n == 2:
			copy(e.out[i:], "\u00a0")
		case n == 3:
			copy(e.out[i:], "\u2002")
		default:
			copy(e.out[i:], "\u00a0\u00a0") // two UTF-16 units, as before
		}
		i += n
	}
}

// afterMember returns the node after an erased statement or member. In a class, this is the
// node after the semicolon or comma that ends the member, which eraseMember erases as well.
func (e *eraser) afterMember(i int) int {
	if n := e.next(i); n != none && e.parentKind(i) == "class_body" && (e.kind(n) == ";" || e.kind(n) == ",") {
		return e.last(n)
	}
	return e.last(i)
}

// eraseMember erases node i of a list if it is a statement or a class member without JavaScript.
func (e *eraser) eraseMember(i int) (erased bool, err error) {
	typesOnly, err := e.typesOnly(i)
	if err != nil || !typesOnly {
		return false, err
	}
	end := e.end(i)
	if after := e.afterMember(i); after > e.last(i) {
		end = e.end(e.last(i))
	}
	e.blank(e.start(i), end)
	if e.needsEnd(e.kept[e.parent(i)]) {
		e.gaps = append(e.gaps, gap{at: e.start(i), resume: end, before: "([`+-*/<"})
	}
	return true, nil
}

// needsEnd reports whether a statement or member that ends at an offset could continue after
// that offset.
func (e *eraser) needsEnd(end int) bool {
	if end == 0 {
		return false
	}
	switch e.source[end-1] {
	case ';', '{', ':', ',':
		return false
	}
	return true
}

// typesOnly reports whether a statement or class member has no JavaScript.
func (e *eraser) typesOnly(i int) (bool, error) {
	switch e.kind(i) {
	case "type_alias_declaration", "interface_declaration", "function_signature", "ambient_declaration":
		return true, nil
	case "index_signature", "method_signature", "abstract_method_signature":
		return true, nil
	case "public_field_definition":
		return e.child(i, "declare", "abstract") != none, nil
	case "expression_statement":
		c := e.expression(i)
		return c != none && e.isTypeNamespace(c), nil
	case "import_statement":
		if c := e.child(i, "typeof"); c != none {
			return false, errSyntax
		}
		return e.child(i, "type") != none, nil
	case "export_statement":
		if e.child(i, "type") != none {
			return true, nil
		}
		for c := e.first(i); c != none; c = e.next(c) {
			switch e.kind(c) {
			case "type_alias_declaration", "interface_declaration", "function_signature", "ambient_declaration":
				return true, nil
			case "internal_module", "module":
				return e.isTypeNamespace(c), nil
			}
		}
	case "internal_module", "module":
		return e.isTypeNamespace(i), nil
	}
	return false, nil
}

// isTypeNamespace reports whether node i is a namespace that contains only types.
func (e *eraser) isTypeNamespace(i int) bool {
	if k := e.kind(i); k != "internal_module" && k != "module" {
		return false
	}
	body := e.child(i, "statement_block")
	if body == none {
		return false
	}
	for c := e.first(body); c != none; c = e.next(c) {
		switch e.kind(c) {
		case "{", "}", "comment", "type_alias_declaration", "interface_declaration":
		case "export_statement":
			if d := e.child(c, "type_alias_declaration", "interface_declaration", "internal_module"); d == none || e.child(c, "default") != none || e.kind(d) == "internal_module" && !e.isTypeNamespace(d) {
				return false
			}
		case "expression_statement":
			if d := e.expression(c); d == none || !e.isTypeNamespace(d) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// eraseNode erases the types of node i. skip reports that the children of the node need not be
// visited.
func (e *eraser) eraseNode(i int) (skip bool, err error) {
	parent := e.parentKind(i)
	switch e.kind(i) {
	case "type_alias_declaration", "interface_declaration", "function_signature", "ambient_declaration":
		// A statement outside a list is the body of an if, a loop or a label.
		e.blank(e.start(i), e.end(i))
		e.gaps = append(e.gaps, gap{at: e.start(i), always: true})
		return true, nil

	case "type_annotation", "asserts_annotation", "type_predicate_annotation":
		if parent == "parenthesized_expression" {
			return false, errSyntax
		}
		e.blank(e.start(i), e.end(i))
		if parent == "arrow_function" {
			e.closeParameters(i)
		}
		return true, nil
	case "type_parameters":
		e.blank(e.start(i), e.end(i))
		if parent == "arrow_function" && e.breaksLine(e.start(i), e.end(i)) {
			if parameters := e.child(e.parent(i), "formal_parameters"); parameters != none {
				e.out[e.start(i)], e.out[e.start(parameters)] = '(', ' '
			}
		}
		return true, nil
	case "type_arguments", "implements_clause":
		if parent == "type_assertion" {
			if safe, err := e.canEraseAssertion(e.parent(i)); err != nil || !safe {
				return true, err
			}
		}
		e.blank(e.start(i), e.end(i))
		return true, nil

	case "as", "satisfies":
		if parent == "as_expression" || parent == "satisfies_expression" {
			end := e.end(e.parent(i))
			e.blank(e.start(i), end)
			if k := e.parentKind(e.parent(i)); k != "as_expression" && k != "satisfies_expression" {
				e.gaps = append(e.gaps, gap{at: e.start(i), resume: end, before: "([`", needsLineEnd: true})
			}
		}
	case "predefined_type", "type_identifier", "generic_type", "union_type", "intersection_type", "object_type", "array_type", "lookup_type", "literal_type",
		"function_type", "constructor_type", "conditional_type", "tuple_type", "type_query", "index_type_query", "nested_type_identifier", "parenthesized_type",
		"template_literal_type", "readonly_type", "infer_type", "this_type", "existential_type", "flow_maybe_type":
		if parent == "as_expression" || parent == "satisfies_expression" {
			return true, nil // erased with the keyword
		}
	case "!":
		switch parent {
		case "non_null_expression", "variable_declarator", "public_field_definition":
			e.blank(e.start(i), e.end(i))
		}
	case "?":
		switch parent {
		case "optional_parameter", "method_definition", "public_field_definition":
			e.blank(e.start(i), e.end(i))
		}
	case "accessibility_modifier", "override_modifier", "readonly":
		switch parent {
		case "required_parameter", "optional_parameter":
			e.noteNotErasable("a parameter property", e.start(i))
		case "method_definition", "public_field_definition":
			e.blank(e.start(i), e.end(i))
			if class := e.parent(e.parent(i)); e.start(i) == e.start(e.parent(i)) && e.needsEnd(e.before[class]) {
				e.gaps = append(e.gaps, gap{at: e.start(i), resume: e.end(i), before: "[*(i"})
			}
		}
	case "abstract":
		if parent == "abstract_class_declaration" {
			e.blank(e.start(i), e.end(i))
		}
	case "required_parameter":
		if c := e.first(i); c != none && e.kind(c) == "this" {
			e.blank(e.start(i), e.withComma(i))
			return true, nil
		}
	case "import_specifier", "export_specifier":
		if c := e.first(i); c != none && e.next(c) != none && e.kind(c) == "type" && !e.nodes[c].named {
			e.blank(e.start(i), e.withComma(i))
			return true, nil
		} else if c != none && e.kind(c) == "typeof" {
			return false, errSyntax
		}
	case "accessor":
		if parent == "public_field_definition" {
			e.noteNotErasable("an accessor field", e.start(i))
		}
	case "decorator":
		e.noteNotErasable("a decorator", e.start(i))
	case "enum_declaration":
		e.noteNotErasable("an enum", e.start(i))
	case "internal_module", "module":
		if e.nodes[i].named {
			e.noteNotErasable("a namespace", e.start(i))
		}
	case "import_alias", "import_require_clause":
		e.noteNotErasable("an import assignment", e.start(i))
	case "export_statement":
		if c := e.child(i, "=", "namespace"); c != none {
			e.noteNotErasable("an export assignment", e.start(i))
		}
	}
	return false, nil
}

// withComma returns the end of a parameter or specifier and its comma.
func (e *eraser) withComma(i int) int {
	for n := e.next(i); n != none; n = e.next(n) {
		switch e.kind(n) {
		case "comment":
		case ",":
			return e.end(n)
		default:
			return e.end(i)
		}
	}
	return e.end(i)
}

// closeParameters moves the closing parenthesis of an arrow function's parameters to the end of
// the type after them, if a line ends in between: no line may end before an arrow.
func (e *eraser) closeParameters(annotation int) {
	parameters := e.child(e.parent(annotation), "formal_parameters")
	if parameters == none {
		return
	}
	closing := e.end(parameters) - 1
	if !e.breaksLine(closing, e.end(annotation)) {
		return
	}
	for at := e.end(annotation) - 1; at > closing && !startsLineEnd(e.source[at:]); at-- {
		if e.source[at] < utf8.RuneSelf {
			e.out[closing], e.out[at] = ' ', ')'
			return
		}
	}
	e.noteNotErasable("a type before an arrow", e.start(annotation))
}

// canEraseAssertion reports whether "<T>x" can be replaced by x. It reports false, and notes the
// construct, where x alone has another meaning.
func (e *eraser) canEraseAssertion(i int) (safe bool, err error) {
	types := e.child(i, "type_arguments")
	if types == none || e.breaksLine(e.start(types), e.end(types)) {
		e.noteNotErasable("a type assertion over several lines", e.start(i))
		return false, nil
	}
	operand := e.next(types)
	for operand != none && e.kind(operand) == "comment" {
		operand = e.next(operand)
	}
	if operand == none {
		return false, errSyntax
	}
	if e.breaksLine(e.end(types), e.start(operand)) {
		e.noteNotErasable("a type assertion over several lines", e.start(i))
		return false, nil
	}
	switch leading := e.leading(operand); leading {
	case "{", "function", "class", "async", "let", "[":
	default:
		return true, nil
	}
	for n := i; ; n = e.parent(n) {
		p := e.parent(n)
		if p == none {
			return true, nil
		}
		if e.start(p) == e.start(i) && e.kind(p) != "expression_statement" {
			continue
		}
		switch e.kind(p) {
		case "expression_statement", "arrow_function", "export_statement":
			e.noteNotErasable("a type assertion at the start of a statement", e.start(i))
			return false, nil
		}
		return true, nil
	}
}

// leading returns the kind of the first token of node i.
func (e *eraser) leading(i int) string {
	for c := i; c != none; c = e.first(i) {
		i = c
	}
	return e.kind(i)
}

// insertSemicolons writes a semicolon in each gap after which the source would continue the
// statement before the gap.
func (e *eraser) insertSemicolons() {
	for _, g := range e.gaps {
		if g.always {
			e.out[g.at] = ';'
			continue
		}
		next, broken := e.nextTokenAt(g.resume)
		if g.needsLineEnd && !broken {
			continue
		}
		rest := e.out[next:]
		for i := range len(g.before) {
			if len(rest) > 0 && rest[0] == g.before[i] && (rest[0] != 'i' || startsWithIn(rest)) {
				e.out[g.at] = ';'
			}
		}
	}
}

// startsWithIn reports whether b starts with the name "in" or "instanceof", which as an operator
// would continue an expression.
func startsWithIn(b []byte) bool {
	for _, word := range []string{"in", "instanceof"} {
		if len(b) > len(word) && string(b[:len(word)]) == word && !isWordByte(b[len(word)]) {
			return true
		}
	}
	return false
}

// nextTokenAt returns the offset of the next token at or after an offset, and whether a line ends
// before it.
func (e *eraser) nextTokenAt(from int) (at int, broken bool) {
	for i := from; i < len(e.out); {
		r, n := utf8.DecodeRune(e.out[i:])
		rest := e.out[i:]
		switch {
		case len(rest) > 1 && rest[0] == '/' && rest[1] == '/':
			for i < len(e.out) && !startsLineEnd(e.out[i:]) {
				i++
			}
			continue
		case len(rest) > 1 && rest[0] == '/' && rest[1] == '*':
			end := indexFrom(e.out, i+2, "*/")
			broken = broken || hasLineEnd(e.out[i:end])
			i = end
			continue
		case startsLineEnd(rest):
			broken = true
		case r == ' ' || r == '\t' || r == '\v' || r == '\f' || r == '\u00a0' || r == '\ufeff' || r >= '\u2000' && r <= '\u200a' || r == '\u202f' || r == '\u205f' || r == '\u3000' || r == '\u1680':
		default:
			return i, broken
		}
		i += n
	}
	return len(e.out), broken
}

// indexFrom returns the offset after the next occurrence of s, or the length of b.
func indexFrom(b []byte, from int, s string) int {
	for i := from; i+len(s) <= len(b); i++ {
		if string(b[i:i+len(s)]) == s {
			return i + len(s)
		}
	}
	return len(b)
}
