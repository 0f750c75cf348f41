package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/evanw/esbuild/pkg/api"

	"daybook/internal/exec/typescript"
)

// Build makes the bundle of a request. An error that is an *Error is for the user.
func Build(r *Request) (*Bundle, error) {
	b := &builder{packages: map[string]*Package{}, opened: map[string]*pack{}, bundle: newBundle()}
	for i := range r.Packages {
		b.packages[r.Packages[i].ID()] = &r.Packages[i]
	}
	maps.Copy(b.bundle.Problems, r.Problems)
	for _, e := range r.Entries {
		id, err := b.inPackage(e.Package, e.Subpath, false)
		if err != nil {
			b.bundle.Problems[e.Specifier] = err.Error()
			continue
		}
		b.bundle.Entries[e.Specifier] = id
		b.want(id)
	}
	if err := convert(b); err != nil {
		return nil, err
	}
	return b.bundle, nil
}

func newBundle() *Bundle {
	return &Bundle{Version: Version, Entries: map[string]string{}, Problems: map[string]string{}, Modules: []Module{}}
}

// builder makes a bundle of packages.
type builder struct {
	wanted
	packages map[string]*Package
	opened   map[string]*pack
	bundle   *Bundle
}

// wanted holds the ids of modules that are not converted yet.
type wanted struct {
	known map[string]bool
	next  []string
}

func (w *wanted) want(id string) {
	if w.known[id] {
		return
	}
	if w.known == nil {
		w.known = map[string]bool{}
	}
	w.known[id] = true
	w.next = append(w.next, id)
}

func (w *wanted) take() []string {
	ids := w.next
	w.next = nil
	slices.Sort(ids)
	return ids
}

// source is what convert reads modules from.
type source interface {
	// take returns the ids of the modules to convert next.
	take() []string
	// read returns the text of a module.
	read(id string) ([]byte, error)
	// resolve returns what a specifier in a module names: a module that will be converted,
	// or a built-in one.
	resolve(from, specifier string, required isRequire) (string, error)
	result() *Bundle
	// converted receives each module after its conversion.
	converted(m *Module, f *found)
}

func (*builder) converted(*Module, *found) {}

func (b *builder) result() *Bundle { return b.bundle }

const idPrefix = "npm:"

// split returns the package and the path in the id of a module.
func (b *builder) split(id string) (*pack, string) {
	id = strings.TrimPrefix(id, idPrefix)
	at := strings.IndexByte(id, '/')
	if strings.HasPrefix(id, "@") {
		at += 1 + strings.IndexByte(id[at+1:], '/')
	}
	return b.opened[id[:at]], id[at+1:]
}

func (b *builder) read(id string) ([]byte, error) {
	p, file := b.split(id)
	return p.files[file], nil
}

// open returns a package of the request.
func (b *builder) open(id string) (*pack, error) {
	if p := b.opened[id]; p != nil {
		return p, nil
	}
	known := b.packages[id]
	if known == nil {
		return nil, fmt.Errorf("package %s is not admitted; an administrator admits it with daybook module add %s", id, id)
	}
	p, err := open(known)
	if err != nil {
		return nil, err
	}
	b.opened[id] = p
	return p, nil
}

// inPackage returns the id of the module that a subpath of a package names.
func (b *builder) inPackage(id, subpath string, required isRequire) (string, error) {
	p, err := b.open(id)
	if err != nil {
		return "", err
	}
	file, err := p.entry(subpath, required)
	if err != nil {
		return "", err
	}
	return idPrefix + p.ID() + "/" + file, nil
}

func (b *builder) resolve(from, specifier string, required isRequire) (id string, err error) {
	defer func() {
		if err == nil && !strings.HasPrefix(id, "node:") {
			b.want(id)
		}
	}()
	p, file := b.split(from)
	if target, ok := strings.CutPrefix(specifier, "#"); ok && target != "" {
		if len(p.manifest.Imports) == 0 {
			return "", fmt.Errorf("package %s has no %q in its imports", p.ID(), specifier)
		}
		if specifier, err = p.target(p.manifest.Imports, specifier, required); err != nil || specifier == "" {
			return "", errors.Join(err, fmt.Errorf("package %s has no %q in its imports", p.ID(), "#"+target))
		}
		file = "package.json" // targets are relative to the package
	}
	// NAME/ is a package, although a built-in module may have its name.
	name, isPackage := strings.CutSuffix(specifier, "/")
	s := Parse(name)
	switch s.Kind {
	case Relative:
		if file, err = p.file(path.Join(path.Dir(file), s.Subpath)); err != nil {
			return "", err
		}
		return idPrefix + p.ID() + "/" + file, nil
	case Builtin:
		return s.Package, nil
	case Npm:
		if s.Package == p.manifest.Name && s.Package == p.Name {
			return b.inPackage(p.ID(), s.Subpath, required)
		}
		if dependency, ok := p.Dependencies[s.Package]; ok {
			return b.inPackage(dependency, s.Subpath, required)
		}
		if IsBuiltin(specifier) && !isPackage {
			return "node:" + specifier, nil
		}
		return "", fmt.Errorf("package %s imports %q, which is none of its admitted dependencies", p.ID(), specifier)
	}
	return "", fmt.Errorf("package %s imports %.100q: %s", p.ID(), specifier, s.Why)
}

