package eventdoc

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"daybook/events"
)

// source holds the doc comments and constants of package events.
type source struct {
	types map[string]*typeSource
}

type typeSource struct {
	doc    string
	fields map[string]string // doc comment by field
	// values are the constants of the type, in order.
	values []string
}

func readSource(dir string) (*source, error) {
	s := &source{types: map[string]*typeSource{}}
	fset := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("find the source of package events in %s: %w", dir, fs.ErrNotExist)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				s.addDecl(g)
			}
		}
	}
	return s, nil
}

func (s *source) typeNamed(name string) *typeSource {
	if s.types[name] == nil {
		s.types[name] = &typeSource{fields: map[string]string{}}
	}
	return s.types[name]
}

func (s *source) addDecl(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			t := s.typeNamed(spec.Name.Name)
			t.doc = textOf(spec.Doc, g.Doc)
			if body, ok := spec.Type.(*ast.StructType); ok {
				t.describe(body)
			}
		case *ast.ValueSpec:
			typ, ok := spec.Type.(*ast.Ident)
			if g.Tok != token.CONST || !ok || len(spec.Values) != 1 {
				continue
			}
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			if v, err := strconv.Unquote(lit.Value); err == nil {
				t := s.typeNamed(typ.Name)
				t.values = append(t.values, v)
			}
		}
	}
}

// describe collects the comments of fields. A comment also describes the following
// fields that it names and that have no comment.
func (t *typeSource) describe(body *ast.StructType) {
	last := ""
	for _, f := range body.Fields.List {
		doc := textOf(f.Doc, nil)
		for _, name := range f.Names {
			switch {
			case doc != "":
				last = doc
			case !mentions(last, name.Name):
				last = ""
			}
			t.fields[name.Name] = last
		}
	}
}

func mentions(doc, field string) bool {
	return doc != "" && regexp.MustCompile(`\b`+regexp.QuoteMeta(field)+`\b`).MatchString(doc)
}

func textOf(own, group *ast.CommentGroup) string {
	if own != nil {
		return own.Text()
	}
	return group.Text()
}

// constants replaces the constants that comments name by their values.
var constants = strings.NewReplacer(
	"PreviewBytes", fmt.Sprintf("%d bytes", events.PreviewBytes),
	"InlineBytes", fmt.Sprintf("%d KiB", events.InlineBytes>>10),
	"MaxEventBytes", fmt.Sprintf("%d KiB", events.MaxEventBytes>>10),
	"LevelLog", "`"+string(events.LevelLog)+"`",
	"EditRun", "`"+string(events.EditRun)+"`",
)

// paragraphs splits a comment into paragraphs, with the names of members for fields.
func paragraphs(doc string, members map[string]string) []string {
	var list []string
	for p := range strings.SplitSeq(strings.TrimSpace(doc), "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			list = append(list, wireTerms(p, members))
		}
	}
	return list
}

var word = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*\b`)

// wireTerms replaces the names of fields by those of members, and constants by values.
func wireTerms(text string, members map[string]string) string {
	text = word.ReplaceAllStringFunc(text, func(w string) string {
		if name, ok := members[w]; ok {
			return "`" + name + "`"
		}
		return w
	})
	return constants.Replace(text)
}

// readFile reads a fixture.
func readFile(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the example: %w", err)
	}
	return raw, nil
}
