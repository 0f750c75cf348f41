package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var makefilePath = regexp.MustCompile(`(?:\./|\b)((?:internal|docs)/[a-z0-9_/.-]*[a-z0-9_]|(?:acp|audit|events|httpapi|ledger|mcp|projections|runner)\b)`)

// The packages and files that the Makefile names exist. A wrong path in a list of packages
// would select none and pass.
func TestMakefileNamesFiles(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	raw, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	named := makefilePath.FindAllSubmatch(raw, -1)
	if len(named) < 15 {
		t.Fatalf("the Makefile names only %d paths", len(named))
	}
	for _, m := range named {
		if _, err := os.Stat(filepath.Join(root, string(m[1]))); err != nil {
			t.Errorf("Makefile: %v", err)
		}
	}
}

// Each target with a description is in the list of those that are no files. A file with its name would stop it.
func TestTargetsArePhony(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("../../..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "\n.PHONY:")
	line, _, _ := strings.Cut(rest, "\n")
	phony := strings.Fields(line)
	targets := regexp.MustCompile(`(?m)^([a-z-]+):.*## `).FindAllStringSubmatch(string(raw), -1)
	if len(targets) < 15 {
		t.Fatalf("only %d targets were found", len(targets))
	}
	for _, target := range targets {
		if !slices.Contains(phony, target[1]) {
			t.Errorf("the target %s is not in .PHONY", target[1])
		}
	}
}

// The nightly tier selects the tests of each file that uses a variable whose value depends on the tier, also if
// another file of the package declares it.
func TestNightlySelectsUsesOfTheTier(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	raw, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^NIGHTLY = .*--include='\*_test\.go' '([^']+)'`).FindSubmatch(raw)
	if m == nil {
		t.Fatal("the Makefile has no pattern for the files of the nightly tier")
	}
	selected := regexp.MustCompile(string(m[1]))
	type testFile struct {
		path string
		text []byte
		tree *ast.File
	}
	packages := map[string][]testFile{} // by directory and name
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go") || strings.Contains(path, "internal/dev/attack/"): // all of these run
			return nil
		}
		f := testFile{path: path}
		if f.text, err = os.ReadFile(path); err != nil {
			return err
		}
		f.tree, err = parser.ParseFile(token.NewFileSet(), path, f.text, parser.SkipObjectResolution)
		if err == nil {
			of := filepath.Dir(path) + " " + f.tree.Name.Name
			packages[of] = append(packages[of], f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	declared, unselected := 0, map[string]bool{}
	for _, files := range packages {
		names := map[string]bool{}
		for _, f := range files {
			for _, name := range variablesOfTier(f.tree) {
				names[name] = true
				declared++
			}
		}
		for _, f := range files {
			if selected.Match(f.text) {
				continue
			}
			ast.Inspect(f.tree, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && names[id.Name] && !unselected[f.path+id.Name] {
					unselected[f.path+id.Name] = true
					t.Errorf("%s uses %s, whose value depends on the tier, and \"make nightly\" does not select its tests", f.path, id.Name)
				}
				return true
			})
		}
	}
	if declared < 8 {
		t.Fatalf("only %d variables that depend on the tier were found", declared)
	}
}

// variablesOfTier returns the names of the variables of a package whose values call functions of package tier.
func variablesOfTier(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, s := range group.Specs {
			spec := s.(*ast.ValueSpec)
			dependsOnTier := false
			for _, value := range spec.Values {
				ast.Inspect(value, func(n ast.Node) bool {
					of, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					pkg, ok := of.X.(*ast.Ident)
					dependsOnTier = dependsOnTier || ok && pkg.Name == "tier"
					return true
				})
			}
			for _, name := range spec.Names {
				if dependsOnTier {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
