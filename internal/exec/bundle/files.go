package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"daybook/internal/exec/typescript"
)

// Files is the bundle of the files of a run, and the imports in them and in the script that
// name packages.
type Files struct {
	Bundle *Bundle
	// Packages are the specifiers of packages in the files, sorted.
	Packages []string
}

// BuildFiles makes the bundle of the files of a run. imports are the relative specifiers in
// the script, which is beside the files. An error that is an *Error is for the user.
//
// The id of a file has a hash of all files, because a file of another run with the same text
// may import another text.
func BuildFiles(files map[string]string, imports []string) (*Files, error) {
	f := &fileBuilder{files: map[string][]byte{}, bundle: newBundle(), packages: map[string]bool{}}
	for name, text := range files {
		f.files[name] = []byte(text)
	}
	encoded, err := json.Marshal(files)
	if err != nil {
		return nil, fmt.Errorf("encode the files of a run: %w", err)
	}
	sum := sha256.Sum256(encoded)
	f.suffix = "#" + hex.EncodeToString(sum[:16])
	for _, specifier := range imports {
		id, err := f.local("main.ts", specifier)
		if err != nil {
			f.bundle.Problems[specifier] = err.Error()
			continue
		}
		f.bundle.Entries[specifier] = id
		f.want(id)
	}
	if err := f.build(); err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			for ext := range strings.SplitSeq(".json .js .mjs .cjs .ts .mts .cts", " ") {
				e.Text = strings.ReplaceAll(e.Text, f.suffix+ext, "")
			}
		}
		return nil, err
	}
	return &Files{Bundle: f.bundle, Packages: slices.Sorted(maps.Keys(f.packages))}, nil
}

type fileBuilder struct {
	wanted
	files    map[string][]byte
	suffix   string
	bundle   *Bundle
	packages map[string]bool
	linker   linker
}

// build converts the files that are imported, and links them.
func (f *fileBuilder) build() error {
	if err := convert(f); err != nil {
		return err
	}
	if err := f.linker.check(); err != nil {
		return err
	}
	for i := range f.bundle.Modules {
		m := &f.bundle.Modules[i]
		m.Names = f.linker.unchecked(m.ID)
	}
	return nil
}

// converted notes what a file takes from others, and adds its mappings to its module.
func (f *fileBuilder) converted(m *Module, found *found) {
	if m.JSON {
		return // no function of it is in a stack trace
	}
	m.File = f.name(m.ID)
	var s struct {
		Mappings string `json:"mappings"`
	}
	if json.Unmarshal(found.sourceMap, &s) == nil { // else positions stay those of the code
		m.Mappings = s.Mappings
	}
	if m.ESM {
		links, complete := typescript.FindLinks(f.files[m.File])
		f.linker.add(m.ID, found.exports, m.Imports, links, complete)
	}
}

func (f *fileBuilder) result() *Bundle { return f.bundle }

func (f *fileBuilder) read(id string) ([]byte, error) { return f.files[f.name(id)], nil }

// name returns the path in an id: PATH, the suffix, and the extension once more.
func (f *fileBuilder) name(id string) string {
	name, _, _ := strings.Cut(id, f.suffix)
	return name
}

func (f *fileBuilder) local(from, specifier string) (string, error) {
	target := path.Join(path.Dir(from), specifier)
	if target == ".." || strings.HasPrefix(target, "../") {
		return "", fmt.Errorf("%.100q leaves the files of the run", specifier)
	}
	name, ok := findFile(f.files, target)
	if !ok {
		// TypeScript imports ./a.ts as ./a.js.
		if base, cut := strings.CutSuffix(target, "js"); cut {
			name, ok = findFile(f.files, base+"ts")
		}
	}
	if !ok {
		if len(f.files) == 0 {
			return "", fmt.Errorf("there is no file %q: the run has no files besides the script; pass them in files", target)
		}
		return "", fmt.Errorf("there is no file %q among the files of the run", target)
	}
	return name + f.suffix + path.Ext(name), nil
}

func (f *fileBuilder) resolve(from, specifier string, _ isRequire) (string, error) {
	s := Parse(specifier)
	switch s.Kind {
	case Relative:
		id, err := f.local(f.name(from), specifier)
		if err == nil {
			f.want(id)
		}
		return id, err
	case Builtin:
		return s.Package, nil
	case Npm:
		if IsBuiltin(specifier) {
			return "node:" + specifier, nil
		}
		f.packages[specifier] = true
		return packageImport + specifier, nil
	}
	return "", fmt.Errorf("cannot import %.100q: %s", specifier, s.Why)
}

// packageImport starts the value of Module.Imports for a package in a file of a run. What
// follows is a specifier among the Entries of the bundle of packages.
const packageImport = "entry:"
