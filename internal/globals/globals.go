// Package globals has the description of the globals that scripts added to a heap, its strict
// decoder, and the comparison of two heaps by it. A worker writes the description without
// running code of the scripts (internal/exec/v8). globals.go is the only file.
package globals

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// MaxListed is the maximum number of globals in a List.
const MaxListed = 1000

// MaxSkip is the maximum number of globals before the first one of a List.
const MaxSkip = 1_000_000_000

// maxText is the maximum size of a List as JSON, in bytes.
const maxText = 16 << 20

// Limits of the members of a Global, in bytes.
const (
	maxName    = 1100
	maxClass   = 128
	maxPreview = 1 << 10
)

// Kinds of globals.
const (
	Lexical  = "lexical"
	Property = "property"
	Accessor = "accessor"
)

// Global describes a global that scripts added to a heap.
type Global struct {
	Name    string `json:"name" doc:"Name of the global; Symbol(x) for a symbol. Names longer than 1 KiB are cut."`
	Kind    string `json:"kind" enum:"lexical,property,accessor" doc:"lexical for let, const and class; property for var, function and assignments to globalThis; accessor for a property with a getter or setter, which is not called."`
	Type    string `json:"type,omitempty" doc:"typeof of the value, null for null, and uninitialized for a binding whose declaration failed. Absent for an accessor."`
	Class   string `json:"class,omitempty" doc:"Name of the constructor of an object, for example Map, or Proxy."`
	Size    *int64 `json:"size,omitempty" doc:"Number of elements or entries of an array, Map or Set, of own properties of another object, of bytes of an ArrayBuffer or view, of UTF-16 units of a string. Absent for other values."`
	Preview string `json:"preview" doc:"The value as util.inspect prints it, at most 1 KiB. An ellipsis marks a cut. Getters, proxies, conversions and custom inspections are not run."`
	SHA256  string `json:"sha256" doc:"SHA-256 of a longer text of the value, with the source of functions, in hex. Equal values have equal hashes."`
	// Partial is not an error: deep and large values have no end of text.
	Partial bool `json:"partial,omitempty" doc:"True if that text leaves out a part of the value: levels beyond the eighth, or text beyond 256 Ki characters."`
}

// List lists the globals of a heap.
type List struct {
	Globals []Global `json:"globals" doc:"Globals that scripts added, in the order of their names: at most 1,000."`
	More    int      `json:"more,omitempty" doc:"Number of globals that follow those listed."`
}

