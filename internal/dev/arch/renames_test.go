package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// plainRenames holds the files that rename without internal/durable, each with the reason
// why a power cut does no harm there.
var plainRenames = map[string]string{
	"internal/durable/durable.go":           "the package itself syncs around the rename",
	"projections/rebuild.go":                "projections are built again",
	"embed/recovery.go":                     "it renames synced directories, then syncs their parent",
	"internal/store/streamfiles/salvage.go": "the caller syncs the directory or deletes it",
	"internal/translog/checkpoints.go":      "it syncs the directory after the rename",
	"internal/translog/origin.go":           "it syncs the directory after the rename",
	"internal/translog/signers.go":          "it syncs the directory after the rename",
	"internal/cli/background/log.go":        "it rotates a log",
	"internal/dev/modpath/main.go":          "it rewrites a source tree",
	"internal/cli/artifacts.go":             "it writes copies of what the server keeps",
}

// TestRenamesAreDurable keeps renames without syncs out of new code. Only a power cut
// would show them.
func TestRenamesAreDurable(t *testing.T) {
	const root = "../../.."
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "Rename" {
				return true
			}
			if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "os" {
				found[name] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range found {
		if plainRenames[name] == "" {
			t.Errorf("%s calls os.Rename: use internal/durable, or add the reason why a power cut does no harm to plainRenames", name)
		}
	}
	for name := range plainRenames {
		if !found[name] {
			t.Errorf("%s no longer calls os.Rename: remove it from plainRenames", name)
		}
	}
}
