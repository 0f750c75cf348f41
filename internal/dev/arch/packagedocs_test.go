package arch_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unlistedFiles are the packages whose comment does not list their files yet.
var unlistedFiles = []string{"httpapi", "mcp"}

var goFileName = regexp.MustCompile(`(?:^|[\s(])([a-z0-9_]+\.go)\b`)

// The comment of each package lists the other Go files of the package by name, except
// for tests, and names no file that the package does not have. The comment is in doc.go,
// or in the main file of a package with few files.
func TestPackageCommentsListFiles(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	files := map[string]map[string]bool{} // by package; true for the file with the comment
	comments := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(filepath.ToSlash(dir), ".")
		if files[pkg] == nil {
			files[pkg] = map[string]bool{}
		}
		if strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		files[pkg][d.Name()] = file.Doc != nil
		comments[pkg] += file.Doc.Text()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d packages were read", len(files))
	}
	for _, pkg := range slices.Sorted(maps.Keys(files)) {
		if slices.Contains(unlistedFiles, pkg) {
			continue
		}
		listed := map[string]bool{}
		for _, m := range goFileName.FindAllStringSubmatch(comments[pkg], -1) {
			listed[m[1]] = true
		}
		for _, name := range slices.Sorted(maps.Keys(files[pkg])) {
			if hasComment := files[pkg][name]; !hasComment && !listed[name] {
				t.Errorf("package %q: its comment does not list %s", pkg, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(listed)) {
			if _, ok := files[pkg][name]; !ok && !strings.HasSuffix(name, "_test.go") {
				t.Errorf("package %q: its comment lists %s, which does not exist", pkg, name)
			}
		}
	}
}