// Decode decodes a List that a worker sent. A script may control its worker, so that any text
// is possible: Decode returns an error for what the description of a heap cannot be.
func Decode(text []byte) (List, error) {
	if len(text) > maxText {
		return List{}, fmt.Errorf("globals of %d bytes: at most %d are allowed", len(text), maxText)
	}
	var raw struct {
		Globals boundedList `json:"globals"`
		More    int         `json:"more"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&raw); err != nil {
		return List{}, fmt.Errorf("decode globals: %w", err)
	}
	l := List{Globals: raw.Globals, More: raw.More}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return List{}, errors.New("decode globals: they are followed by more")
	}
	if err := l.check(); err != nil {
		return List{}, fmt.Errorf("decode globals: %w", err)
	}
	if l.Globals == nil {
		l.Globals = []Global{}
	}
	return l, nil
}

// boundedList has at most MaxListed globals. A decoded global takes 40 times the bytes of the shortest text of
// one, so the limit applies while they are decoded.
type boundedList []Global

// UnmarshalJSON implements json.Unmarshaler.
func (l *boundedList) UnmarshalJSON(text []byte) error {
	*l = nil
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	switch t, err := d.Token(); {
	case err != nil:
		return err
	case t == nil: // null
		return nil
	case t != json.Delim('['):
		return errors.New("they are not an array")
	}
	for d.More() {
		if len(*l) == MaxListed {
			return fmt.Errorf("more than %d are listed", MaxListed)
		}
		var g Global
		if err := d.Decode(&g); err != nil {
			return err
		}
		*l = append(*l, g)
	}
	return nil
}

func (l List) check() error {
	if l.More < 0 || l.More > 0 && len(l.Globals) == 0 {
		return fmt.Errorf("%d are listed and %d are not", len(l.Globals), l.More)
	}
	for i, g := range l.Globals {
		if err := g.check(); err != nil {
			return fmt.Errorf("global %d: %w", i, err)
		}
		if i > 0 && g.Name < l.Globals[i-1].Name {
			return fmt.Errorf("global %d is out of order", i)
		}
	}
	return nil
}

func (g Global) check() error {
	hash, err := hex.DecodeString(g.SHA256)
	switch {
	case len(g.Name) > maxName || len(g.Class) > maxClass || len(g.Preview) > maxPreview:
		return errors.New("a text is too long")
	case !utf8.ValidString(g.Name) || !utf8.ValidString(g.Class) || !utf8.ValidString(g.Preview):
		return errors.New("a text is not UTF-8")
	case err != nil || len(hash) != 32 || strings.ToLower(g.SHA256) != g.SHA256:
		return errors.New("a malformed hash")
	case g.Size != nil && (*g.Size < 0 || *g.Size > 1<<53):
		return fmt.Errorf("a size of %d", *g.Size)
	case !isKind(g.Kind):
		return fmt.Errorf("the unknown kind %.40q", g.Kind)
	case !isType(g.Type) || (g.Kind == Accessor) != (g.Type == ""):
		return fmt.Errorf("the unknown type %.40q", g.Type)
	}
	return nil
}

func isKind(kind string) bool { return kind == Lexical || kind == Property || kind == Accessor }

func isType(text string) bool {
	switch text {
	case "", "undefined", "null", "boolean", "number", "bigint", "string", "symbol", "object", "function", "uninitialized":
		return true
	}
	return false
}

// Change is a global that is not equal in two heaps. A or B is nil if that heap lacks it.
type Change struct{ A, B *Global }

// Name returns the name of the global.
func (c Change) Name() string {
	if c.A != nil {
		return c.A.Name
	}
	return c.B.Name
}

// Diff is the result of Compare.
type Diff struct {
	// Changes are the globals that differ, in the order of their names.
	Changes []Change
	// Uncompared is the number of globals of either heap that were not compared, because a
	// list does not have them.
	Uncompared int
	// Partial is the number of globals that are equal in the part that was compared.
	Partial int
}

// Compare compares the globals of two heaps. A global that is a property in one and lexical in
// the other is two changes.
func Compare(a, b List) Diff {
	d := Diff{Uncompared: a.More + b.More}
	// A list that is cut does not show whether the heap has a later name.
	end := func(l List) (string, bool) {
		if l.More == 0 || len(l.Globals) == 0 {
			return "", l.More > 0
		}
		return l.Globals[len(l.Globals)-1].Name, true
	}
	cut := func(l []Global, at string, isCut bool) []Global {
		n := len(l)
		for isCut && n > 0 && l[n-1].Name >= at {
			n--
		}
		d.Uncompared += len(l) - n
		return l[:n]
	}
	endA, cutA := end(a)
	endB, cutB := end(b)
	if cutB && (!cutA || endB < endA) {
		endA, cutA = endB, true
	}
	x, y := cut(a.Globals, endA, cutA), cut(b.Globals, endA, cutA)
	for len(x) > 0 || len(y) > 0 {
		var order int
		switch {
		case len(x) == 0:
			order = 1
		case len(y) == 0:
			order = -1
		default:
			order = strings.Compare(x[0].Name, y[0].Name)
			if order == 0 {
				order = strings.Compare(group(x[0].Kind), group(y[0].Kind))
			}
		}
		switch {
		case order < 0:
			d.Changes = append(d.Changes, Change{A: &x[0]})
			x = x[1:]
		case order > 0:
			d.Changes = append(d.Changes, Change{B: &y[0]})
			y = y[1:]
		default:
			if x[0].SHA256 != y[0].SHA256 || x[0].Kind != y[0].Kind || x[0].Type != y[0].Type || x[0].Class != y[0].Class || !equalSize(x[0].Size, y[0].Size) {
				d.Changes = append(d.Changes, Change{A: &x[0], B: &y[0]})
			} else if x[0].Partial || y[0].Partial {
				d.Partial++
			}
			x, y = x[1:], y[1:]
		}
	}
	return d
}

// group returns the order of globals with the same name: properties come first.
func group(kind string) string {
	if kind == Lexical {
		return "b"
	}
	return "a"
}

func equalSize(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
