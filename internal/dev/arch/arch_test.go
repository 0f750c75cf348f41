// Package arch_test holds rules for the source of the module, as tests: which package may
// import which, words, comments, the files that documents name, and builds that must fail.
// docs/ARCHITECTURE.md describes the architecture.
//
// The rules, by file:
//
//   - arch_test.go: which package may import which
//   - packagedocs_test.go: the comment of a package lists its files
//   - docs_test.go, makefile_test.go: the paths exist that documents and the Makefile name
//   - words_test.go: phrases of words.txt are not in new text
//   - exports_test.go: exported names have users in other packages
//   - coveredby_test.go: the tests exist that cover a test of the nightly tier
//   - renames_test.go: files are renamed by package durable, with named exceptions
//   - build_test.go: a build for another system, or without cgo, fails with a clear message
package arch_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// allowed lists the packages of this module that each package may import, and "C" if it
// may use cgo. A package that is missing from the table fails the test: decide its layer
// first.
var allowed = map[string][]string{
	"":                               {"internal/cli"},
	"events":                         {},
	"ledger":                         {"events", "internal/modules/runfiles"},
	"projections":                    {"events", "internal/resources/budget", "internal/resources/cmemory", "internal/resources/exhausted", "internal/resources/reads", "internal/redact", "internal/durable"},
	"proof":                          {},
	"internal/eventproof":            {"events", "proof", "internal/spans"},
	"internal/globals":               {},
	"internal/keyfile":               {"internal/durable", "proof"},
	"internal/translog":              {"internal/spill", "internal/keyfile", "internal/redact", "events", "proof", "internal/eventproof", "internal/durable", "internal/spans", "internal/resources/exhausted"},
	"internal/witness":               {"internal/datadir", "internal/durable", "proof"},
	"internal/translog/translogtest": {"events", "proof", "internal/eventproof", "internal/translog", "internal/store/jetstream"},
	"audit":                          {"internal/spill", "events", "internal/resources/reads", "internal/durable", "internal/spans", "proof", "internal/eventproof"},
	"internal/lifecycle/damage":      {"events"},
	"runner":                         {"events", "ledger", "internal/resources/fairness", "internal/modules/runfiles"},
	"internal/policy":                {},
	"internal/publicaddr":            {},
	"internal/webhook":               {"events", "internal/durable", "internal/publicaddr"},
	"internal/artifacts":             {"events", "internal/resources/budget", "projections"},
	"internal/contextstore":          {"events", "ledger", "projections", "internal/redact", "internal/web"},
	"internal/tools/toolserver":      {"internal/redact"},
	"internal/tools/fetcher":         {"internal/policy", "internal/publicaddr"},
	"internal/lifecycle/retention":   {"events", "internal/spill"},
	"internal/tools/catalog":         {"events", "ledger"},
	"httpapi":                        {"internal/tools/catalog", "events", "internal/globals", "ledger", "projections", "internal/contextstore", "audit", "internal/webhook", "internal/lifecycle/damage", "internal/lifecycle/retention", "internal/web/access", "internal/resources/budget", "internal/resources/reads", "proof", "internal/eventproof", "internal/spans", "internal/web", "internal/web/feed", "internal/web/pages"},
	"mcp":                            {"internal/artifacts", "internal/tools/catalog", "events", "ledger", "projections", "internal/contextstore", "internal/web/access", "internal/resources/budget", "internal/lines", "internal/link", "internal/resources/reads", "internal/web"},
	"acp":                            {"internal/artifacts", "events", "ledger", "projections", "internal/contextstore", "internal/lines", "internal/link", "internal/tools/toolserver"},
	"internal/resources/cmemory":     {"C"},
	"internal/durable":               {},
	"internal/lines":                 {},
	"internal/link":                  {"internal/lines"},
	"internal/spans":                 {},
	"internal/spill":                 {},
	"internal/dev/tier":              {},
	"internal/dev/modpath":           {},
	"internal/store/natsserver":      {"internal/resources/exhausted", "internal/store/streamfiles", "internal/durable"},
	"internal/store/natscreds":       {"internal/durable"},
	"internal/store/streamfiles":     {"internal/durable", "internal/spans"},
	"internal/resources/fairness":    {},
	"internal/resources/budget":      {},
	"internal/resources/disk":        {"events", "internal/resources/exhausted"},
	"internal/resources/gomemory":    {},
	"internal/datadir":               {},
	"internal/owner":                 {"events", "ledger", "internal/datadir", "internal/durable", "internal/link"},
	"internal/admission":             {"events", "ledger", "internal/link", "internal/store/jetstream", "internal/web/access"},
	"internal/resources/reads":       {},
	"internal/store/jet":             {"events", "internal/resources/exhausted", "internal/resources/reads"},
	"internal/store/blobs":           {"events", "internal/resources/budget", "internal/spill", "internal/store/jet"},
	"internal/store/archive":         {"events", "internal/spill"},
	"internal/store/stream":          {"events", "internal/resources/budget", "internal/resources/exhausted", "internal/spans", "internal/store/archive", "internal/store/jet"},
	"internal/store/queue":           {"events", "runner", "internal/resources/fairness", "internal/store/jet", "internal/store/stream"},
	"internal/store/jetstream":       {"events", "internal/store/jet", "internal/store/blobs", "internal/store/stream", "internal/store/queue"},
	"internal/store/exported":        {"events", "proof", "internal/eventproof"},
	"internal/store/fill":            {"events", "internal/store/stream"},
	"internal/store/storetest":       {"internal/store/jetstream", "internal/store/natsserver"},
	"internal/web":                   {"ledger"},
	"internal/web/access":            {"internal/redact", "events", "ledger", "internal/durable"},
	"internal/web/client":            {"events", "httpapi", "internal/globals", "internal/lifecycle/retention", "internal/webhook", "projections"},
	"internal/web/connections":       {},
	"internal/web/feed":              {"events", "projections", "internal/resources/budget", "internal/resources/reads"},
	"internal/web/pages":             {"events"},
	"internal/resources/exhausted":   {},
	"internal/lifecycle/keyring":     {"internal/durable"},
	"internal/redact":                {},
	"internal/exec/platform":         {},
	"internal/exec/v8":               {"C", "internal/exec/platform"},
	"internal/exec/sandbox":          {},
	"internal/exec/typescript":       {},
	"internal/exec/migration":        {"events", "internal/exec/replay", "internal/spill", "ledger", "projections", "runner"},
	"internal/exec/bundle":           {"internal/exec/typescript", "internal/modules/tarball"},
	"internal/modules/tarball":       {},
	"internal/modules/tarballtest":   {},
	"internal/modules/registrytest":  {"internal/modules/tarballtest"},
	"internal/modules/runfiles":      {"internal/modules/tarball"},
	"internal/modules/wasm":          {"events", "runner"},
	"internal/modules/registry":      {"internal/modules/tarball"},
	"internal/modules":               {"events", "runner", "internal/exec/bundle", "internal/modules/registry", "internal/modules/tarball"},
	"internal/exec/replay":           {"events", "internal/globals", "internal/modules/wasm", "ledger", "runner"},
	"internal/exec/worker":           {"events", "runner", "internal/globals", "internal/exec/v8", "internal/exec/sandbox", "internal/exec/typescript", "internal/exec/bundle", "internal/modules/runfiles", "internal/modules/wasm"},
	"internal/dev/conformance":       {"mcp", "embed"},
	"internal/dev/frozen":            {},
	"internal/dev/otherwitness":      {},
	"internal/dev/torture":           {"embed", "events", "internal/cli"},
	"internal/dev/verdicts":          {"audit", "internal/eventproof", "proof"},
	"internal/dev/attack":            {"internal/cli"},
	"internal/dev/bench":             {"embed", "events", "projections", "internal/dev/bench/gobench", "internal/dev/process", "internal/web/client", "internal/exec/v8", "internal/store/jetstream", "internal/store/natsserver"},
	"internal/dev/bench/gobench":     {},
	"internal/dev/peers":             {"internal/dev/process"},
	"internal/dev/growth":            {"events", "internal/dev/process", "internal/store/fill", "internal/store/jetstream", "internal/store/natsserver", "internal/web/client"},
	"internal/dev/process":           {},
	"embed":                          {"internal/redact", "internal/modules", "internal/modules/registry", "internal/modules/wasm", "internal/tools/catalog", "events", "internal/globals", "ledger", "projections", "internal/contextstore", "audit", "internal/lifecycle/damage", "runner", "internal/webhook", "internal/policy", "internal/tools/fetcher", "internal/tools/toolserver", "internal/lifecycle/retention", "httpapi", "mcp", "acp", "internal/admission", "internal/datadir", "internal/resources/gomemory", "internal/store/archive", "internal/store/exported", "internal/store/natsserver", "internal/store/natscreds", "internal/store/streamfiles", "internal/store/jet", "internal/store/stream", "internal/store/jetstream", "internal/exec/worker", "internal/exec/replay", "internal/exec/migration", "internal/web/access", "internal/resources/budget", "internal/resources/disk", "internal/web/connections", "internal/resources/exhausted", "internal/resources/fairness", "internal/lifecycle/keyring", "internal/link", "internal/owner", "internal/resources/reads", "internal/durable", "internal/spans", "proof", "internal/eventproof", "internal/translog", "internal/web"},
	"internal/cli":                   {"internal/modules/runfiles", "internal/policy", "internal/tools/fetcher", "internal/globals", "internal/keyfile", "proof", "internal/datadir", "internal/witness", "internal/redact", "internal/lifecycle/damage", "embed", "events", "internal/web/access", "internal/web/client", "internal/store/natscreds", "internal/cli/background", "internal/cli/prompt", "internal/cli/settings", "internal/cli/terminal"},
	"internal/cli/background":        {"embed"},
	"internal/cli/prompt":            {"internal/cli/terminal"},
	"internal/cli/settings":          {"internal/web", "internal/cli/terminal"},
	"internal/cli/terminal":          {},
	"internal/dev/docgen":            {"httpapi", "internal/cli", "internal/dev/docgen/eventdoc", "internal/dev/wpt"},
	"internal/dev/docgen/eventdoc":   {"events"},
	"internal/dev/wpt":               {},
	"examples/embed":                 {"embed"},
	"examples/forecast":              {"embed", "events"},
	"examples/host-calls":            {"embed", "events"},
}

