package typescript

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	sitter "github.com/tree-sitter/go-tree-sitter"
	grammar "github.com/tree-sitter/tree-sitter-typescript/bindings/go"
)

// maxDepth is the maximum nesting of a source. It is limited because esbuild's parser is
// recursive.
const maxDepth = 50_000

var (
	// errSyntax is returned when the parser finds no TypeScript program in a
	// source.
	errSyntax = errors.New("not a TypeScript program")
	// errTooDeep is returned when a source is nested more than 50,000 levels
	// deep.
	errTooDeep = errors.New("the source is nested too deeply")
	// errNotText is returned when a source is not UTF-8 or contains a NUL byte.
	errNotText = errors.New("the source is not valid UTF-8 without NUL bytes")
)

// language is the grammar with the name of each kind of node by the number of the kind.
type language struct {
	grammar *sitter.Language
	kinds   []string
}

var typescript = sync.OnceValue(func() language {
	l := language{grammar: sitter.NewLanguage(grammar.LanguageTypescript())}
	for id := range l.grammar.NodeKindCount() {
		l.kinds = append(l.kinds, l.grammar.NodeKindForId(uint16(id)))
	}
	l.kinds = append(l.kinds, "ERROR")
	return l
})

// none is returned instead of the index of a node or an offset if there is none.
const none = -1

// node is a node of a syntax tree. Nodes are stored in preorder: the
// descendants of node i are the nodes from i+1 up to, not including, its last.
type node struct {
	kind       uint16
	named      bool
	broken     bool // the node contains an error
	parent     int32
	last       int32
	start, end uint32 // offsets in bytes
}

// tree is the syntax tree of a source without errors.
type tree struct {
	source []byte
	nodes  []node
	kinds  []string
	using  []int // offsets of the keyword of each using declaration
	breaks []int // offsets of white space where a statement ends, see missedBreaks
	only   int   // the only statement to mark, or 0
}

// parse returns the syntax tree of a source, or errSyntax if it has errors.
func parse(source []byte) (*tree, error) {
	if !isText(source) {
		return nil, errNotText
	}
	readable := joinNames(source)
	t, _, err := parseAsWritten(readable)
	if candidates := usingCandidates(source); len(candidates) > 0 && (err == nil || errors.Is(err, errSyntax)) {
		// The grammar has no using declarations. They have the form of constant
		// declarations, and "const" is as long as "using".
		replaced := replaceUsing(readable, candidates)
		c, _, cErr := parseAsWritten(replaced)
		if errors.Is(cErr, errSyntax) && err != nil {
			c, cErr = repair(replaced)
		}
		if cErr == nil {
			if c.using = c.constantsAt(candidates); len(c.using) > 0 || err != nil {
				t, err = c, nil
			}
		}
	}
	if errors.Is(err, errSyntax) {
		t, err = repair(readable)
	}
	if err != nil {
		return nil, err
	}
	if t, err = t.endStatements(); err != nil {
		return nil, err
	}
	t.source = source
	return t, nil
}

func isText(source []byte) bool {
	if !utf8.Valid(source) {
		return false
	}
	for _, b := range source {
		if b == 0 {
			return false
		}
	}
	return true
}

// parseAsWritten parses a source. With errSyntax it returns the offset of the
// first error, or none.
func parseAsWritten(source []byte) (t *tree, failedAt int, err error) {
	l := typescript()
	p := sitter.NewParser()
	defer p.Close()
	if err := p.SetLanguage(l.grammar); err != nil {
		return nil, none, fmt.Errorf("load the grammar: %w", err)
	}
	parsed := p.Parse(source, nil)
	if parsed == nil {
		return nil, none, errSyntax
	}
	defer parsed.Close()
	root := parsed.RootNode()
	if root.HasError() {
		return nil, firstError(root), errSyntax
	}
	t, err = flatten(source, root, l.kinds)
	return t, none, err
}

