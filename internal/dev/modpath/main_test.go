package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"daybook/internal/dev/tier"
)

const published = "example.org/you/daybook"

// TestModulePath changes the path of a copy of the tree with make and loads every
// package. The nightly tier also vets every package and builds the command.
func TestModulePath(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	dir := copyTree(t)
	from := pathOf(t, dir)
	if out := command(t, dir, "make", "--no-print-directory", "module-path", "PATH="+published); !strings.Contains(out, published) {
		t.Errorf("make prints %q", out)
	}
	if got := pathOf(t, dir); got != published {
		t.Errorf("go.mod has the path %s", got)
	}
	if out := command(t, dir, "gofmt", "-l", "."); out != "" {
		t.Errorf("these files are not formatted: %s", out)
	}
	if out := command(t, dir, "go", "list", "-e", "-test", "-f", "{{with .Error}}{{.}}{{end}}{{range .DepsErrors}}{{.}}{{end}}", "./..."); strings.TrimSpace(out) != "" {
		t.Errorf("packages cannot be loaded: %s", out)
	}
	for name, lines := range map[string][]string{
		"docs/guides/embed.md": {`"` + published + `/embed"`, "-require=" + published + "@v0.0.0 -replace=" + published + "=/path/to", "The path of the module is `" + published + "`"},
		"README.md":            {"-require=" + published + "@v0.0.0 -replace=" + published + "="},
		".golangci.yml":        {"(*" + published + "/embed.Daybook).Close"},
		"mcp/tool.go":          {`"daybook/sequence"`}, // a name of the product, not of a package
	} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range lines {
			if !bytes.Contains(raw, []byte(want)) {
				t.Errorf("%s does not contain %s", name, want)
			}
		}
	}
	command(t, dir, "go", "test", "./internal/dev/arch")
	if tier.Nightly() {
		command(t, dir, "go", "vet", "./...") // compiles every package except programs
		command(t, dir, "go", "build", "-ldflags=-s -w", "-o", t.TempDir(), ".")
	}

	// Changing the path back restores every file.
	if _, err := rewrite(dir, from); err != nil {
		t.Fatal(err)
	}
	each(t, dir, func(name string, content []byte) {
		original, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(original, content) {
			t.Errorf("%s differs after the path was changed and changed back", name)
		}
	})
}

func TestBadPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const mod = "module daybook\n\ngo 1.26\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "/", "a b", "example.org/", "example.org//x", "../x", "-x", "example.org/a:b", "https://example.org/x"} {
		if _, err := rewrite(dir, bad); err == nil || !strings.Contains(err.Error(), "example.org/you/daybook") {
			t.Errorf("%q: %v, want an error that shows a good path", bad, err)
		}
	}
	if changed, err := rewrite(dir, "daybook"); err != nil || len(changed) != 0 {
		t.Errorf("its own path: %q, %v", changed, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken.go"), []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rewrite(dir, published); err == nil || pathOf(t, dir) != "daybook" {
		t.Errorf("with a broken file: %v; the module is %s", err, pathOf(t, dir))
	}
	if _, err := rewrite(t.TempDir(), published); err == nil || !strings.Contains(err.Error(), "root of the module") {
		t.Errorf("without a go.mod: %v", err)
	}
}

func TestMakeWithoutPath(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	cmd := exec.CommandContext(t.Context(), "make", "module-path")
	cmd.Dir = "../../.."
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "usage: make module-path PATH=") {
		t.Errorf("make prints %q, %v", out, err)
	}
}

func pathOf(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	return modfile.ModulePath(raw)
}

// command runs a program that must succeed, and returns its standard output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, problems.String())
	}
	return string(out)
}

// each calls fn for every file of a tree that is part of the module.
func each(t *testing.T, root string, fn func(name string, content []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skipDir(root, path, d.Name())
		case !d.Type().IsRegular():
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil {
			fn(name, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copyTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	each(t, filepath.Join("..", "..", ".."), func(name string, content []byte) {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	return dir
}