// owners lists the modules that only some packages may import, with those packages.
var owners = map[string][]string{
	"github.com/nats-io/nats-server": {"internal/store/natsserver"},
	"github.com/nats-io/nats.go":     {"internal/store/jet", "internal/store/blobs", "internal/store/fill", "internal/store/stream", "internal/store/queue", "internal/store/natsserver"},
	"github.com/nats-io/jwt":         {"internal/store/natscreds"},
	"github.com/nats-io/nkeys":       {"internal/store/natscreds", "internal/store/natsserver"},
	"github.com/mattn/go-sqlite3":    {"projections"},
	"github.com/tommie/v8go":         {"internal/exec/v8"},
	"deps.dev/util/semver":           {"internal/modules"},
	"github.com/evanw/esbuild":       {"internal/exec/typescript", "internal/exec/bundle"},
	"github.com/tree-sitter":         {"internal/exec/typescript"},
	"golang.org/x/net":               {"internal/exec/platform", "internal/exec/sandbox", "internal/web/connections"},
	"github.com/coreos/go-oidc":      {"internal/web/access"},
	"github.com/go-jose/go-jose":     {"internal/web/access"},
	"golang.org/x/oauth2":            {"internal/tools/fetcher"},
	"golang.org/x/mod":               {"internal/dev/modpath", "internal/dev/verdicts", "proof", "internal/translog", "internal/translog/translogtest"},
	"github.com/coder/acp-go-sdk":    {"acp"},
	"github.com/open-policy-agent":   {"internal/policy"},
}