// parseLoosely returns the tree of a source that may have errors. They are nodes of kind
// "ERROR".
func parseLoosely(source []byte) (*tree, error) {
	if !isText(source) {
		return nil, errNotText
	}
	l := typescript()
	p := sitter.NewParser()
	defer p.Close()
	if err := p.SetLanguage(l.grammar); err != nil {
		return nil, fmt.Errorf("load the grammar: %w", err)
	}
	parsed := p.Parse(source, nil)
	if parsed == nil {
		return nil, errSyntax
	}
	defer parsed.Close()
	return flatten(source, parsed.RootNode(), l.kinds)
}

// firstError returns the offset of the first error in a parsed tree.
func firstError(root *sitter.Node) int {
	c := root.Walk()
	defer c.Close()
	var at int
	for {
		n := c.Node()
		if n.IsError() || n.IsMissing() {
			return int(n.StartByte())
		}
		at = int(n.StartByte())
		found := false
		for ok := c.GotoFirstChild(); ok; ok = c.GotoNextSibling() {
			if c.Node().HasError() {
				found = true
				break
			}
		}
		if !found {
			return at
		}
	}
}

// flatten returns a copy of a parsed tree. It returns errTooDeep if the tree is nested too
// deeply.
func flatten(source []byte, root *sitter.Node, kinds []string) (*tree, error) {
	t := &tree{source: source, kinds: kinds, nodes: make([]node, 0, root.DescendantCount())}
	c := root.Walk()
	defer c.Close()
	var open []int32 // the path to the cursor
	for {
		n := c.Node()
		parent := int32(none)
		if len(open) > 0 {
			parent = open[len(open)-1]
		}
		start, end := n.ByteRange()
		t.nodes = append(t.nodes, node{kind: n.KindId(), named: n.IsNamed(), broken: n.HasError(), parent: parent, start: uint32(start), end: uint32(end)})
		// The parts of a string are not needed, and there can be millions of them.
		if kinds[min(int(n.KindId()), len(kinds)-1)] != "string" && c.GotoFirstChild() {
			if len(open) > maxDepth {
				return nil, errTooDeep
			}
			open = append(open, int32(len(t.nodes)-1))
			continue
		}
		t.nodes[len(t.nodes)-1].last = int32(len(t.nodes))
		for !c.GotoNextSibling() {
			if !c.GotoParent() {
				return t, nil
			}
			t.nodes[open[len(open)-1]].last = int32(len(t.nodes))
			open = open[:len(open)-1]
		}
	}
}

// kind returns the name of the kind of node i, "" for no node.
func (t *tree) kind(i int) string {
	if i == none {
		return ""
	}
	return t.kinds[min(int(t.nodes[i].kind), len(t.kinds)-1)] // errors have the highest number of the type
}

func (t *tree) parent(i int) int        { return int(t.nodes[i].parent) }
func (t *tree) start(i int) int         { return int(t.nodes[i].start) }
func (t *tree) end(i int) int           { return int(t.nodes[i].end) }
func (t *tree) last(i int) int          { return int(t.nodes[i].last) }
func (t *tree) text(i int) string       { return string(t.source[t.start(i):t.end(i)]) }
func (t *tree) parentKind(i int) string { return t.kind(t.parent(i)) }

// next returns the next sibling of node i, or none.
func (t *tree) next(i int) int {
	p := t.parent(i)
	if p == none || t.last(i) >= t.last(p) {
		return none
	}
	return t.last(i)
}

// first returns the first child of node i, or none.
func (t *tree) first(i int) int {
	if i+1 >= t.last(i) {
		return none
	}
	return i + 1
}

// child returns the first child of node i of one of the kinds, or none.
func (t *tree) child(i int, kinds ...string) int {
	for c := t.first(i); c != none; c = t.next(c) {
		k := t.kind(c)
		for _, want := range kinds {
			if k == want {
				return c
			}
		}
	}
	return none
}

// expression returns the first child of node i that is neither a comment nor punctuation, or
// none.
func (t *tree) expression(i int) int {
	for c := t.first(i); c != none; c = t.next(c) {
		if t.nodes[c].named && t.kind(c) != "comment" {
			return c
		}
	}
	return none
}
