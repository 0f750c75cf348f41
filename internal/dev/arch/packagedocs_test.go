package arch_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var goFileName = regexp.MustCompile(`(?:^|[\s(])([a-z0-9_]+\*?\.go)\b`)

// The comment of each package lists the other Go files of the package by name or pattern,
// except for tests, and names no file that the package does not have. The comment is in doc.go,
// or in the main file of a package with few files.
func TestPackageCommentsListFiles(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	files := map[string]map[string]bool{} // by package; true for the file with the comment
	comments := map[string]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && file != root):
			return filepath.SkipDir
		case filepath.Ext(file) != ".go":
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(filepath.ToSlash(dir), ".")
		if files[pkg] == nil {
			files[pkg] = map[string]bool{}
		}
		if strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		files[pkg][d.Name()] = parsed.Doc != nil
		comments[pkg] += parsed.Doc.Text()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d packages were read", len(files))
	}
	for _, pkg := range slices.Sorted(maps.Keys(files)) {
		patterns := goFileName.FindAllStringSubmatch(comments[pkg], -1)
		for _, name := range slices.Sorted(maps.Keys(files[pkg])) {
			isListed := slices.ContainsFunc(patterns, func(m []string) bool { return isMatch(m[1], name) })
			if hasComment := files[pkg][name]; !hasComment && !isListed {
				t.Errorf("package %q: its comment does not list %s", pkg, name)
			}
		}
		for _, m := range patterns {
			if !strings.HasSuffix(m[1], "_test.go") && !slices.ContainsFunc(slices.Collect(maps.Keys(files[pkg])), func(name string) bool { return isMatch(m[1], name) }) {
				t.Errorf("package %q: its comment lists %s, which does not exist", pkg, m[1])
			}
		}
	}
}

// isMatch reports whether a file name matches a pattern such as options_*.go.
func isMatch(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