func TestImports(t *testing.T) {
	// The test parses the files itself, so that the test cache knows what it read. The
	// go command would hide it.
	const root = "../../.."
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

// TestEventsIsPlainData keeps libraries out of package events, because the meaning of
// events must not depend on them.
func TestEventsIsPlainData(t *testing.T) {
	files, err := filepath.Glob("../../../events/*.go")
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

// TestReach checks all direct and indirect imports of the packages with which third
// parties verify a ledger. Neither package needs a server, a database or a C compiler, and
// proof needs only the notes and trees of x/mod.
func TestReach(t *testing.T) {
	const root = "../../.."
	module := modulePath(t, root)
	for _, pkg := range []string{"proof", "audit"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{len .CgoFiles}}{{end}}", "./"+pkg)
		list.Dir = root
		raw, err := list.Output()
		if err != nil {
			t.Fatalf("list the imports of %s: %v", pkg, err)
		}
		for line := range strings.Lines(string(raw)) {
			imp, cgo, _ := strings.Cut(strings.TrimSpace(line), " ")
			if cgo != "0" {
				t.Errorf("%s reaches %s, which needs cgo", pkg, imp)
			}
			for _, prefix := range []string{"github.com/nats-io/", "github.com/mattn/go-sqlite3"} {
				if strings.HasPrefix(imp, prefix) {
					t.Errorf("%s reaches %s", pkg, imp)
				}
			}
			if pkg == "proof" && imp != module+"/proof" && !strings.HasPrefix(imp, "golang.org/x/mod/sumdb/") {
				t.Errorf("proof reaches %s", imp)
			}
		}
	}
}