// IsBuiltin reports whether a specifier without node: is that of a built-in module of Node.
func IsBuiltin(name string) bool {
	name, _, _ = strings.Cut(name, "/")
	return slices.Contains([]string{
		"assert", "async_hooks", "buffer", "child_process", "cluster", "console", "constants", "crypto", "dgram", "diagnostics_channel", "dns", "domain", "events",
		"fs", "http", "http2", "https", "inspector", "module", "net", "os", "path", "perf_hooks", "process", "punycode", "querystring", "readline", "repl", "stream",
		"string_decoder", "sys", "timers", "tls", "trace_events", "tty", "url", "util", "v8", "vm", "wasi", "worker_threads", "zlib",
	}, name)
}

// HasBuiltin reports whether the platform has a built-in module, given as node:NAME. The
// prelude has the same names (nodeModules in 88_platform.js).
func HasBuiltin(id string) bool {
	return slices.Contains([]string{
		"node:assert", "node:assert/strict", "node:buffer", "node:crypto", "node:events", "node:path", "node:path/posix", "node:path/win32", "node:querystring",
		"node:string_decoder", "node:timers", "node:timers/promises", "node:url", "node:util", "node:util/types",
	}, id)
}

// esbuild keeps all modules of one call in memory. These limit one call; a larger module has a
// call of its own.
const (
	maxModulesPerCall = 128
	maxBytesPerCall   = 512 << 10
)

// nextCall returns how many of ids, from the first one on, the next call of esbuild converts. JSON
// counts too.
func nextCall(s source, ids []string) (int, error) {
	size := 0
	for i, id := range ids[:min(len(ids), maxModulesPerCall)] {
		text, err := s.read(id)
		if err != nil {
			return 0, err
		}
		if size += len(text); size > maxBytesPerCall {
			return max(i, 1), nil
		}
	}
	return min(len(ids), maxModulesPerCall), nil
}

// convert converts all wanted modules, and those that they import.
func convert(s source) error {
	b := s.result()
	var queue []string
	for {
		if queue = append(queue, s.take()...); len(queue) == 0 {
			break
		}
		if len(b.Modules)+len(queue) > maxModules {
			return &Error{fmt.Sprintf("the imports need more than %d modules: import fewer or smaller packages", maxModules)}
		}
		n, err := nextCall(s, queue)
		if err != nil {
			return err
		}
		ids := queue[:n]
		queue = queue[n:]
		found, err := findImports(s, ids)
		if err != nil {
			return err
		}
		for _, id := range ids {
			m, err := convertModule(s, id, found[id])
			if err != nil {
				return err
			}
			s.converted(m, found[id])
			b.Modules = append(b.Modules, *m)
		}
	}
	slices.SortFunc(b.Modules, func(x, y Module) int { return strings.Compare(x.ID, y.ID) })
	return nil
}

// found is what esbuild found in a module.
type found struct {
	isESM    bool
	exports  []string // names, without those of export * statements
	imports  map[string]string
	problems map[string]string
	// sourceMap is set when a file of a run is converted.
	sourceMap []byte
}

// tsconfig has the settings with which scripts are read too.
const tsconfig = `{"compilerOptions":{"verbatimModuleSyntax":true,"useDefineForClassFields":true}}`

