// Package arch_test holds the import rules of the module. They are the
// architecture: see docs/ARCHITECTURE.md.
package arch_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// allowed lists, per package, what it may import of this module, plus "C" where
// cgo is permitted. A package missing from the table fails the test: decide its
// layer first.
var allowed = map[string][]string{
	"":                                 {"internal/cli"},
	"events":                           {},
	"ledger":                           {"events"},
	"projections":                      {"events", "internal/budget", "internal/cmemory", "internal/exhausted", "internal/reads", "internal/redact"},
	"audit":                            {"events", "internal/exhausted", "internal/reads"},
	"damage":                           {"events"},
	"runner":                           {"events", "ledger", "internal/fairness"},
	"webhook":                          {"events"},
	"conversation":                     {"events", "ledger", "projections", "internal/redact"},
	"toolserver":                       {},
	"retention":                        {"events"},
	"catalog":                          {},
	"httpapi":                          {"catalog", "events", "ledger", "projections", "conversation", "audit", "webhook", "damage", "retention", "internal/access", "internal/budget", "internal/reads"},
	"mcp":                              {"catalog", "events", "ledger", "projections", "conversation", "internal/access", "internal/budget", "internal/lines", "internal/link", "internal/reads"},
	"acp":                              {"events", "ledger", "projections", "conversation", "internal/lines", "internal/link"},
	"internal/cmemory":                 {"C"},
	"internal/lines":                   {},
	"internal/link":                    {"internal/lines"},
	"internal/tier":                    {},
	"internal/modpath":                 {},
	"internal/natsserver":              {"internal/exhausted", "internal/streamfiles"},
	"internal/natscreds":               {},
	"internal/streamfiles":             {},
	"internal/fairness":                {},
	"internal/budget":                  {},
	"internal/reads":                   {},
	"internal/jetstream":               {"events", "internal/budget", "internal/exhausted", "internal/fairness", "internal/reads"},
	"internal/jetstream/jetstreamtest": {"internal/jetstream", "internal/natsserver"},
	"internal/access":                  {"events", "ledger"},
	"internal/connections":             {},
	"internal/exhausted":               {},
	"internal/keyring":                 {},
	"internal/redact":                  {},
	"internal/v8":                      {"C"},
	"internal/sandbox":                 {},
	"internal/typescript":              {},
	"internal/worker":                  {"internal/v8", "internal/sandbox", "internal/typescript"},
	"internal/conformance":             {"mcp"},
	"internal/frozen":                  {},
	"internal/torture":                 {"embed", "events", "internal/cli"},
	"internal/attack":                  {"internal/cli"},
	"internal/bench":                   {"embed", "events", "projections", "internal/bench/gobench", "internal/v8", "internal/jetstream", "internal/natsserver"},
	"internal/bench/gobench":           {},
	"embed":                            {"catalog", "events", "ledger", "projections", "conversation", "audit", "damage", "runner", "webhook", "toolserver", "retention", "httpapi", "mcp", "acp", "internal/natsserver", "internal/natscreds", "internal/streamfiles", "internal/jetstream", "internal/worker", "internal/access", "internal/budget", "internal/connections", "internal/exhausted", "internal/fairness", "internal/keyring", "internal/conformance", "internal/link", "internal/reads"},
	"internal/cli":                     {"damage", "embed", "events", "internal/access", "internal/natscreds"},
	"internal/docgen":                  {"httpapi", "internal/cli", "internal/docgen/eventdoc"},
	"internal/docgen/eventdoc":         {"events"},
	"examples/embed":                   {"embed"},
	"examples/host-calls":              {"embed", "events", "toolserver"},
}

// owners lists the outside modules that only some packages may import, and
// which.
var owners = map[string][]string{
	"github.com/nats-io/nats-server": {"internal/natsserver"},
	"github.com/nats-io/nats.go":     {"internal/jetstream", "internal/natsserver"},
	"github.com/nats-io/jwt":         {"internal/natscreds"},
	"github.com/nats-io/nkeys":       {"internal/natscreds", "internal/natsserver"},
	"github.com/mattn/go-sqlite3":    {"projections"},
	"github.com/tommie/v8go":         {"internal/v8"},
	"github.com/evanw/esbuild":       {"internal/typescript"},
	"github.com/tree-sitter":         {"internal/typescript"},
	"golang.org/x/net":               {"internal/sandbox", "internal/connections"},
	"github.com/coreos/go-oidc":      {"internal/access"},
	"github.com/go-jose/go-jose":     {"internal/access"},
	"golang.org/x/mod":               {"audit", "internal/modpath"},
	"github.com/coder/acp-go-sdk":    {"acp"},
}

func TestImports(t *testing.T) {
	// Files are parsed here rather than listed by the go command, so that the
	// test cache sees what was read.
	const root = "../.."
	module := modulePath(t, root)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(filepath.ToSlash(dir), ".")
		may, ok := allowed[pkg]
		if !ok {
			t.Errorf("%s: package %q is not in the import table", path, pkg)
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if dep, ours := strings.CutPrefix(imp, module+"/"); (ours || imp == "C") && !slices.Contains(may, dep) {
				t.Errorf("%s: %q must not import %s", path, pkg, imp)
			}
			for prefix, who := range owners {
				if strings.HasPrefix(imp, prefix) && !slices.Contains(who, pkg) {
					t.Errorf("%s: only %v may import %s", path, who, prefix)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// modulePath reads the path of the module from its go.mod.
func modulePath(t *testing.T, root string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	path := modfile.ModulePath(raw)
	if path == "" {
		t.Fatal("go.mod has no module line")
	}
	return path
}

// TestEventsIsPlainData keeps the catalogue free of anything that could make
// its meaning depend on a library.
func TestEventsIsPlainData(t *testing.T) {
	files, err := filepath.Glob("../../events/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files found: %v", err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") || slices.Contains([]string{"net", "log", "database"}, first) {
				t.Errorf("%s: events must import the plain standard library only, not %s", path, imp)
			}
		}
	}
}
