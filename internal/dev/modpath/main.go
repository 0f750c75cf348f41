// Modpath changes the path of the module before it is published: in go.mod, in every
// import, and in the linter's configuration and the guides that name a package.
//
//	make module-path PATH=example.org/you/daybook
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: make module-path PATH=example.org/you/daybook")
		os.Exit(2)
	}
	changed, err := rewrite(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "module-path:", err)
		os.Exit(1)
	}
	fmt.Printf("the module is %s now; %d files changed\n", os.Args[1], len(changed))
}

// rewrite changes the path of the module in the directory root and returns the files
// that changed, relative to root. It computes every change before it writes the first
// file. It can be called again with another path.
func rewrite(root, to string) ([]string, error) {
	if err := module.CheckImportPath(to); err != nil {
		return nil, fmt.Errorf("module path %q: %w; give one like example.org/you/daybook", to, err)
	}
	from, goMod, err := rewriteGoMod(filepath.Join(root, "go.mod"), to)
	if err != nil {
		return nil, err
	}
	if from == to {
		return nil, nil
	}
	changes := map[string][]byte{"go.mod": goMod}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, path, d.Name())
		}
		edit := editorOf(path)
		if edit == nil || !d.Type().IsRegular() {
			return nil
		}
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after, err := edit(path, before, from, to)
		if err != nil || bytes.Equal(before, after) {
			return err
		}
		name, err := filepath.Rel(root, path)
		changes[name] = after
		return err
	})
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(changes))
	for name, content := range changes {
		if err := replaceFile(filepath.Join(root, name), content); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// skipDir returns fs.SkipDir for a directory that is not part of the module.
func skipDir(root, path, name string) error {
	if path == root {
		return nil
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	if err == nil || name == ".git" || name == "node_modules" || name == "bin" {
		return filepath.SkipDir
	}
	return nil
}

// editorOf returns the function that edits a file of this kind, or nil for a file that
// names no package.
func editorOf(path string) func(path string, content []byte, from, to string) ([]byte, error) {
	switch name := filepath.Base(path); {
	case filepath.Ext(name) == ".go":
		return rewriteImports
	case filepath.Ext(name) == ".md":
		return rewriteMarkdown
	case name == ".golangci.yml":
		return rewriteLinterConfig
	default:
		return nil
	}
}

func rewriteGoMod(path, to string) (from string, content []byte, err error) {
	before, err := os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("read go.mod: %w; run this in the root of the module", err)
	}
	file, err := modfile.Parse("go.mod", before, nil)
	if err != nil {
		return "", nil, fmt.Errorf("read go.mod: %w", err)
	}
	if file.Module == nil {
		return "", nil, errors.New("read go.mod: it has no module line")
	}
	from = file.Module.Mod.Path
	if err := file.AddModuleStmt(to); err != nil {
		return "", nil, fmt.Errorf("change go.mod: %w", err)
	}
	content, err = file.Format()
	return from, content, err
}

// rewriteImports changes only the imports of the module's packages: other strings that
// start with the path are names of the product.
func rewriteImports(path string, content []byte, from, to string) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, content, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	out, end := []byte(nil), 0
	for _, spec := range file.Imports {
		old, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", path, err)
		}
		changed, ok := newImportPath(old, from, to)
		if !ok {
			continue
		}
		at := set.Position(spec.Path.Pos()).Offset
		out = append(out, content[end:at]...)
		out = append(out, strconv.Quote(changed)...)
		end = at + len(spec.Path.Value)
	}
	if end == 0 {
		return content, nil
	}
	// Sort the imports: the new path may change their order.
	formatted, err := format.Source(append(out, content[end:]...))
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", path, err)
	}
	return formatted, nil
}

// newImportPath returns the new path of a package, and false for one of another module.
func newImportPath(path, from, to string) (string, bool) {
	rest, ok := strings.CutPrefix(path, from)
	return to + rest, ok && (rest == "" || rest[0] == '/')
}

// rewriteMarkdown changes the Go code in the guides: import lines, and the require and
// replace lines of another module's go.mod.
func rewriteMarkdown(_ string, content []byte, from, to string) ([]byte, error) {
	old := regexp.QuoteMeta(from)
	for _, form := range []string{
		`(?m)^((?:import )?\s*(?:\w+ )?")` + old + `((?:/[\w/]+)?"$)`,
		"(path of the module is `)" + old + "(`)",
		`(-require=)` + old + `(@)`,
		`(-replace=)` + old + `(=)`,
		`(?m)^((?:require|replace) )` + old + `( )`,
	} {
		content = regexp.MustCompile(form).ReplaceAll(content, []byte("${1}"+to+"${2}"))
	}
	return content, nil
}

func rewriteLinterConfig(_ string, content []byte, from, to string) ([]byte, error) {
	return bytes.ReplaceAll(content, []byte("(*"+from+"/"), []byte("(*"+to+"/")), nil
}

// replaceFile replaces the content of a file and keeps its mode.
func replaceFile(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	next := path + ".new"
	if err := os.WriteFile(next, content, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Rename(next, path)
}