// findImports resolves the imports in some modules.
func findImports(s source, ids []string) (map[string]*found, error) {
	all := map[string]*found{}
	var entries []api.EntryPoint
	for i, id := range ids {
		all[id] = &found{imports: map[string]string{}, problems: map[string]string{}}
		if isJSON(id) {
			continue
		}
		entries = append(entries, api.EntryPoint{InputPath: id, OutputPath: fmt.Sprintf("%d", i)})
	}
	if len(entries) == 0 {
		return all, nil
	}
	// esbuild calls both functions from several goroutines, which would make the order of
	// wanted modules depend on time.
	type use struct {
		from, specifier string
		required        isRequire
	}
	uses := make(chan use, 64)
	list := make(chan []use)
	go func() {
		var l []use
		for u := range uses {
			l = append(l, u)
		}
		list <- l
	}()
	const space = "module"
	plugin := api.Plugin{Name: "modules", Setup: func(build api.PluginBuild) {
		build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			if a.Kind == api.ResolveEntryPoint {
				return api.OnResolveResult{Path: a.Path, Namespace: space}, nil
			}
			required := isRequire(a.Kind == api.ResolveJSRequireCall || a.Kind == api.ResolveJSRequireResolve)
			uses <- use{a.Importer, a.Path, required}
			return api.OnResolveResult{Path: a.Path, External: true}, nil
		})
		build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: space}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			text, err := s.read(a.Path)
			if err != nil {
				return api.OnLoadResult{}, err
			}
			code, loader := withoutMapComment(string(text)), loaderOf(a.Path)
			return api.OnLoadResult{Contents: &code, Loader: loader}, nil
		})
	}}
	result := api.Build(api.BuildOptions{
		EntryPointsAdvanced: entries, Bundle: true, Write: false, Metafile: true, Outdir: "/out", AbsWorkingDir: "/", Platform: api.PlatformNeutral,
		Format: api.FormatESModule, Target: api.ESNext, LogLevel: api.LogLevelSilent, Plugins: []api.Plugin{plugin}, TsconfigRaw: tsconfig,
		LegalComments: api.LegalCommentsNone, TreeShaking: api.TreeShakingFalse, Charset: api.CharsetUTF8,
	})
	close(uses)
	made := <-list
	if len(result.Errors) > 0 {
		return nil, conversionError(result.Errors)
	}
	var meta struct {
		Inputs map[string]struct {
			Format string `json:"format"`
		} `json:"inputs"`
		Outputs map[string]struct {
			EntryPoint string   `json:"entryPoint"`
			Exports    []string `json:"exports"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal([]byte(result.Metafile), &meta); err != nil {
		return nil, fmt.Errorf("read what esbuild found: %w", err)
	}
	slices.SortFunc(made, func(a, b use) int {
		if c := strings.Compare(a.from+"\n"+a.specifier, b.from+"\n"+b.specifier); c != 0 {
			return c
		}
		if a.required == b.required {
			return 0
		} else if !a.required {
			return -1
		}
		return 1
	})
	for _, u := range slices.Compact(made) {
		f := all[u.from]
		if f == nil || f.imports[u.specifier] != "" {
			continue // a module that also requires what it imports gets one module for both
		}
		id, err := s.resolve(u.from, u.specifier, u.required)
		if err != nil {
			f.problems[u.specifier] = err.Error()
			continue
		}
		f.imports[u.specifier] = id
		delete(f.problems, u.specifier)
	}
	for id, f := range all {
		f.isESM = meta.Inputs[space+":"+id].Format == "esm"
	}
	for _, out := range meta.Outputs {
		if f := all[strings.TrimPrefix(out.EntryPoint, space+":")]; f != nil {
			f.exports = out.Exports
		}
	}
	return all, nil
}

// convertModule converts a module to the body of a function (exports, require, module).
func convertModule(s source, id string, f *found) (*Module, error) {
	text, err := s.read(id)
	if err != nil {
		return nil, err
	}
	if isJSON(id) {
		return convertJSON(id, text)
	}
	options := api.TransformOptions{
		Loader: loaderOf(id), Format: api.FormatCommonJS, Target: api.ESNext, Platform: api.PlatformNeutral, LogLevel: api.LogLevelSilent,
		LegalComments: api.LegalCommentsNone, TreeShaking: api.TreeShakingFalse, Charset: api.CharsetUTF8, TsconfigRaw: tsconfig,
		Sourcefile: "module",
		// Dynamic imports become calls of require. Isolates whose heap is saved have no
		// DisposableStack, and no V8 has decorators.
		Supported: map[string]bool{"dynamic-import": false, "using": false, "decorators": false},
		Define:    map[string]string{"process.env.NODE_ENV": `"production"`, "global": "globalThis", "import.meta.url": string(quote(id))},
	}
	if !strings.HasPrefix(id, idPrefix) {
		options.Sourcemap, options.SourcesContent = api.SourceMapExternal, api.SourcesContentExclude
	}
	result := api.Transform(withoutMapComment(string(text)), options)
	if len(result.Errors) > 0 {
		for i := range result.Errors {
			if l := result.Errors[i].Location; l != nil {
				l.File = id
			}
		}
		return nil, conversionError(result.Errors)
	}
	code := hardenHelpers(result.Code)
	if bytes.HasPrefix(code, []byte("#!")) {
		copy(code, "//") // a function body has no hashbang
	}
	p := typescript.SplitLiterals(&typescript.Program{Code: code, Map: result.Map})
	f.sourceMap = p.Map
	m := &Module{ID: id, Code: string(p.Code), ESM: f.isESM}
	if len(f.imports) > 0 {
		m.Imports = maps.Clone(f.imports)
	}
	if len(f.problems) > 0 {
		m.Problems = maps.Clone(f.problems)
	}
	return m, nil
}

// convertJSON returns a module of JSON, which the prelude parses: as a literal, deeply nested JSON
// would exceed the stack of V8.
func convertJSON(id string, text []byte) (*Module, error) {
	text = bytes.ToValidUTF8(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\ufffd"))
	var valid json.RawMessage
	err := json.Unmarshal(text, &valid)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := text[:max(0, min(int(e.Offset)-1, len(text)))]
		line, column := bytes.Count(before, []byte("\n"))+1, len(utf16.Encode([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:]))))+1
		return nil, &Error{fmt.Sprintf("malformed JSON: %v (%s:%d:%d)", e, id, line, column)}
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", id, err)
	}
	return &Module{ID: id, Code: string(text), JSON: true}, nil
}

// hardenHelpers changes the functions of esbuild at the start of a converted module, which
// define exports and imports. The descriptors that they define have only own properties, whatever
// a script added to Object.prototype. An import of a module that has __esModule (ESM, or CommonJS
// converted from it) returns its exports and not a copy: while the module is evaluated, in a cycle
// of imports, a copy lacks the names that export * adds later. The number of lines stays. A
// package may have its own copy of these functions, which then changes in the same way.
func hardenHelpers(code []byte) []byte {
	for _, last := range []*regexp.Regexp{toCommonJS, toESM} {
		at := last.FindIndex(code)
		if at == nil {
			continue
		}
		helpers := slices.Clone(code[:at[1]])
		for _, h := range helperChanges {
			helpers = h.find.ReplaceAll(helpers, []byte(h.replacement))
		}
		return append(helpers, code[at[1]:]...)
	}
	return code
}

// toCommonJS is in the last of these functions of a module with exports, toESM in that of a module
// without.
var (
	toCommonJS = regexp.MustCompile(`__defProp\(\{\}, "__esModule", \{( value:)`)
	toESM      = regexp.MustCompile(`__defProp\(([\w$]+), "default", \{( value:)`)
)

// helperChanges are the changes of hardenHelpers. esbuild gives parameters other names if the
// module has theirs. It renames the functions too if a module uses their names without declaring
// them; such a module keeps them as they are. The second parameter of __toESM is set in code for
// Node, where the default of CommonJS is module.exports.
var helperChanges = []struct {
	find        *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`for \(var ([\w$]+) in ([\w$]+)\)\n    __defProp\(([\w$]+), ([\w$]+), \{`), "for (var ${1} in ${2})\n    if (__hasOwnProp.call(${2}, ${1})) __defProp(${3}, ${4}, { __proto__: null,"},
	{regexp.MustCompile(`__defProp\(([\w$]+), ([\w$]+), \{ get: \(\)`), "__defProp(${1}, ${2}, { __proto__: null, get: ()"},
	{regexp.MustCompile(`var __toESM = \(([\w$]+), ([\w$]+), ([\w$]+)\) => \(`), "var __toESM = (${1}, ${2}, ${3}) => !${2} && ${1} != null && ${1}.__esModule ? ${1} : ("},
	{toESM, "__defProp(${1}, \"default\", { __proto__: null,${2}"},
	{toCommonJS, "__defProp({}, \"__esModule\", { __proto__: null,${1}"},
}

// quote returns a text as JSON.
func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return b
}

// conversionError returns the first error of esbuild as an *Error.
func conversionError(messages []api.Message) error {
	m := messages[0]
	text := m.Text
	if strings.Contains(text, `"cjs" output format`) {
		text = "top-level await is supported in scripts, and not in the modules that they import"
	}
	if l := m.Location; l != nil {
		before := l.LineText[:min(max(0, l.Column), len(l.LineText))] // Column counts bytes
		text = fmt.Sprintf("%s (%s:%d:%d)", text, strings.TrimPrefix(l.File, "module:"), l.Line, len(utf16.Encode([]rune(before)))+1)
	}
	return &Error{text}
}

// withoutMapComment disables a sourceMappingURL comment. esbuild would read the map that the
// last one names.
func withoutMapComment(code string) string {
	if strings.Contains(code, "sourceMappingURL") {
		code += "\n//# sourceMappingURL=."
	}
	return strings.ReplaceAll(code, "\x00", "\ufffd")
}

func isJSON(id string) bool { return strings.EqualFold(path.Ext(id), ".json") }

func loaderOf(id string) api.Loader {
	switch strings.ToLower(path.Ext(id)) {
	case ".ts", ".mts", ".cts":
		return api.LoaderTS
	}
	return api.LoaderJS
}
