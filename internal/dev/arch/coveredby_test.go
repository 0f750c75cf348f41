package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	testName    = regexp.MustCompile(`\bTest\w+`)
	packagePath = regexp.MustCompile(`\binternal/[a-z0-9/]*[a-z0-9]`)
)

// A test that the normal tier skips names the tests that cover its behavior there. Those
// tests and their packages exist.
func TestCoveringTestsExist(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	declared := map[string]bool{}
	reasons := map[string][]string{} // by file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				declared[n.Name.Name] = true
			case *ast.CallExpr:
				if reason, ok := skipReason(n); ok {
					reasons[path] = append(reasons[path], reason)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(reasons) < 20 {
		t.Fatalf("only %d files with reasons were found", len(reasons))
	}
	for path, list := range reasons {
		for _, reason := range list {
			for _, name := range testName.FindAllString(reason, -1) {
				if !declared[name] {
					t.Errorf("%s: no test is called %s: %q", path, name, reason)
				}
			}
			for _, pkg := range packagePath.FindAllString(reason, -1) {
				if _, err := os.Stat(filepath.Join(root, pkg)); err != nil {
					t.Errorf("%s: %v: %q", path, err, reason)
				}
			}
		}
	}
}

// skipReason returns the reason in a call of tier.NightlyOnly, or of the function attack of
// internal/dev/attack.
func skipReason(call *ast.CallExpr) (string, bool) {
	name := ""
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	if name != "NightlyOnly" && name != "attack" || len(call.Args) != 2 {
		return "", false
	}
	literal, ok := call.Args[1].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	reason, err := strconv.Unquote(literal.Value)
	return reason, err == nil
}
